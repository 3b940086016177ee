"""Decide which GPUs a wheel's libraries have code for, by the share that they run.

A library of hundreds of kernels may hold a few for a GPU that none of the others runs on: of the
106 fat binaries of vLLM 0.19.1 one has code for compute capability 5.2, because its source file was
compiled without a list of GPUs. A union of all targets would call that support.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# Shares of the fat binaries of the library that has most. 575 wheels of packages on top of a
# framework were counted on 2026-11-23. Machine code: vLLM has 1 % to 3 % for targets that it does
# not support and 27 % and more for those that it does; all other wheels have 100 %. PTX: vLLM has 1
# % to 33 %, which is that of some quantization kernels, bitsandbytes 67 % and 86 %, all others 100
# %. A GPU that a project compiles for lacks the kernels that were made for newer GPUs alone; a GPU
# that only PTX serves needs that of every kernel. Of the frameworks four wheels were decided by it
# on 2026-11-27: ONNX Runtime for Windows has 6 % for sm_90a in 1.29.0, and 5 % and 6 % PTX in
# 1.30.0 to 1.31.1.
MACHINE_CODE_SHARE = 0.1
PTX_SHARE = 0.5


class Target(NamedTuple):
    """What one piece of code is for: sm_90a is ("sm", 9, 0, "a")."""

    kind: str  # sm, compute, lto
    major: int
    minor: int
    suffix: str  # "a": that GPU alone, "f": its family


def parse(text: str) -> Target:
    """Parse a target: sm_120f."""
    kind, _, number = text.partition("_")
    digits = number.rstrip("af")
    return Target(kind, int(digits[:-1] or 0), int(digits[-1]), number[len(digits) :])


def list_targets(facts: Mapping[str, Any]) -> list[str]:
    """List all targets of a library, sorted, however few of its fat binaries hold them."""
    groups = facts.get("gpu_code") or dict.fromkeys(facts.get("architectures", ()), 1)
    return sort_targets({text for names in groups for text in names.split()})


def list_supported(libraries: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the targets of a wheel's libraries that count as support, machine code first.

    `libraries`: facts of binaries. They need not be loaded together (bitsandbytes has one for each
    CUDA), so a target counts where one of them has it often enough. Facts that hold no counts (an
    older matrix) count whole.
    """
    codes = [_read_code(facts) for facts in libraries]
    targets: set[str] = set()
    for code in codes:
        targets.update(*(names for names, _ in code))
    most = max((sum(count for _, count in code) for code in codes), default=0)
    supported = set()
    for text in targets:
        target = parse(text)
        if target.kind in _SHARES:
            serving = max(_count_serving(code, target) for code in codes)
            if serving >= _SHARES[target.kind] * most:
                supported.add(text)
    return sort_targets(supported)


_SHARES = {"sm": MACHINE_CODE_SHARE, "compute": PTX_SHARE}


def _read_code(facts: Mapping[str, Any]) -> list[tuple[list[str], int]]:
    """Return the targets of each group of fat binaries with GPU code, and their number."""
    code = facts.get("gpu_code") or {" ".join(facts.get("architectures", ())): 1}
    groups = [(names.split(), count) for names, count in code.items()]
    return [
        (names, count)
        for names, count in groups
        if any(parse(text).kind in _SHARES for text in names)
    ]


def _count_serving(code: Iterable[tuple[list[str], int]], wanted: Target) -> int:
    """Count the fat binaries that the GPU of a target runs.

    For PTX those with PTX that it can be compiled from.
    """
    return sum(
        count for names, count in code if any(_serves(parse(text), wanted) for text in names)
    )


def _serves(target: Target, wanted: Target) -> bool:
    if target.kind == "compute":
        return not target.suffix and target[1:3] <= wanted[1:3]
    if wanted.kind == "compute" or target.kind != "sm":
        return False
    same_gpu = target[1:3] == wanted[1:3]
    return same_gpu or (
        not target.suffix and target.major == wanted.major and target.minor <= wanted.minor
    )


def sort_targets(targets: Iterable[str]) -> list[str]:
    """Sort targets: machine code first, then PTX, then the rest, each by number."""

    def place(text: str) -> tuple[int, Target]:
        target = parse(text)
        order = ["sm", "compute"]
        return (order.index(target.kind) if target.kind in order else 2), target

    return sorted(targets, key=place)


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
