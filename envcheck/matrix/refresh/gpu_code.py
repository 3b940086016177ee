"""Decide which GPUs a wheel's libraries have code for, by the share that they run.

A library of hundreds of kernels may hold a few for a GPU that none of the others runs on: of the
106 fat binaries of vLLM 0.19.1 one has code for compute capability 5.2, because its source file was
compiled without a list of GPUs. A union of all targets would call that support.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    targets = {
        text for code in codes for names, _ in code for text in names if parse(text).kind in _SHARES
    }
    most = max((sum(count for _, count in code) for code in codes), default=0)
    supported = {
        text
        for text in targets
        if max(_count_serving(code, parse(text)) for code in codes)
        >= _SHARES[parse(text).kind] * most
    }
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
