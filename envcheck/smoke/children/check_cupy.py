"""CuPy: its GPUs; where it finds none it says so in its own words, and computes nothing."""

from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Optional, Tuple

from smoke_engine import Engine as Base
from smoke_numbers import LEFT, RIGHT, Action, Answer, random_factors

if TYPE_CHECKING:
    from start import Report, Step

NO_LAYERS = "CuPy has no layers to train"


class Engine(Base):
    """CuPy."""

    name, title = "cupy", "CuPy"
    lacks: ClassVar[Dict[str, str]] = {
        "convolve": NO_LAYERS,
        "reduce": "CuPy's wheel has no NCCL",
        "gradients": NO_LAYERS,
        "train": NO_LAYERS,
    }

    def load(self) -> Any:
        """Import CuPy."""
        import cupy

        self._cupy: Any = cupy
        self.refusals = (cupy.cuda.runtime.CUDARuntimeError,)
        return cupy

    def about_build(self) -> Dict[str, Any]:
        """Say that it was built with CUDA."""
        return {"cuda_build": True}

    def words_without_gpu(self) -> str:
        """Return what CuPy says of this machine's GPUs, and what that means."""
        runtime = self._cupy.cuda.runtime
        try:
            return "%d GPUs" % runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:
            # 0 without one: the runtime then calls it insufficient
            has_driver = runtime.driverGetVersion() > 0
            return "%s (%s)" % (
                error,
                "its driver runs no GPU" if has_driver else "no NVIDIA driver is loaded",
            )

    def list_devices(self, report: "Report", step: "Step") -> Optional[List[str]]:
        """List the GPUs."""
        runtime = self._cupy.cuda.runtime
        count = runtime.getDeviceCount()  # raises with the runtime's own words
        report.devices("getDeviceCount", ["GPU:%d" % index for index in range(count)])
        if count < report.count:
            step.failed("CuPy lists %d of %d GPUs" % (count, report.count))
            return None
        step.passed(
            ", ".join(runtime.getDeviceProperties(index)["name"].decode() for index in range(count))
        )
        return ["GPU:%d" % index for index in range(count)]

    def _on(self, device: str, numbers: Any) -> Any:
        with self._cupy.cuda.Device(number_of(device)):
            return self._cupy.asarray(numbers, None if hasattr(numbers, "dtype") else "float32")

    def _product(self, device: str, left: Any, right: Any) -> Any:
        with self._cupy.cuda.Device(number_of(device)):
            return self._on(device, left) @ self._on(device, right)

    def product(self, device: str, left: Any, right: Any) -> Answer:
        """Multiply."""
        found = self._product(device, left, right)
        return found.get(), place_of(found)

    def compiled(self, device: str, left: Any, right: Any) -> Answer:
        """Compile a kernel of several operations by NVRTC."""
        with self._cupy.cuda.Device(number_of(device)):
            kernel = self._cupy.ElementwiseKernel(
                "float32 c", "float32 d", "d = c + 0 * exp(c)", "envcheck"
            )
            found = kernel(self._on(device, left) @ self._on(device, right))
            return found.get().tolist(), place_of(found)

    def towers(self, targets: List[str]) -> Answer:
        """Multiply in two towers and add on the CPU."""
        products = [self._product(target, LEFT, RIGHT).get() for target in targets]
        return (products[0] + products[1]).tolist(), "CPU:0"

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix; say whether the GPUs can reach each other directly."""
        left = self._on(source, LEFT)
        with self._cupy.cuda.Device(number_of(target)):
            found = self._cupy.asarray(left)
        direct = self._cupy.cuda.runtime.deviceCanAccessPeer(number_of(source), number_of(target))
        return (
            found.get().tolist(),
            place_of(found),
            " (%s)" % ("directly" if direct else "through the host's memory"),
        )

    def multiply(self, device: str, precision: str, size: int) -> Action:
        """Multiply two square matrices."""
        with self._cupy.cuda.Device(number_of(device)):
            left, right = (self._cupy.asarray(each) for each in random_factors(precision, size))

        def whole() -> None:
            with self._cupy.cuda.Device(number_of(device)) as used:
                left @ right
                used.synchronize()

        return whole


def number_of(device: str) -> int:
    """Return CuPy's number of GPU:0."""
    return int(device.split(":")[1])


def place_of(array: Any) -> str:
    """Return the device that holds an array."""
    return "GPU:%d" % array.device.id
