"""Count work in steps instead of seconds: the same on every machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_lines(work: Callable[[], object]) -> int:
    """Run a piece of work and count the lines of Python it passes; what C does in one is one."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Check that twice as much takes at most twice as many lines, and a tenth."""
    work(1)  # what is read or made once
    one, two = (count_lines(lambda size=size: work(size)) for size in (size, 2 * size))  # type: ignore[misc]
    assert two <= 2.2 * one, f"{one} lines of Python for {size}, {two} for {2 * size}"
