"""An installation in a process of its own, for the tests to kill: python -m tests.install.session FOLDER WHEELS HOW.

With a fourth argument it says what the command says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from envcheck.cli.installation import InstallProgress
from envcheck.install.places import place_of
from envcheck.install.replacement import NEW, OLD
from envcheck.install.transaction import Transaction, Watch
from envcheck.model import INSTALLED, Outcome, Plan, Step, UserError
from envcheck.plan.verify import find_uv
from tests.install.wheels import PARTS, site_packages
from tests.patience import wait_for
from tests.typed import command_step

HELD = 9


class Told(Watch):
    """Say on standard output how it goes."""

    def begins(self, what: str) -> None:
        print("begins", what, flush=True)

    def hears(self, line: str) -> None:
        print("hears", line, flush=True)

    def settled(self, outcome: Outcome, *, existed: bool) -> None:
        print("settled", NEW if outcome.outcome == INSTALLED else OLD, outcome.why, flush=True)


def transaction(folder: Path, *steps: Step, judge: Callable[[], str] = str) -> Transaction:
    """Return a transaction of bare steps."""
    return Transaction(place_of(folder), Plan("cpu", (), steps, requirements=("demo",)), judge)


def unpacking(folder: Path, wheels: Path) -> tuple[Step, ...]:
    """Write steps that unpack version 2.0 of each part, each by a program of its own."""
    target = str(site_packages(folder))
    first = () if folder.exists() else (creating(folder),)
    return (
        *first,
        *(
            command_step(
                f"install-{name}",
                *(
                    sys.executable,
                    "-m",
                    "zipfile",
                    "-e",
                    str(wheels / f"{name}-2.0-py3-none-any.whl"),
                    target,
                ),
                purpose=f"Install {name}.",
                check=(
                    str(folder / "bin/python"),
                    "-c",
                    f"import {name}; assert {name}.VERSION == '2.0'",
                ),
            )
            for name in PARTS
        ),
    )


def creating(folder: Path) -> Step:
    argv = (sys.executable, "-m", "venv", "--without-pip", str(folder))
    check = (str(folder / "bin/python"), "-c", "pass")
    return command_step("create-environment", *argv, purpose="Create it.", check=check)


def with_pip(folder: Path, source: tuple[str, ...]) -> tuple[Step, ...]:
    """Write one step in which pip installs both parts from `source`."""
    python = str(folder / "bin/python")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--retries",
        "0",
        *source,
    )
    first = () if folder.exists() else (creating(folder),)
    requirements = (f"{name}==2.0" for name in PARTS)
    return (*first, command_step("install", *pip, *requirements, purpose="Install both parts."))


def with_uv(folder: Path, wheels: str) -> tuple[Step, ...]:
    """Write one step in which uv installs both parts."""
    uv = (
        find_uv(os.environ),
        "pip",
        "install",
        "--python",
        str(folder / "bin/python"),
        "--no-index",
    )
    first = () if folder.exists() else (creating(folder),)
    requirements = (f"{name}==2.0" for name in PARTS)
    return (
        *first,
        command_step(
            "install", *uv, "--find-links", wheels, *requirements, purpose="Install both parts."
        ),
    )


def judging(how: str, folder: Path) -> str:
    """Judge as the test wants it: well, badly, or once a file is there."""
    if how == "wait":
        wait_for((folder.parent / "go").exists, "the word to go on")
    return "the test refuses it" if how == "refuse" else ""


def main() -> int:
    folder, wheels, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if how == "pip":
        source = (
            ("--index-url", wheels) if "://" in wheels else ("--no-index", "--find-links", wheels)
        )
        steps = with_pip(folder, source)
    elif how == "uv":
        steps = with_uv(folder, wheels)
    else:
        steps = unpacking(folder, Path(wheels))
    changes = transaction(folder, *steps, judge=lambda: judging(how, folder))
    watch = InstallProgress(len(steps) + 1) if sys.argv[4:] else Told()
    try:
        return 0 if changes.run(watch).outcome == INSTALLED else 4
    except UserError as error:
        return HELD if "is running in" in str(error) else 1


if __name__ == "__main__":
    sys.exit(main())
