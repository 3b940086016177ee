"""End the programs this one has started when a signal ends it."""

from __future__ import annotations

import os
import signal


def end_cleanly_when_told() -> None:
    """Answer SIGTERM and SIGHUP by ending every program still running, then die of the signal as its sender expects.

    Programs run in sessions of their own: nobody else ends them when a time limit ends this one.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # under nohup it is ignored
            signal.signal(number, _end)


def _end(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
    from envcheck.host.process import end_running

    end_running()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
