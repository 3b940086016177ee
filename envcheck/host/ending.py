"""End the programs this one has started when a signal ends it."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Iterator, List

_NAMES = ("SIGTERM", "SIGHUP")


def end_cleanly_when_told() -> None:
    """Answer SIGTERM and SIGHUP by ending every program still running, then die of the signal as its sender expects.

    Programs run in sessions of their own: nobody else ends them when a time limit ends this one.
    """
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # under nohup it is ignored
            signal.signal(number, _end)


def _end(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
    from envcheck.host.process import end_running

    end_running()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def interrupted_when_told() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the block as Ctrl-C does; when it has put things right, they end this process.

    A further one is not heard until then.
    """
    told: List[int] = []

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
        told.append(number)
        if len(told) == 1:
            raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number, handler in before.items() if handler != signal.SIG_IGN]  # under nohup it is ignored
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
        if told:
            os.kill(os.getpid(), told[0])
