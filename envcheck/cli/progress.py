"""Tell a person at a terminal what a slow report waits for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PATIENCE = 1.0  # seconds until something is said


@contextmanager
def slow_programs() -> Iterator[None]:
    """Name on stderr, after a second, the programs that have not answered; nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_PATIENCE, _say)
    timer.daemon = True
    with suppress(RuntimeError):  # no thread to spare: the report matters more than the word about it
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say() -> None:
    from envcheck.host.process import running_programs

    waiting = running_programs()
    if waiting:
        sys.stderr.write(f"Waiting for {', '.join(waiting)} ...\n")
        sys.stderr.flush()
