"""Do the same work for very many things, on every core there is."""

from __future__ import annotations

import os
import signal
from typing import Any, Callable, Iterator, List, Sequence, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_LEAST = 300  # things; for fewer, starting processes costs more than they save
_CHUNK = 32  # things handed to a process at a time
_work: List[Callable[[Any], Any]] = []  # what the processes do; they get it by being forked


def in_processes(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield work(item) for each item, in their order; results must survive pickling, `work` need not.

    In this very process where the items are few, or there is one core, or no fork.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(items) < _LEAST or cores < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    _work[:] = [work]
    pool = ProcessPoolExecutor(cores, get_context("fork"), _leave_interruptions_to_the_parent)
    try:
        yield from pool.map(_call, items, chunksize=_CHUNK)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _work.clear()


def _leave_interruptions_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(item: Any) -> Any:
    return _work[0](item)
