"""An installation in a process of its own, for the tests to kill: python -m tests.install.session FOLDER WHEELS HOW."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from envcheck.host.file_changes import FileLockedError
from envcheck.install.journal import Journal, place_of
from envcheck.install.run import Job, install
from envcheck.model.plans import Step
from tests.install.wheels import PARTS, site_packages

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
            Step(
                f"install-{name}",
                f"Install {name}.",
                (sys.executable, "-m", "zipfile", "-e", str(wheels / f"{name}-2.0-py3-none-any.whl"), target),
                verify=(str(folder / "bin/python"), "-c", f"import {name}; assert {name}.VERSION == '2.0'"),
            )
            for name in PARTS
        ),
    )


def creating(folder: Path) -> Step:
    argv = (sys.executable, "-m", "venv", "--without-pip", str(folder))
    return Step("create-environment", "Create it.", argv, verify=(str(folder / "bin/python"), "-c", "pass"))


def with_pip(folder: Path, source: tuple[str, ...]) -> tuple[Step, ...]:
    """Write one step in which pip installs both parts from `source`."""
    python = str(folder / "bin/python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--retries", "0", *source)
    first = () if folder.exists() else (creating(folder),)
    return (*first, Step("install", "Install both parts.", (*pip, *(f"{name}==2.0" for name in PARTS))))


def judging(how: str, folder: Path) -> str:
    """Judge as the test wants it: well, badly, or once a file is there."""
    deadline = time.monotonic() + 30
    while how == "wait" and not (folder.parent / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return "the test refuses it" if how == "refuse" else ""


def main() -> int:
    folder, wheels, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if how == "pip":
        source = ("--index-url", wheels) if "://" in wheels else ("--no-index", "--find-links", wheels)
        steps = with_pip(folder, source)
    else:
        steps = unpacking(folder, Path(wheels))
    job = Job(steps, ("demo",), dict(os.environ), lambda: judging(how, folder))
    try:
        return 0 if install(place_of(folder), job, Told()) else 4
    except FileLockedError:
        return HELD


if __name__ == "__main__":
    sys.exit(main())
