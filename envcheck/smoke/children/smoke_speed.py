"""The bench level, the same for every framework.

Measure what its engine does on each device, and say what it means.
"""

import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from smoke_card import attributes, expected, judge_speed
from smoke_numbers import Action

if TYPE_CHECKING:
    from start import Report

SMALL, LARGE = 1024, 8192  # a side of the matrices: a fast GPU is done with less before it is busy
WITHIN = 512 << 20  # bytes of the host's memory: many times what its caches hold
ENOUGH = 0.3  # seconds of one measurement, at least
SINCE_AMPERE = {"tf32", "bfloat16"}
ABOUT_SPEED = (
    "a TFLOP/s is a million million multiplications"
    " and additions a second; training is mostly these"
)
ABOUT_HOST = "how fast one core reads and writes the machine's memory, where batches are made"
ABOUT_STEP = "a step: 64 images of 28 x 28 through a small convolutional network, and back"


def run(report: "Report", devices: List[str], engine: Any) -> None:
    """Measure matmuls and training steps; what copies take is the driver's test to tell.

    An engine's methods return an action that ends when it is done.
    """
    if report.gpu == "all":
        return  # each GPU was measured alone
    targets = [name for name in devices if name.startswith("GPU")] or ["CPU:0"]
    for device in targets:
        for precision in precisions_of(device, engine):
            multiply(report, engine, device, precision)
    copy_in_host(report)
    train(report, engine, targets + ["CPU:0"] if targets[0].startswith("GPU") else targets)


def precisions_of(device: str, engine: Any) -> List[str]:
    """List the precisions to measure.

    On a CPU two, on a GPU those that it and the framework have.
    """
    if not device.startswith("GPU"):
        return ["float32", "float16"]
    is_ampere = attributes().get("major", 0) >= 8
    return [name for name in engine.precisions if is_ampere or name not in SINCE_AMPERE]


def multiply(report: "Report", engine: Any, device: str, precision: str) -> None:
    """Tell the TFLOP/s of a large product."""
    with report.step("speed of %s" % precision, device) as step:
        size, seconds = product_time(engine, device, precision)
        speed = 2.0 * size**3 / seconds / 1e12
        best = None
        if device.startswith("GPU"):
            best = expected(attributes()).get(precision)
        name = "matmul %s %d x %d" % (precision, size, size)
        report.measure(step.check, device, name, speed, "TFLOP/s", share(speed, best) + ABOUT_SPEED)
        judge_speed(step, "%s: %.3g TFLOP/s" % (name, speed), speed, best)


def product_time(engine: Any, device: str, precision: str) -> Tuple[int, float]:
    """Return a size that keeps the device busy, and the seconds of its product."""
    # half on a CPU is slow
    size = SMALL if precision == "float32" or device.startswith("GPU") else SMALL // 4
    seconds = seconds_of(engine.multiply(device, precision, size))
    if device.startswith("GPU"):
        while size < LARGE and 8 * seconds < ENOUGH:
            size *= 2
            seconds = seconds_of(engine.multiply(device, precision, size))
    return size, seconds


def copy_in_host(report: "Report") -> None:
    """Tell the GB/s within the machine's own memory, to stand beside a GPU's."""
    with report.step("speed of memory", "CPU:0") as step:
        source, target = bytearray(WITHIN), memoryview(bytearray(WITHIN))

        def move() -> None:
            target[:] = source

        within = 2.0 * WITHIN / seconds_of(move) / 1e9
        report.measure(step.check, "CPU:0", "host memory", within, "GB/s", ABOUT_HOST)
        step.passed("%.3g GB/s" % within)


def train(report: "Report", engine: Any, devices: List[str]) -> None:
    """Tell the time of a training step on each device, and compare."""
    found = {}  # type: Dict[str, float]
    for device in devices:
        with report.step("training", device) as step:
            found[device] = seconds_of(engine.train(device)) * 1e3
            report.measure(
                step.check, device, "training step", found[device], "ms", compared(found, device)
            )
            step.passed("%.3g ms a step" % found[device])


def compared(found: Dict[str, float], device: str) -> str:
    """Return the sentence on a device's time for a step.

    On the CPU's, once the GPU's is known, how they compare.
    """
    gpus = [taken for name, taken in found.items() if name.startswith("GPU")]
    if device.startswith("GPU") or not gpus:
        return ABOUT_STEP
    times = found[device] / gpus[0]
    if times >= 1:
        return "the GPU is %.1f times as fast; with a larger network its lead grows" % times
    return (
        "the CPU is faster here, which is normal:"
        " so small a network is done before a GPU has been told what to do"
    )


def seconds_of(action: Action) -> float:
    """Return the seconds an action takes, the best of three rounds.

    The first call, which compiles, is not counted.
    """
    action()
    begun = time.time()
    action()
    times = max(1, min(1000, int(ENOUGH / 3 / max(time.time() - begun, 1e-6))))
    rounds = []
    for _ in range(3):
        begun = time.time()
        for _ in range(times):
            action()
        rounds.append((time.time() - begun) / times)
    return max(min(rounds), 1e-9)


def share(found: float, best: Optional[float]) -> str:
    """Say how much of what the hardware should reach this is, where the driver tells that."""
    if not best:
        return ""
    if found > 1.05 * best:
        return (
            "more than the %.3g that clock and width allow without tensor cores, which take part"
            " here; " % best
        )
    return "%.0f %% of the %.3g that clock and width allow; " % (100 * found / best, best)
