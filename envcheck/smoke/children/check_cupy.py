"""CuPy: list its GPUs and multiply on each; where it finds none, say so in its own words, and compute nothing."""

import time
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import smoke_card as card
    from envcheck.smoke.children import smoke_full as checks
    from envcheck.smoke.children import smoke_speed as speed
    from envcheck.smoke.children.smoke_full import SkippedError
    from envcheck.smoke.children.start import Report
else:
    import smoke_card as card
    import smoke_full as checks
    import smoke_speed as speed
    from smoke_full import SkippedError

NO_LAYERS = "CuPy has no layers to train"


def run(report: "Report") -> Any:
    """Open CuPy, list its GPUs and multiply on each; return (cupy, devices)."""
    cupy = load(report)
    devices = None if cupy is None else list_devices(report, cupy)
    if devices is None:
        return None
    for device in devices:
        multiply(report, cupy, device)
    return cupy, devices


def load(report: "Report") -> Any:
    """Import CuPy; without a GPU nothing but that can be tested."""
    if report.gpu != "cpu" and report.level == "full":
        report.free_before = card.memory()
    with report.step("import") as step:
        begun = time.time()
        import cupy

        seconds = time.time() - begun
        report.framework("cupy", cupy.__version__, seconds, cuda_build=True)
        if report.gpu == "cpu":
            step.skipped("it imports, and computes on GPUs only; it says: %s" % words_without_gpu(cupy))
            return None
        step.passed("CuPy %s, imported in %.1f s" % (cupy.__version__, seconds))
        return cupy
    return None


def words_without_gpu(cupy: Any) -> str:
    """Return what CuPy says of this machine's GPUs, and what that means."""
    runtime = cupy.cuda.runtime
    try:
        return "%d GPUs" % runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        has_driver = runtime.driverGetVersion() > 0  # 0 without one: the runtime then calls it insufficient
        return "%s (%s)" % (error, "its driver runs no GPU" if has_driver else "no NVIDIA driver is loaded")


def list_devices(report: "Report", cupy: Any) -> Optional[List[str]]:
    """List the GPUs as GPU:0 ...; return None where there are fewer than asked for."""
    with report.step("devices") as step:
        count = cupy.cuda.runtime.getDeviceCount()  # raises with the runtime's own words
        report.devices("getDeviceCount", ["GPU:%d" % index for index in range(count)])
        if count < report.count:
            step.failed("CuPy lists %d of %d GPUs" % (count, report.count))
            return None
        step.passed(", ".join(cupy.cuda.runtime.getDeviceProperties(index)["name"].decode() for index in range(count)))
        return ["GPU:%d" % index for index in range(count)]
    return None


def number_of(device: str) -> int:
    """Return CuPy's number of GPU:0."""
    return int(device.split(":")[1])


def place_of(array: Any) -> str:
    """Return the device that holds an array."""
    return "GPU:%d" % array.device.id


def multiply(report: "Report", cupy: Any, device: str) -> None:
    """Multiply on a GPU."""
    with report.step("matmul", device) as step, cupy.cuda.Device(number_of(device)):
        product = cupy.array(checks.LEFT, "float32") @ cupy.array(checks.RIGHT, "float32")
        step.judge(product.get().tolist(), checks.PRODUCT, place_of(product))


def full(report: "Report", opened: Any) -> None:
    """Go on where the quick level left off."""
    cupy, devices = opened
    checks.run(report, devices, FullEngine(cupy))


class FullEngine:
    """What CuPy is asked for."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.refusals = (cupy.cuda.runtime.CUDARuntimeError,)

    def _on(self, device: str, numbers: Any, kind: str = "float32") -> Any:
        with self._cupy.cuda.Device(number_of(device)):
            return self._cupy.asarray(numbers, kind)

    def _product(self, device: str) -> Any:
        with self._cupy.cuda.Device(number_of(device)):
            return self._on(device, checks.LEFT) @ self._on(device, checks.RIGHT)

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices."""
        factors = checks.random_factors(kind, size)
        with self._cupy.cuda.Device(number_of(device)):
            found = self._on(device, factors[0], kind) @ self._on(device, factors[1], kind)
            return checks.product_error(found.get(), factors), place_of(found)

    def convolve(self, _device: str, _image: Any) -> Tuple[List[float], str]:
        """Say why no convolution is asked for."""
        raise SkippedError(NO_LAYERS)

    def compiled(self, device: str) -> Tuple[Any, Any, str]:
        """Compile a kernel of several operations by NVRTC."""
        left, right = checks.eighths()
        with self._cupy.cuda.Device(number_of(device)):
            kernel = self._cupy.ElementwiseKernel("float32 c", "float32 d", "d = c + 0 * exp(c)", "envcheck")
            found = kernel(self._on(device, left) @ self._on(device, right))
            return checks.whole_numbers(found.get().tolist()), checks.PRODUCT, place_of(found)

    def check_memory(self, report: "Report", device: str) -> None:
        """See that this process holds no more than it asked for."""
        card.check_growth(report, device)

    def ask_for_missing(self) -> str:
        """Ask for a device that is not there."""
        with self._cupy.cuda.Device(number_of(checks.MISSING)):
            self._cupy.ones(1)
        return checks.MISSING

    def towers(self, targets: List[str]) -> Tuple[Any, str]:
        """Multiply in two towers and add on the CPU."""
        products = [self._product(target).get() for target in targets]
        return (products[0] + products[1]).tolist(), "CPU:0"

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix; say whether the GPUs can reach each other directly."""
        left = self._on(source, checks.LEFT)
        with self._cupy.cuda.Device(number_of(target)):
            found = self._cupy.asarray(left)
        direct = self._cupy.cuda.runtime.deviceCanAccessPeer(number_of(source), number_of(target))
        return found.get().tolist(), place_of(found), " (%s)" % ("directly" if direct else "through the host's memory")

    def reduce(self, _targets: List[str]) -> Tuple[List[float], str]:
        """Say why no sum over all devices is asked for."""
        raise SkippedError("CuPy's wheel has no NCCL")

    def gradients(self, _rows: Any, _targets: List[str]) -> Tuple[List[List[float]], List[float]]:
        """Say why no gradient is asked for."""
        raise SkippedError(NO_LAYERS)


def bench(report: "Report", opened: Any) -> None:
    """Measure on each device."""
    cupy, devices = opened
    speed.run(report, devices, BenchEngine(cupy))


class BenchEngine:
    """What CuPy is measured by."""

    precisions = ("float32", "float16")

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def _finished(self, device: str, action: Callable[[], Any]) -> Callable[[], Any]:
        def whole() -> None:
            with self._cupy.cuda.Device(number_of(device)) as used:
                action()
                used.synchronize()

        return whole

    def multiply(self, device: str, precision: str, size: int) -> Callable[[], Any]:
        """Multiply two square matrices."""
        with self._cupy.cuda.Device(number_of(device)):
            left, right = (self._cupy.asarray(each) for each in checks.random_factors(precision, size))
        return self._finished(device, lambda: left @ right)

    def copy_to(self, device: str, size: int) -> Callable[[], Any]:
        """Copy from the host to the device."""
        import numpy as np

        here = np.ones(size, "uint8")
        return self._finished(device, lambda: self._cupy.asarray(here))

    def copy_within(self, device: str, size: int) -> Callable[[], Any]:
        """Copy within the device's memory."""
        with self._cupy.cuda.Device(number_of(device)):
            there = self._cupy.ones(size, "uint8")
        return self._finished(device, there.copy)

    def train(self, _device: str) -> Callable[[], Any]:
        """Say why no training step is measured."""
        raise SkippedError(NO_LAYERS)
