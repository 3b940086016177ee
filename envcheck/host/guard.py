"""A guard process that cleans up when the process that installs is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from ctypes import CDLL
from typing import Any, Dict, Sequence

import envcheck
from envcheck.host.process import end_session

DONE = "done"  # all went well: nothing to clean up
LEFT = "left"  # the guard must clean up, and this process still lives and holds its lock
# seconds to wait until what was killed is gone: the kernel finishes the call that it is in
_PATIENCE = 60.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NEW_PROCESS_GROUP, _NO_WINDOW = 0x200, 0x8000000  # winbase.h; the guard's window is never shown
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import importlib;"
    " importlib.import_module(sys.argv[1]).main()"
)


class Guard:
    """A process in its own session that runs `module`.main().

    It reads on standard input what happens here.

    Its input ends when this process ends; the lines before say which group of processes runs and
    what to do.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], descriptors: Sequence[int] = ()
    ) -> None:
        """Start the guard; it inherits `descriptors` (locks), except on Windows."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(envcheck.__file__)))
        self._parent, self._set_process_option = os.getpid(), None
        if sys.platform == "linux":
            self._set_process_option = CDLL(None).prctl
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
        """Report the process that leads its own session.

        Call it in that process between fork and exec.

        Where the system can, it dies with its parent from then on.
        """
        os.write(self._writer, b"%d\n" % os.getpid())
        if self._set_process_option is not None:
            self._set_process_option(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._parent:  # killed before that
            os.kill(os.getpid(), signal.SIGKILL)

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
    """Build the Popen options for a process that survives this one's terminal and signals."""
    if os.name == "posix":
        return {"pass_fds": tuple(descriptors), "start_new_session": True}
    return {"creationflags": _NEW_PROCESS_GROUP | _NO_WINDOW}


def is_recovery_needed(lines: Sequence[str]) -> bool:
    """Tell from a guard's input whether it must clean up."""
    return not lines or lines[-1].strip() != DONE


def end_last_program(lines: Sequence[str]) -> bool:
    """End the program that ran when a guard's input ended, and all that it started.

    Tell whether they are gone.
    """
    last = lines[-1].strip() if lines else ""
    return not last.isdigit() or end_session(int(last), _PATIENCE)
