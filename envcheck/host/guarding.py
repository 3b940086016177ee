"""Start a process that outlives this one, to put things right when this one is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, Sequence

import envcheck

DONE = "done"  # what the guard hears when all went well
LEFT = "left"  # what it hears when something was left to it by a process that lives and still holds its lock
_GRACE, _PAUSE = 2.0, 0.005  # seconds until what was killed is gone, or belongs to nobody who would collect it
_NEW_PROCESS_GROUP, _NO_WINDOW = 0x200, 0x8000000  # winbase.h; a window of its own, which is never shown
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import importlib; importlib.import_module(sys.argv[1]).main()"
)


class Guard:
    """A process in a session of its own that runs `module`.main() and hears on its standard input what happens here.

    Its standard input ends with this process: what was running then, and what to do, it knows from the lines before.
    """

    def __init__(self, module: str, arguments: Sequence[str], held: Sequence[int] = ()) -> None:
        """Start the guard; it goes on holding the descriptors `held`, which Windows hands down to nobody."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(envcheck.__file__)))
        reader, self._writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, root, module, *arguments],
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **_apart(held),
            )
        finally:
            os.close(reader)

    def name_group(self) -> None:
        """Tell the guard, from a process that leads its own group, that it runs: call it between fork and exec."""
        os.write(self._writer, b"%d\n" % os.getpid())

    def group_ended(self) -> None:
        """Tell the guard that the process that named itself last has ended: its number may become another's."""
        os.write(self._writer, b"idle\n")

    def dismiss(self, *, all_is_well: bool) -> None:
        """Let the guard end, and wait for that; where all is not well, it puts things right as after a kill."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, (DONE if all_is_well else LEFT).encode() + b"\n")
        os.close(self._writer)
        self._process.wait()


def _apart(held: Sequence[int]) -> Dict[str, Any]:
    """Say how a process starts that what ends this one, or is typed or closed where it runs, does not reach."""
    if os.name == "posix":
        return {"pass_fds": tuple(held), "start_new_session": True}
    return {"creationflags": _NEW_PROCESS_GROUP | _NO_WINDOW}


def is_needed(lines: Sequence[str]) -> bool:
    """Tell from what a guard heard whether its process was killed; end what that was running."""
    last = lines[-1].strip() if lines else ""
    if last.isdigit():
        _end_group(int(last))
    return last != DONE


def _end_group(group: int) -> None:
    deadline = time.monotonic() + _GRACE
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(_PAUSE)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let nothing but SIGKILL end the block: what is half put back must be put back whole."""
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(getattr(signal, name), signal.SIG_IGN) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before):
            signal.signal(getattr(signal, name), handler)
