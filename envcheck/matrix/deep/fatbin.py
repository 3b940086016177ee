"""The GPU code in a fat binary: which architectures have machine code, which PTX; only headers are read."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

from envcheck.matrix.deep.errors import BinaryError

_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes that follow
_ENTRY = struct.Struct("<HHIQ8xHHI8xQ")  # kind, version, header size, payload size, minor, major, architecture, flags
_ENTRY_SIZE = 64  # bytes a header has at least
_PTX, _CUBIN, _NVVM = 1, 2, 8
_KINDS = {_PTX: "compute", _CUBIN: "sm", _NVVM: "lto"}
_ARCHITECTURE_ONLY, _FAMILY_ONLY = 1 << 20, 1 << 21  # flags of sm_90a and sm_100f

Buffer = bytes | mmap.mmap


def parse_fatbins(data: Buffer, offset: int, stop: int) -> set[str]:
    """List the targets of the fat binaries in data[offset:stop]: sm_90a machine code, compute_90 PTX, lto_90 NVVM.

    A container (16 bytes) and the head of its first entry, machine code for sm_75 packed to 824 bytes:

    50ed55ba 0100 1000 601a000000000000
    0200 0101 40000000 3803000000000000 36030000 00000000 0800 0100 4b000000 ... 1180000000000000 ...
    """
    targets: set[str] = set()
    while (offset := _next_container(data, offset, stop)) < stop:
        if offset + _CONTAINER.size > stop:
            raise BinaryError("its fat binary breaks off")
        _, _, header, size = _CONTAINER.unpack_from(data, offset)
        start, end = offset + header, offset + header + size
        if header < _CONTAINER.size or end > stop:
            raise BinaryError("its fat binary claims more bytes than its section has")
        targets.update(_entries(data, start, end))
        offset = end
    return targets


def _next_container(data: Buffer, offset: int, stop: int) -> int:
    """Skip the zeros between containers; anything else but a container is an error."""
    while offset + 4 <= stop:
        word = int.from_bytes(data[offset : offset + 4], "little")
        if word == _MAGIC:
            return offset
        if word:
            raise BinaryError("its fat binary section holds something that is no fat binary")
        offset += 4
    return stop


def _entries(data: Buffer, offset: int, end: int) -> Iterator[str]:
    """Yield the target of each entry of a container."""
    while offset < end:
        if offset + _ENTRY_SIZE > end:
            raise BinaryError("an entry of its fat binary breaks off")
        kind, _, header, size, _, _, number, flags = _ENTRY.unpack_from(data, offset)
        if header < _ENTRY_SIZE or offset + header + size > end:
            raise BinaryError("an entry of its fat binary claims more bytes than its container has")
        suffix = "a" if flags & _ARCHITECTURE_ONLY else "f" if flags & _FAMILY_ONLY else ""
        yield f"{_KINDS.get(kind, f'kind{kind}')}_{number}{suffix}"
        offset += header + size


def ordered(targets: set[str]) -> list[str]:
    """Sort targets: machine code first, then PTX, then the rest, each by number."""

    def place(target: str) -> tuple[int, str, int, str]:
        kind, _, rest = target.partition("_")
        number = int(rest.rstrip("af"))
        return (["sm", "compute"].index(kind) if kind in {"sm", "compute"} else 2), kind, number, rest

    return sorted(targets, key=place)
