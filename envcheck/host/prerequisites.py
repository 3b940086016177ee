"""Find the programs and Pythons that an installation needs."""

from __future__ import annotations

import os
import sys
from typing import Iterator, Sequence

from envcheck.host.process import run_program
from envcheck.host.protocol import Variables


def find_installed_program(name: str) -> str:
    """Return the path of a program beside this Python, or on PATH; "" without one."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), name)
    if os.access(beside, os.X_OK):
        return beside
    return find_program(name, os.environ)


_TIMEOUT = 20.0  # seconds; a Python on a slow network drive starts within them
# Importing venv, or site-packages, would take three times as long as the start.
_PRINT_VERSION = """
import sys, importlib.machinery
if importlib.machinery.PathFinder.find_spec('venv'):
    print('%d.%d' % sys.version_info[:2])
"""


def find_program(name: str, environment: Variables) -> str:
    """Return the path of a program in an absolute folder of PATH, "" without one."""
    import shutil  # with its archive formats 3 ms

    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    found = shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders))) or ""
    return found if os.path.isabs(found) else ""  # Windows looks in the working folder first


def find_python(minor: str, environment: Variables) -> str:
    """Find a working Python of a minor version on PATH or among pyenv's; "" without one."""
    candidates = _list_candidate_pythons(minor, environment)
    return next((path for path in candidates if is_working_python(path, minor, environment)), "")


def is_working_python(path: str, minor: str, environment: Variables) -> bool:
    """Return whether an interpreter starts, has a minor version, and can create environments."""
    return _run((path, "-I", "-S", "-c", _PRINT_VERSION), environment) == minor


def has_output(argv: Sequence[str], environment: Variables) -> bool:
    """Return whether a program exits with status 0 and prints something."""
    return bool(_run(argv, environment))


def _run(argv: Sequence[str], environment: Variables) -> str:
    """Return the output of a program, "" unless it exits with status 0."""
    answer = run_program(argv, _TIMEOUT, environment)
    if answer.value and answer.value.returncode == 0:
        return answer.value.stdout.strip()
    return ""


def _list_candidate_pythons(minor: str, environment: Variables) -> Iterator[str]:
    import glob  # for a plan with another Python alone

    root = environment.get("PYENV_ROOT") or os.path.join(os.path.expanduser("~"), ".pyenv")
    shims = os.path.join(
        root, "shims", ""
    )  # shell scripts that start what lies below: each takes as long as six Pythons
    on_path = (find_program(name, environment) for name in (f"python{minor}", "python3", "python"))
    for path in on_path:
        if path and not path.startswith(shims):
            yield path
    yield from sorted(
        glob.glob(os.path.join(root, "versions", f"{minor}.*", "bin", "python")), reverse=True
    )
