"""Ask the CUDA driver, without a framework, how much memory of the first visible GPU is free and how fast it may be."""

import ctypes
import os
from typing import Any, Dict, Optional, Tuple

# Numbers of cuDeviceGetAttribute in cuda.h, CUDA 5.0 and newer.
_ATTRIBUTES = {"clock_khz": 13, "processors": 16, "memory_clock_khz": 36, "bus_bits": 37, "major": 75, "minor": 76}


def memory() -> Optional[Tuple[int, int]]:
    """Return (free, total) bytes of the first visible GPU, all processes together; None where that cannot be asked."""
    cuda, device = _open()
    try:
        return None if cuda is None else _memory(cuda, device)
    except AttributeError:  # a driver without primary contexts, from before CUDA 7
        return None


def _memory(cuda: Any, device: ctypes.c_int) -> Optional[Tuple[int, int]]:
    release = getattr(cuda, "cuDevicePrimaryCtxRelease_v2", None) or cuda.cuDevicePrimaryCtxRelease  # _v2: CUDA 11
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
        return None
    asked = cuda.cuCtxPushCurrent_v2(context) or cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    release(device)
    return None if asked else (free.value, total.value)


def attributes() -> Dict[str, int]:
    """Return what the driver tells of the first visible GPU's clocks and widths; empty where it tells nothing."""
    cuda, device = _open()
    found, value = {}, ctypes.c_int()
    for name, number in _ATTRIBUTES.items() if cuda is not None else ():
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 and value.value > 0:
            found[name] = value.value
    return found


def _open() -> Tuple[Any, ctypes.c_int]:
    device = ctypes.c_int()
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None, device
    failed = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0)
    return (None if failed else cuda), device
