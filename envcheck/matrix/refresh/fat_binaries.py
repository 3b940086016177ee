"""List the GPU code in fat binaries, as cuobjdump does."""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Iterator

from envcheck.matrix.refresh.gpu_code import sort_targets


class BinaryError(Exception):
    """A binary that is broken, hostile or of an unsupported kind.

    The message says why in a few words.
    """


_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes that follow
# kind, version, header size, payload size, minor, major, architecture, flags
_ENTRY = struct.Struct("<HHIQ8xHHI8xQ")
_ENTRY_SIZE = 64  # bytes a header has at least
_PTX, _CUBIN, _NVVM = 1, 2, 8
_KINDS = {_PTX: "compute", _CUBIN: "sm", _NVVM: "lto"}
_ARCHITECTURE_ONLY, _FAMILY_ONLY = 1 << 20, 1 << 21  # flags of sm_90a and sm_100f

Buffer = bytes | mmap.mmap


def parse_fatbins(data: Buffer, offset: int, stop: int) -> Counter[str]:
    """Count the fat binaries in data[offset:stop] by their targets.

    sm_90a machine code, compute_90 PTX, lto_90 NVVM.

    nvcc writes one for each source file: {"sm_80 compute_80": 105, "sm_52 compute_52": 1}.

    A container (16 bytes) and the head of its first entry, machine code for sm_75 packed to 824
    bytes:

    50ed55ba 0100 1000 601a000000000000
    0200 0101 40000000 3803000000000000 36030000 00000000 0800 0100 4b000000 ...
    1180000000000000 ...
    """
    code: Counter[str] = Counter()
    while (offset := _skip_padding(data, offset, stop)) < stop:
        if offset + _CONTAINER.size > stop:
            raise BinaryError("its fat binary is incomplete")
        _, _, header, size = _CONTAINER.unpack_from(data, offset)
        start, end = offset + header, offset + header + size
        if header < _CONTAINER.size or end > stop:
            raise BinaryError("its fat binary claims more bytes than its section has")
        targets = set(_iterate_targets(data, start, end))
        if targets:
            code[" ".join(sort_targets(targets))] += 1
        offset = end
    return code


def _skip_padding(data: Buffer, offset: int, stop: int) -> int:
    """Skip the zeros between containers; raises BinaryError for anything else."""
    while offset + 4 <= stop:
        word = int.from_bytes(data[offset : offset + 4], "little")
        if word == _MAGIC:
            return offset
        if word:
            raise BinaryError("its fat binary section contains other data")
        offset += 4
    return stop


def _iterate_targets(data: Buffer, offset: int, end: int) -> Iterator[str]:
    """Yield the target of each entry of a container."""
    while offset < end:
        if offset + _ENTRY_SIZE > end:
            raise BinaryError("an entry of its fat binary is incomplete")
        kind, _, header, size, _, _, number, flags = _ENTRY.unpack_from(data, offset)
        if header < _ENTRY_SIZE or offset + header + size > end:
            raise BinaryError("an entry of its fat binary claims more bytes than its container has")
        suffix = "f" if flags & _FAMILY_ONLY else ""
        if flags & _ARCHITECTURE_ONLY:
            suffix = "a"
        yield f"{_KINDS.get(kind, f'kind{kind}')}_{number}{suffix}"
        offset += header + size
