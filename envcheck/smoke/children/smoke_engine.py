"""The base class of every framework's smoke test.

The steps of the quick level, and the methods that a test defines.
"""

import time
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Optional, Tuple

import smoke_card as card
import smoke_full
import smoke_speed
from smoke_numbers import LEFT, MISSING, PRODUCT, RIGHT, Answer, product_error, random_factors

if TYPE_CHECKING:
    from start import Report, Step


class SkippedError(Exception):
    """A check that cannot be made here, with the reason; a step knows it by its name."""


class Engine:
    """A framework as a smoke test sees it: `check_NAME.py` defines one by the same name.

    Devices are named CPU:0, GPU:0 ... to and by an engine, however its framework calls them.
    Results are plain numbers or arrays, and where it can be told the device that made them: by the
    framework's word, never by what was asked for. What cannot be done here it says with
    SkippedError.

    Beside the methods that raise NotImplementedError here, the full level asks for convolve,
    compiled, towers, copy, reduce and gradients, and for soften where there is one; the bench level
    for multiply and train, which return an action that ends when it is done.
    """

    name, title = "", ""
    refusals: Any = (RuntimeError,)  # what it raises for a device that is not there
    precisions: Tuple[str, ...] = ("float32", "float16")  # that a benchmark measures
    lacks: ClassVar[Dict[str, str]] = {}  # what it is not asked for -> why

    def __getattr__(self, name: str) -> Any:
        """Say why there is no such method."""
        if name in self.lacks:
            raise SkippedError(self.lacks[name])
        raise AttributeError(name)

    def before_import(self, report: "Report") -> None:
        """Set the environment, and note the card's free memory where it is compared."""
        if report.gpu != "cpu" and report.level == "full":
            report.free_before = card.memory()

    def load(self) -> Any:
        """Import the framework, keep it, and return its module."""
        raise NotImplementedError

    def about_build(self) -> Dict[str, Any]:
        """Return what its build tells of itself: `cuda_build`, or the versions of its parts."""
        raise NotImplementedError

    def set_up(self, report: "Report") -> None:
        """Change what has to be changed between the import and the first device."""

    def words_without_gpu(self) -> str:
        """Return what a framework that computes on GPUs alone says where there is none."""
        return ""

    def list_devices(self, report: "Report", step: "Step") -> Optional[List[str]]:
        """List devices in each way and judge the lists.

        Return those to test, or None where a GPU is missing.
        """
        raise NotImplementedError

    def product(self, device: str, left: Any, right: Any) -> Answer:
        """Multiply rows, or arrays, on a device; return an array and the device that holds it."""
        raise NotImplementedError

    def run(self, report: "Report") -> Optional[List[str]]:
        """Import the framework, list its devices and multiply on each.

        Return them, or None where nothing can go on.
        """
        devices = self._list(report) if self._import(report) else None
        for device in devices or ():
            self.multiply_on(report, device)
        return devices

    def _import(self, report: "Report") -> bool:
        self.before_import(report)
        with report.step("import") as step:
            begun = time.time()
            module = self.load()
            seconds = time.time() - begun
            report.framework(self.name, module.__version__, seconds, **self.about_build())
            self.set_up(report)
            words = self.words_without_gpu() if report.gpu == "cpu" else ""
            if words:
                step.skipped("it imports, and computes on GPUs only; it says: %s" % words)
            else:
                step.passed("%s %s, imported in %.1f s" % (self.title, module.__version__, seconds))
        return step.said["outcome"] == "passed"

    def _list(self, report: "Report") -> Optional[List[str]]:
        with report.step("devices") as step:
            return self.list_devices(report, step)
        return None

    def multiply_on(self, report: "Report", device: str) -> None:
        """Multiply on a device."""
        with report.step("matmul", device) as step:
            found, place = self.product(device, LEFT, RIGHT)
            step.judge(found.tolist(), PRODUCT, place)

    def full(self, report: "Report", devices: List[str]) -> None:
        """Go on where the quick level left off."""
        smoke_full.run(report, devices, self)

    def bench(self, report: "Report", devices: List[str]) -> None:
        """Measure on each device."""
        smoke_speed.run(report, devices, self)

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices of a precision; return the largest error and the device."""
        factors = random_factors(kind, size)
        found, place = self.product(device, *factors)
        return product_error(found, factors), place

    def check_memory(self, report: "Report", device: str) -> None:
        """See that this process, told to take what it needs, does not hold the whole card."""
        card.check_growth(report, device)

    def ask_for_missing(self) -> None:
        """Ask for a device that is not there."""
        self.product(MISSING, LEFT, RIGHT)
