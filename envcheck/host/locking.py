"""Hold a file so that no other process does the same work at once."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Iterator

_PAUSE = 0.05  # seconds between tries


class HeldError(Exception):
    """Another process holds the file; the message is what that one wrote into it."""


@contextlib.contextmanager
def exclusive(path: str, patience: float) -> Iterator[int]:
    """Hold `path` for the block and yield its descriptor; HeldError where another holds it for `patience` seconds.

    A process that inherits the descriptor goes on holding the file when this one is killed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _taken(descriptor):
            if time.monotonic() > deadline:
                os.lseek(descriptor, 0, os.SEEK_SET)
                raise HeldError(os.read(descriptor, 100).decode("ascii", "replace").strip())
            time.sleep(_PAUSE)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            _lock_on_windows(descriptor)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock_on_windows(descriptor: int) -> None:
    import importlib

    msvcrt = importlib.import_module("msvcrt")  # by name: type checkers know it on Windows only
    os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # beyond the text, which others may read
    msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    os.lseek(descriptor, 0, os.SEEK_SET)
