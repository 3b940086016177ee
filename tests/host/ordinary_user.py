"""Run part of a test without root's rights."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
NOBODY = 65534


def as_ordinary_user(work: Callable[[], T]) -> T:
    """Return what `work` returns: as nobody in a forked child when this is root, else in this process."""
    if os.geteuid() != 0:
        return work()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _in_child(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    result: T = pickle.loads(data)
    return result


def _in_child(work: Callable[[], object], writer: int) -> None:
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(work(), stream)
    finally:
        os._exit(0)
