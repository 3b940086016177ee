"""Write misbehaving programs for the tests."""

from __future__ import annotations

import os
import time
from pathlib import Path


def write_script(path: Path, body: str, mode: int = 0o755) -> str:
    """Write a shell script and return its path."""
    path.write_text("#!/bin/sh\n" + body + "\n", encoding="utf-8")
    path.chmod(mode)
    return str(path)


def is_gone(pid: int, patience: float = 2.0) -> bool:
    """Tell whether a process ends within `patience` seconds; a zombie counts as ended."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if not _runs(pid):
            return True
        time.sleep(0.02)
    return False


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state not in "ZX"


def wait_for_pid(path: Path, patience: float = 2.0) -> int:
    """Read the process id that a script writes to `path`."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        text = path.read_text(encoding="utf-8").strip() if path.exists() else ""
        if text:
            return int(text)
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")
