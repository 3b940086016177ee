"""The driver test: no framework, only the CUDA driver API and a small matmul; then the same on each GPU visible."""

import array
import time
from typing import TYPE_CHECKING, List, Optional, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children.driver_api import Cuda, checked, not_loaded
    from envcheck.smoke.children.driver_gpu import Gpu
    from envcheck.smoke.children.start import Report
else:
    from driver_api import Cuda, checked, not_loaded
    from driver_gpu import Gpu

LEFT, RIGHT = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]  # 2 x 3 and 3 x 2, row by row
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]


def run(report: "Report") -> Optional[Tuple[Cuda, List[Gpu]]]:
    """Open the driver, find the GPUs, multiply on each; return (cuda, gpus that work)."""
    cuda = load(report)
    if cuda is None:
        return None
    gpus = list_devices(report, cuda)
    working = [gpu for gpu in gpus if multiply(report, gpu)]
    return (cuda, working) if working else None


def load(report: "Report") -> Optional[Cuda]:
    """Load libcuda and start it."""
    opened = []  # type: List[Cuda]
    with checked(report, "import", "") as step:
        begun = time.time()
        try:
            opened.append(Cuda())
        except OSError as error:
            step.refused("the driver's library cannot be loaded: %s" % error, not_loaded(), str(error))
        for cuda in opened:
            version = cuda.number("cuDriverGetVersion")
            cuda.call("cuInit", 0)
            seconds = time.time() - begun
            report.framework("driver", "%d.%d" % (version // 1000, version % 1000 // 10), seconds)
            step.passed("CUDA driver API %d.%d, started in %.1f s" % (version // 1000, version % 1000 // 10, seconds))
    return opened[0] if step.said["outcome"] == "passed" else None


def list_devices(report: "Report", cuda: Cuda) -> List[Gpu]:
    """List the GPUs the driver shows, and see that the one asked for by its UUID is that one."""
    gpus = []  # type: List[Gpu]
    with checked(report, "devices", "") as step:
        gpus = [Gpu(cuda, index) for index in range(cuda.number("cuDeviceGetCount"))]
        report.devices("cuDeviceGetCount", [gpu.label for gpu in gpus])
        report.devices("cuDeviceGetName", [gpu.name for gpu in gpus])
        wanted = asked_uuid(report.gpu, cuda)
        if len(gpus) < report.count:
            step.failed("the driver shows %d of %d GPUs" % (len(gpus), report.count))
        elif wanted and not cuda.uuid(gpus[0].device).startswith(wanted):
            got = report.gpu[:4] + cuda.uuid(gpus[0].device)
            step.failed("asked for %s and got %s" % (report.gpu, got), "device-placement")
        else:
            step.passed(", ".join("%s (%s)" % (gpu.label, gpu.name) for gpu in gpus))
    return gpus


def asked_uuid(name: str, cuda: Cuda) -> str:
    """Return the digits of the UUID asked for; "" for a number, and for what this driver cannot tell."""
    kind, _, digits = name.lower().partition("-")
    told = (kind == "gpu" and cuda.tells_uuids()) or (kind == "mig" and cuda.tells_instances() and "/" not in digits)
    return digits if told else ""


def multiply(report: "Report", gpu: Gpu) -> bool:
    """Open a GPU, translate the kernel for it and multiply; say whether it can be used further."""
    with checked(report, "context", gpu.label) as step:
        gpu.open()
        step.passed("a context on %s, compute capability %d.%d" % ((gpu.name,) + gpu.capability))
    if step.said["outcome"] != "passed":
        return False
    with checked(report, "translate", gpu.label) as step:
        gpu.kernel("matmul_f32")
        step.passed("the driver translated the kernel's PTX")
    if step.said["outcome"] != "passed":
        return False
    with checked(report, "matmul", gpu.label) as step:
        operands, target = (array.array("f", LEFT), array.array("f", RIGHT)), array.array("f", [-1.0] * 4)
        found, place = gpu.multiply("matmul_f32", operands, target, (2, 2, 3))
        step.judge([found[:2].tolist(), found[2:].tolist()], PRODUCT, place)
    return step.said["outcome"] == "passed"
