"""How much memory this machine has to give, and how much a process and its children hold."""

from __future__ import annotations

import os
import re
from typing import Iterator, List, Optional


def available_memory() -> Optional[int]:
    """Return the bytes that can be used without swapping; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii", errors="replace") as stream:
            return parse_available(stream.read(1 << 16))
    except OSError:
        return None


def parse_available(text: str) -> Optional[int]:
    r"""Read the MemAvailable line of /proc/meminfo, in bytes.

    Sample: 'MemTotal:       24627000 kB\nMemFree:        22626160 kB\nMemAvailable:   23834136 kB\n'
    """
    found = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) << 10 if found else None


def resident_memory(pid: int) -> Optional[int]:
    """Return the resident bytes of a process and its descendants; None where the system does not tell.

    Of a descendant only what it does not share with files counts: its libraries are in the first process already.
    """
    first = _pages(pid)
    if first is None:
        return None
    total = first[0]
    for child in _descendants(pid):
        resident, shared = _pages(child) or [0, 0]
        total += max(0, resident - shared)
    return total * _page_size()


def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _pages(pid: int) -> Optional[List[int]]:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as stream:
            return [int(word) for word in stream.read(256).split()[1:3]]
    except (OSError, ValueError):
        return None


def _descendants(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            yield child
            waiting.append(child)


def _children(pid: int) -> List[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            return [int(word) for word in stream.read(1 << 16).split()]
    except (OSError, ValueError):  # a kernel without CONFIG_PROC_CHILDREN
        return []
