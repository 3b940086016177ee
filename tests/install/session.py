"""An installation in a process of its own, for the tests to kill: python -m tests.install.session FOLDER WHEELS HOW.

With a fourth argument it says what the command says.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from envcheck.cli.installation import InstallProgress
from envcheck.host.file_changes import FileLockedError
from envcheck.install.journal import Journal, place_of
from envcheck.install.run import Job, execute
from envcheck.model import Step
from envcheck.plan.verify import find_uv
from tests.install.wheels import PARTS, site_packages
from tests.patience import wait_for
from tests.typed import command_step

HELD = 9


class Told:
    """Say on standard output how it goes."""

    def begins(self, what: str) -> None:
        print("begins", what, flush=True)

    def hears(self, line: str) -> None:
        print("hears", line, flush=True)

    def settled(self, journal: Journal, environment: str, why: str) -> None:
        print("settled", environment, why, flush=True)


def unpacking(folder: Path, wheels: Path) -> tuple[Step, ...]:
    """Write steps that unpack version 2.0 of each part, each by a program of its own."""
    target = str(site_packages(folder))
    first = () if folder.exists() else (creating(folder),)
    return (
        *first,
        *(
            command_step(
                f"install-{name}",
                *(sys.executable, "-m", "zipfile", "-e", str(wheels / f"{name}-2.0-py3-none-any.whl"), target),
                purpose=f"Install {name}.",
                check=(str(folder / "bin/python"), "-c", f"import {name}; assert {name}.VERSION == '2.0'"),
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
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--retries", "0", *source)
    first = () if folder.exists() else (creating(folder),)
    requirements = (f"{name}==2.0" for name in PARTS)
    return (*first, command_step("install", *pip, *requirements, purpose="Install both parts."))


def with_uv(folder: Path, wheels: str) -> tuple[Step, ...]:
    """Write one step in which uv installs both parts."""
    uv = (find_uv(os.environ), "pip", "install", "--python", str(folder / "bin/python"), "--no-index")
    first = () if folder.exists() else (creating(folder),)
    requirements = (f"{name}==2.0" for name in PARTS)
    return (
        *first,
        command_step("install", *uv, "--find-links", wheels, *requirements, purpose="Install both parts."),
    )


def judging(how: str, folder: Path) -> str:
    """Judge as the test wants it: well, badly, or once a file is there."""
    if how == "wait":
        wait_for((folder.parent / "go").exists, "the word to go on")
    return "the test refuses it" if how == "refuse" else ""


def main() -> int:
    folder, wheels, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if how == "pip":
        source = ("--index-url", wheels) if "://" in wheels else ("--no-index", "--find-links", wheels)
        steps = with_pip(folder, source)
    elif how == "uv":
        steps = with_uv(folder, wheels)
    else:
        steps = unpacking(folder, Path(wheels))
    job = Job(steps, ("demo",), dict(os.environ), lambda: judging(how, folder))
    watch = InstallProgress(len(steps) + 1) if sys.argv[4:] else Told()
    try:
        return 0 if execute(place_of(folder), job, watch) else 4
    except FileLockedError:
        return HELD


if __name__ == "__main__":
    sys.exit(main())
