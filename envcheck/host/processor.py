"""What the processor under this very program can do, where a library would crash on an older one."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

_PF_SSE4_2 = 38  # winnt.h: PF_SSE4_2_INSTRUCTIONS_AVAILABLE


def has_sse42() -> bool:
    """Tell whether this processor is no x86 or has SSE 4.2; False where that cannot be told."""
    if sys.platform == "darwin":
        return True  # every Mac that runs a Python of today has it, or is an Arm
    if os.name == "nt":
        import ctypes

        windows: Any = ctypes
        return bool(windows.windll.kernel32.IsProcessorFeaturePresent(_PF_SSE4_2))
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
