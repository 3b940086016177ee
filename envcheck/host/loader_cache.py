"""Read the dynamic loader's cache, /etc/ld.so.cache."""

from __future__ import annotations

import struct
from typing import Dict, List, Mapping, Tuple

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = 48
_ENTRY = struct.Struct("=iIIIQ")
# flags of an entry: libc6 ELF in the low byte, the architecture above it (glibc sysdeps/generic/ldconfig.h)
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03, "ppc64le": 0x0503, "s390x": 0x0403, "i686": 0x0003}


def parse_loader_cache(data: bytes, machine: str) -> Mapping[str, Tuple[str, ...]]:
    """Map each soname to its files, in the loader's order, keeping only `machine`'s libraries.

    The file starts with `glibc-ld.so.cache1.1`, the entry count and the string length; an older
    cache (`ld.so-1.7.0`) may stand before it. Entries hold flags and offsets of soname and path.
    Raises ValueError when it is no such cache or is truncated.
    """
    start = data.find(_MAGIC)
    if start < 0:
        raise ValueError("no glibc-ld.so.cache1.1 header")
    cache = data[start:]
    if len(cache) < _HEADER:
        raise ValueError("truncated header")
    (count,) = struct.unpack_from("=I", cache, len(_MAGIC))
    if len(cache) < _HEADER + count * _ENTRY.size:
        raise ValueError("truncated entries")
    wanted = _FLAGS.get(machine)
    found: Dict[str, List[str]] = {}
    for flags, key, value, _, _ in _ENTRY.iter_unpack(cache[_HEADER : _HEADER + count * _ENTRY.size]):
        if wanted is None or flags == wanted:
            found.setdefault(_text(cache, key), []).append(_text(cache, value))
    return {soname: tuple(paths) for soname, paths in found.items()}


def _text(cache: bytes, offset: int) -> str:
    end = cache.find(b"\0", offset)
    if end < 0:
        raise ValueError("truncated strings")
    return cache[offset:end].decode("utf-8", "replace")
