"""Names of libraries among the constant strings of a binary: what it may open while it runs."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator

SHARED = rb"(lib[A-Za-z0-9_+.-]{1,60}\.so(?:\.\d{1,4}){0,4})(?=\0)"
DLL = rb"([A-Za-z0-9_+.-]{1,60}\.dll)(?=\0)"


def names_among(data: bytes | mmap.mmap, start: int, end: int, kind: bytes) -> Iterator[str]:
    """Yield the whole strings of a section, zeros between them, that name a library: libcuda.so.1."""
    first = re.compile(kind).match(data, start, end)
    if first:
        yield first[1].decode("ascii")
    for found in re.compile(rb"\0" + kind).finditer(data, start, end):
        yield found[1].decode("ascii")
