"""A few signatures of our own: the scanner is tested apart from the list that ships."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.explain.scan import Scan, scan
from envcheck.explain.signatures import Event, Signature

MISSING = Signature(
    "cannot-open",
    ("cannot open shared object file",),
    r"(?P<library>lib[\w.+-]+\.so[\w.]*): cannot open shared object file",
    "toolkit-missing",
    "error",
)
MEMORY = Signature(
    "out-of-memory",
    ("CUDA out of memory", "CUDA_ERROR_OUT_OF_MEMORY"),
    r"(?:CUDA out of memory\. Tried to allocate (?P<wanted>[\d.]+ \w+)|CUDA_ERROR_OUT_OF_MEMORY)",
    "gpu-memory-exhausted",
    "error",
)
QUOTED = Signature(
    "glibc",
    ("GLIBC_",),
    r"version [`'](?P<version>GLIBC_[\d.]+)' not found",
    "glibc-too-old",
    "error",
)
STARTS = Signature("killed", ("Killed",), r"^Killed$", "os-limit", "error")
XID = Signature(
    "xid", ("NVRM: Xid",), r"^NVRM: Xid \(PCI:[^)]+\): (?P<xid>\d+)", "gpu-hardware-fault", "error"
)
RANKED = Signature(
    "watched", ("Watchdog",), r"\[rank(?P<rank>\d+)\]: Watchdog", "multi-gpu-p2p-nccl", "error"
)
ALL = (MISSING, MEMORY, QUOTED, STARTS, XID, RANKED)

LINE = b"ImportError: libcudart.so.10.1: cannot open shared object file: No such file or directory"


def scanned(*blocks: bytes, signatures: tuple[Signature, ...] = ALL) -> Scan:
    return scan([("train.log", blocks)], signatures)


def names(events: Iterable[Event]) -> list[str]:
    return [event.signature for event in events]
