"""Read what this processor can do, and use all of its cores."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import Any, Callable, Iterator, List, Sequence, Tuple, TypeVar

# winnt.h: PF_XMMI_INSTRUCTIONS_AVAILABLE, PF_XMMI64_INSTRUCTIONS_AVAILABLE, PF_SSE3_INSTRUCTIONS_AVAILABLE ...
_FEATURES = {"sse": 6, "sse2": 10, "sse3": 13, "ssse3": 36, "sse4_1": 37, "sse4_2": 38, "avx": 39, "avx2": 40}
_AVX_STATE = 1 << 2  # XSTATE_MASK_AVX: older Windows knows AVX by the registers it saves alone


def has_sse42() -> bool:
    """Tell whether this processor is no x86 or has SSE 4.2; False where that cannot be told."""
    if sys.platform == "darwin":
        return True  # every Mac that runs a Python of today has it, or is an Arm
    if os.name == "nt":
        return not {"sse4_2", "avx"}.isdisjoint(instructions_on_windows())
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as stream:
            return shows_sse42(stream.read(1 << 16))
    except OSError:
        return False


def shows_sse42(cpuinfo: str) -> bool:
    r"""Read the first processor of /proc/cpuinfo.

    Sample: 'processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme sse4_1 sse4_2 x2apic\n'; an Arm processor
    has 'Features' instead: 'processor\t: 0\nFeatures\t: fp asimd evtstrm aes\n'
    """
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is None:
        return re.search(r"^Features\s*:", cpuinfo, re.MULTILINE) is not None
    return "sse4_2" in flags.group(1).split()


def instructions_on_windows() -> Tuple[str, ...]:
    """List the vector instructions Windows lets programs use, as /proc/cpuinfo spells them; AttributeError off it."""
    import ctypes

    windows: Any = ctypes
    kernel = windows.windll.kernel32
    kernel.GetEnabledXStateFeatures.restype = ctypes.c_uint64
    found = [name for name, number in _FEATURES.items() if kernel.IsProcessorFeaturePresent(number)]
    saved = kernel.GetEnabledXStateFeatures() & _AVX_STATE
    return (*found, *(("avx",) if saved and "avx" not in found else ()))


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
