"""A guard process that cleans up when the process that installs is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Sequence

import envcheck

DONE = "done"  # all went well: nothing to clean up
LEFT = "left"  # the guard must clean up, and this process still lives and holds its lock
_GRACE, _PAUSE = 2.0, 0.005  # seconds to wait until a killed group is gone; seconds between checks
_NEW_PROCESS_GROUP, _NO_WINDOW = 0x200, 0x8000000  # winbase.h; the guard's window is never shown
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import importlib; importlib.import_module(sys.argv[1]).main()"
)


class Guard:
    """A process in its own session that runs `module`.main() and reads on standard input what happens here.

    Its input ends when this process ends; the lines before say which group of processes runs and what to do.
    """

    def __init__(self, module: str, arguments: Sequence[str], descriptors: Sequence[int] = ()) -> None:
        """Start the guard; it inherits `descriptors` (locks), except on Windows."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(envcheck.__file__)))
        reader, self._writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, root, module, *arguments],
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **_make_detached_options(descriptors),
            )
        finally:
            os.close(reader)

    def report_start(self) -> None:
        """Report the process that leads its own group: call it in that process between fork and exec."""
        os.write(self._writer, b"%d\n" % os.getpid())

    def report_end(self) -> None:
        """Report that the last process has ended, because the system may reuse its number."""
        os.write(self._writer, b"idle\n")

    def finish(self, *, all_is_well: bool) -> None:
        """End the guard and wait for it; where all is not well it cleans up first."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, (DONE if all_is_well else LEFT).encode() + b"\n")
        os.close(self._writer)
        self._process.wait()


def _make_detached_options(descriptors: Sequence[int]) -> Dict[str, Any]:
    """Build the Popen options for a process that survives the terminal and the signals of this one."""
    if os.name == "posix":
        return {"pass_fds": tuple(descriptors), "start_new_session": True}
    return {"creationflags": _NEW_PROCESS_GROUP | _NO_WINDOW}


def is_recovery_needed(lines: Sequence[str]) -> bool:
    """Tell from a guard's input whether it must clean up."""
    return not lines or lines[-1].strip() != DONE


def kill_last_group(lines: Sequence[str]) -> None:
    """Kill the group of processes that ran when a guard's input ended."""
    last = lines[-1].strip() if lines else ""
    if not last.isdigit():
        return
    deadline = time.monotonic() + _GRACE
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(int(last), signal.SIGKILL)
        while time.monotonic() < deadline:
            os.killpg(int(last), 0)
            time.sleep(_PAUSE)
