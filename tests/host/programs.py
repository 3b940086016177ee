"""Write misbehaving programs for the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.patience import wait_for


def write_script(path: Path, body: str, mode: int = 0o755) -> str:
    """Write a shell script and return its path."""
    path.write_text("#!/bin/sh\n" + body + "\n", encoding="utf-8")
    path.chmod(mode)
    return str(path)


def is_gone(pid: int) -> bool:
    """Tell whether a process ends within the patience of the tests; a zombie counts as ended."""
    try:
        return wait_for(lambda: not _runs(pid), f"the end of process {pid}")
    except AssertionError:
        return False


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state not in "ZX"


def wait_for_pid(path: Path) -> int:
    """Wait for the process id that a script writes to `path`."""
    return int(
        wait_for(
            lambda: path.read_text(encoding="utf-8").strip() if path.exists() else "", str(path)
        )
    )
