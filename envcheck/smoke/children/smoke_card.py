"""Ask the CUDA driver for the first visible GPU's free memory and top speed.

No framework is needed.
"""

import ctypes
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

if TYPE_CHECKING:
    from start import Report, Step

LIBRARY, IN_WSL = "libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"
# Numbers of cuDeviceGetAttribute in cuda.h, CUDA 5.0 and newer.
ATTRIBUTES = {
    "clock_khz": 13,
    "processors": 16,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "major": 75,
    "minor": 76,
}
SHARE = 0.25  # of the card's memory that a process is given where that is tested
_BESIDE = 3 << 29  # bytes that CUDA and its libraries take beside the share
# of what clock and width allow: copies and products of any healthy GPU reach half or more
SLOW = 0.25
# of what was free: JAX takes 75 % at once, TensorFlow nearly all, where memory does not grow
_WHOLE = 0.7


def check_growth(report: "Report", device: str) -> None:
    """Say whether a process told to take what it needs holds less than one not told."""
    with report.step("memory growth", device) as step:
        before, now = report.free_before, memory()
        if before is None or now is None:
            step.skipped("the driver does not tell the free memory")
            return
        held = max(0, before[0] - now[0])
        said = "holds %.1f of the %.1f GiB that were free" % (held / 2.0**30, before[0] / 2.0**30)
        if held < _WHOLE * before[0]:
            step.passed(said)
        elif held <= _BESIDE:
            step.skipped(said + ", as CUDA and its libraries alone may")
        else:
            step.failed(said)


def judge_share(step: "Step", before: Optional[Tuple[int, int]], *, right: bool) -> None:
    """Say whether this process holds no more than its share of the card, and computed right."""
    now = memory()
    if before is None or now is None:
        step.skipped("the driver does not tell the free memory")
        return
    held, allowed = max(0, before[0] - now[0]), SHARE * before[1] + _BESIDE
    said = "holds %.1f GiB of %.1f, allowed are %.1f" % (
        held / 2.0**30,
        before[1] / 2.0**30,
        allowed / 2.0**30,
    )
    if right:
        (step.passed if held <= allowed else step.failed)(said)
    else:
        step.failed("gave wrong numbers; " + said)


def memory() -> Optional[Tuple[int, int]]:
    """Return (free, total) bytes of the first visible GPU, all processes together.

    Return None where that cannot be asked.
    """
    cuda, device = _open()
    try:
        return None if cuda is None else _read_memory(cuda, device)
    except AttributeError:  # a driver without primary contexts, from before CUDA 7
        return None


def _read_memory(cuda: Any, device: ctypes.c_int) -> Optional[Tuple[int, int]]:
    # _v2: CUDA 11
    release = getattr(cuda, "cuDevicePrimaryCtxRelease_v2", None) or cuda.cuDevicePrimaryCtxRelease
    context = ctypes.c_void_p()
    free = ctypes.c_size_t()
    total = ctypes.c_size_t()
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
        return None
    if cuda.cuCtxPushCurrent_v2(context):
        release(device)
        return None
    asked = cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    release(device)
    return None if asked else (free.value, total.value)


def attributes() -> Dict[str, int]:
    """Return what the driver tells of the first visible GPU's clocks and widths.

    Empty where it tells nothing.
    """
    cuda, device = _open()
    found, value = {}, ctypes.c_int()
    for name, number in ATTRIBUTES.items() if cuda is not None else ():
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 and value.value > 0:
            found[name] = value.value
    return found


def expected(told: Dict[str, int]) -> Dict[str, float]:
    """Return what clocks and widths allow.

    Memory in GB/s, float32 (without tensor cores) in TFLOP/s.
    """
    found: Dict[str, float] = {}
    if told.get("memory_clock_khz") and told.get("bus_bits"):
        # two words a clock
        found["memory"] = 2.0 * told["memory_clock_khz"] * 1e3 * told["bus_bits"] / 8 / 1e9
    lanes = read_table("nvidia/gpu_arithmetic.json")["float32_lanes"].get(
        "%s.%s" % (told.get("major"), told.get("minor", 0))
    )
    if lanes and told.get("clock_khz") and told.get("processors"):
        found["float32"] = 2.0 * lanes * told["processors"] * told["clock_khz"] * 1e3 / 1e12
    return found


def judge_speed(step: "Step", said: str, found: float, best: Optional[float]) -> None:
    """Say whether a GPU reaches a fair part of what its clocks and widths allow."""
    if best and found < SLOW * best:
        step.failed(
            "%s: %.2g %% of the %.3g that its clock and width allow"
            % (said, 100 * found / best, best)
        )
    else:
        step.passed(said)


def _open() -> Tuple[Any, ctypes.c_int]:
    device = ctypes.c_int()
    try:
        cuda = load_library()
    except OSError:
        return None, device
    failed = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0)
    return (None if failed else cuda), device


def read_table(name: str) -> Any:
    """Read a data file, which lies in the package or, in a checkout, beside it."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = [os.path.join(folder, "data", name) for folder in (package, os.path.dirname(package))]
    with open(next(place for place in places if os.path.exists(place)), encoding="utf-8") as stream:
        return json.load(stream)


def load_library() -> Any:
    """Load the driver's library by its usual name, in WSL else from its folder there."""
    if os.path.exists(IN_WSL) and not is_found(LIBRARY):
        return ctypes.CDLL(IN_WSL)
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else LIBRARY)


def is_found(name: str) -> bool:
    """Say whether the loader finds a library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
