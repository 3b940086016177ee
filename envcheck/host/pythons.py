"""Find programs of this machine, and Pythons of a minor version that start."""

from __future__ import annotations

import glob
import os
import shutil
from typing import Iterator, Mapping

from envcheck.host.process import run_program
from envcheck.model.facts import Known

_TIMEOUT = 20.0  # seconds; a Python on a slow network drive starts within them
_SAYS = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


def program_path(name: str, environment: Mapping[str, str]) -> str:
    """Return a program's path on PATH; "" where it is not there."""
    return shutil.which(name, path=environment.get("PATH", os.defpath)) or ""


def python_of(minor: str, environment: Mapping[str, str]) -> str:
    """Find a Python of a minor version that starts and makes environments: on PATH, or as pyenv keeps it; else ""."""
    return next((path for path in _pythons(minor, environment) if starts_as(path, minor, environment)), "")


def starts_as(path: str, minor: str, environment: Mapping[str, str]) -> bool:
    """Tell whether an interpreter starts, is of a minor version, and can make environments."""
    answer = run_program((path, "-I", "-c", _SAYS), _TIMEOUT, environment)
    return isinstance(answer, Known) and answer.value.returncode == 0 and answer.value.stdout.strip() == minor


def says_yes(argv: "tuple[str, ...]", environment: Mapping[str, str]) -> bool:
    """Tell whether a program ends with status 0 and says something."""
    answer = run_program(argv, _TIMEOUT, environment)
    return isinstance(answer, Known) and answer.value.returncode == 0 and bool(answer.value.stdout.strip())


def _pythons(minor: str, environment: Mapping[str, str]) -> Iterator[str]:
    for name in (f"python{minor}", "python3", "python"):
        found = program_path(name, environment)
        if found:
            yield found
    root = environment.get("PYENV_ROOT") or os.path.join(os.path.expanduser("~"), ".pyenv")
    yield from sorted(glob.glob(os.path.join(root, "versions", f"{minor}.*", "bin", "python")), reverse=True)
