"""The driver's benchmark: a plain matmul and memory copies, beside what the hardware should reach."""

import ctypes
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import driver_numbers as numbers
    from envcheck.smoke.children.driver_api import Cuda, SkippedError, checked
    from envcheck.smoke.children.driver_gpu import Gpu
    from envcheck.smoke.children.smoke_card import ATTRIBUTES, expected
    from envcheck.smoke.children.start import Report
else:
    import driver_numbers as numbers
    from driver_api import SkippedError, checked
    from smoke_card import ATTRIBUTES, expected

HALF_FROM = (5, 3)
COPIED = 256 << 20  # bytes of a copy
TIMES = 10
PLAIN = "envcheck's own plain kernel, without tensor cores: a framework's library is several times faster"
PER_LINK = "through the link between the computer's memory and the GPU's"


def more(report: "Report", opened: "Tuple[Cuda, List[Gpu]]") -> None:
    """Measure each GPU alone."""
    for gpu in opened[1] if report.gpu != "all" else []:
        gpu.select()
        multiply(report, gpu, "matmul_f32", "float32", expected_of(gpu, "float32"))
        multiply(report, gpu, "matmul_f16", "float16", None)
        copy_on_device(report, gpu)
        copy_to_and_from(report, gpu)


def multiply(report: "Report", gpu: "Gpu", kernel: str, name: str, expected: Optional[float]) -> None:
    """Measure TFLOP/s of the large product."""
    with checked(report, "speed-" + name, gpu.label) as step:
        if name == "float16" and gpu.capability < HALF_FROM:
            raise SkippedError("float16 arithmetic came with compute capability %d.%d" % HALF_FROM)
        operations, shape = numbers.flops()
        with gpu.memory(numbers.BYTES[kernel] * numbers.SIZE**2) as values:
            gpu.fill(values, 0, numbers.BYTES[kernel] * numbers.SIZE**2 // 4)
            with gpu.memory(numbers.BYTES[kernel] * numbers.SIZE**2) as target:
                seconds = gpu.seconds(lambda: gpu.launch(kernel, (values, values, target), (numbers.SIZE,) * 3), TIMES)
        tell(
            report, step, gpu, ("matmul %s %s" % (name, shape), operations / seconds / 1e12, "TFLOP/s"), expected, PLAIN
        )


def copy_on_device(report: "Report", gpu: "Gpu") -> None:
    """Measure copies within the GPU's memory: each byte is read and written."""
    with checked(report, "copy-on-device", gpu.label) as step:
        size = ctypes.c_size_t(COPIED)
        with gpu.memory(COPIED) as source, gpu.memory(COPIED) as target:
            seconds = gpu.seconds(lambda: gpu.cuda.call("cuMemcpyDtoD_v2", target, source, size), TIMES)
        found = ("device to device, read and written", 2 * COPIED / seconds / 1e9, "GB/s")
        whole = not report.gpu.startswith("MIG-")  # an instance has a part of the width, which the driver does not tell
        tell(
            report,
            step,
            gpu,
            found,
            expected_of(gpu, "memory") if whole else None,
            "how fast the GPU reaches its own memory",
        )


def copy_to_and_from(report: "Report", gpu: "Gpu") -> None:
    """Measure copies between the computer's memory, locked in place, and the GPU's."""
    with checked(report, "copy-to-device", gpu.label) as step:
        size = ctypes.c_size_t(COPIED)
        with gpu.locked(COPIED) as here, gpu.memory(COPIED) as there:
            up = gpu.seconds(lambda: gpu.cuda.call("cuMemcpyHtoDAsync_v2", there, here, size, None), TIMES)
            down = gpu.seconds(lambda: gpu.cuda.call("cuMemcpyDtoHAsync_v2", here, there, size, None), TIMES)
        tell(report, step, gpu, ("device to host", COPIED / down / 1e9, "GB/s"), None, PER_LINK)
        tell(report, step, gpu, ("host to device", COPIED / up / 1e9, "GB/s"), None, PER_LINK)


def tell(report: "Report", step: Any, gpu: "Gpu", found: Any, expected: Optional[float], note: str) -> None:
    """Tell a number and, where the driver tells clocks and widths, the one the hardware could reach."""
    name, value, unit = found
    about = note
    if expected:
        about = "%.0f %% of the %.4g %s that clock and width allow; %s" % (100 * value / expected, expected, unit, note)
    report.measure(step.check, gpu.label, name, value, unit, about)
    step.passed("%s: %.4g %s" % (name, value, unit))


def expected_of(gpu: "Gpu", what: str) -> Optional[float]:
    """Return what clocks and widths allow: TFLOP/s of float32, GB/s of the memory."""
    return expected({name: gpu.cuda.attribute(number, gpu.device) for name, number in ATTRIBUTES.items()}).get(what)
