"""The full level, the same for every framework.

What its engine is asked for, and what has to come of it.
"""

import random
import threading
from typing import TYPE_CHECKING, Any, List

from smoke_numbers import LEFT, MISSING, PRODUCT, RIGHT

if TYPE_CHECKING:
    from start import Report

SIZE = 2048
# Of the typical number, the root of the size. TF32 keeps 10 bits of each factor: rounded as cuBLAS
# does, that errs by
# 0.0016 here (0.0017 by PyTorch's documentation, on an A100), cut off by 0.0043. Half adds up in 11
# bits on some CPUs.
ALLOWED = {"float32": 2.5e-3, "float16": 5e-2}
SIDE = 8  # of the image that is convolved
ROUNDED = 5e-3  # of the largest number: some of cuDNN's ways to convolve are not exact
ROWS = 8  # of a device's share of the training data
SHARE_ROUNDED = 1e-4
SUM = [[44.0, 56.0], [98.0, 128.0]]  # of two products
ROUNDS = 3  # of each tower that waits for none
SECOND = [[1.0, 2.0], [3.0, 4.0]]  # weights of a second layer, and what it makes of the first's
OF_BOTH = [[106.0, 156.0], [241.0, 354.0]]


def run(report: "Report", devices: List[str], engine: Any) -> None:
    """Check one device at a time, then several together."""
    targets = [name for name in devices if name.startswith("GPU")] or [
        n for n in devices if n.startswith("CPU")
    ]
    if report.gpu != "all":
        check_alone(report, engine, targets[0])
    pair = (targets * 2)[:2]
    towers(report, engine, pair)
    update_without_waiting(report, engine, pair)
    split_model(report, engine, pair)
    if len(targets) > 1:
        for source, target in zip(targets, targets[1:] + targets[:1]):
            copy(report, engine, source, target)
    elif report.gpu == "cpu":
        targets = targets * 2  # a framework with one CPU: used twice, it stands for two GPUs
    if len(targets) > 1:
        reduce_over_all(report, engine, targets)
        train_together(report, engine, targets)


def check_alone(report: "Report", engine: Any, device: str) -> None:
    """Check what one device can do by itself."""
    for kind in sorted(ALLOWED):
        multiply_large(report, engine, device, kind)
    convolve(report, engine, device)
    with report.step("jit", device) as step:
        # exact everywhere; their exponential is finite
        eighths = [[number / 8.0 for number in row] for row in LEFT]
        found, place = engine.compiled(device, eighths, RIGHT)
        step.judge(
            [[round(8.0 * float(number), 3) for number in row] for row in found], PRODUCT, place
        )
    if device.startswith("GPU"):
        engine.check_memory(report, device)
    ask_for_missing(report, engine)
    fall_back(report, engine)


def multiply_large(report: "Report", engine: Any, device: str, kind: str) -> None:
    """Multiply random matrices and hold the product against double precision."""
    size = 512 if kind == "float16" and device.startswith("CPU") else SIZE  # half on a CPU is slow
    with report.step("matmul %d %s" % (size, kind), device) as step:
        error, place = engine.large_error(device, kind, size)
        step.within(error, ALLOWED[kind], place)


def convolve(report: "Report", engine: Any, device: str) -> None:
    """Sum 3 x 3 neighbours of 0 to 63 by a convolution, which cuDNN does on a GPU."""
    with report.step("convolution", device) as step:
        image = [[float(SIDE * y + x) for x in range(SIDE)] for y in range(SIDE)]
        inner = range(1, SIDE - 1)
        # the mean of these neighbours is the middle one
        wanted = [9.0 * image[y][x] for y in inner for x in inner]
        found, place = engine.convolve(device, image)
        step.within(largest_difference(found, wanted), ROUNDED, place)


def ask_for_missing(report: "Report", engine: Any) -> None:
    """Ask for a device that is not there: the framework has to refuse."""
    with report.step("missing device") as step:
        try:
            engine.ask_for_missing()
            step.failed("%s was asked for, and no error came" % MISSING, "device-placement")
        except engine.refusals as error:
            step.passed("refused, as it should be: %s" % str(error).splitlines()[0][:200])


def fall_back(report: "Report", engine: Any) -> None:
    """Ask for the same with soft placement, where a framework has that.

    It has to take another device.
    """
    if hasattr(engine, "soften"):
        with report.step("soft placement") as step:
            found, place = engine.soften()
            (step.passed if found == PRODUCT else step.failed)(
                "%s was asked for, %s took it" % (MISSING, place)
            )


def towers(report: "Report", engine: Any, targets: List[str]) -> None:
    """Multiply in two towers and add on the CPU."""
    with report.step("towers on %s" % " and ".join(targets), "CPU:0") as step:
        found, place = engine.towers(targets)
        step.judge(found, SUM, place)


def update_without_waiting(report: "Report", engine: Any, targets: List[str]) -> None:
    """Let each tower add its product as soon as it has it, and go on."""
    with report.step("asynchronous towers on %s" % " and ".join(targets)) as step:
        total = [[0.0, 0.0], [0.0, 0.0]]
        places, errors, turn = [], [], threading.Lock()  # type: Any, Any, Any

        def work(target: str) -> None:
            try:
                for _ in range(ROUNDS):
                    found, place = engine.product(target, LEFT, RIGHT)
                    with turn:
                        places.append((target, place))
                        for row, new in zip(total, found.tolist()):
                            row[:] = [one + other for one, other in zip(row, new)]
            except Exception as error:  # noqa: BLE001 - of a framework; it is raised below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(target,)) for target in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        astray = ["%s for %s" % (place, target) for target, place in places if place != target]
        wanted = [[ROUNDS * number for number in row] for row in SUM]
        if astray:
            step.failed("ran on %s" % astray[0], "device-placement")
        elif total != wanted:
            step.failed("gave %s instead of %s" % (total, wanted))
        else:
            step.passed("%d updates, none waited for another" % len(places))


def split_model(report: "Report", engine: Any, targets: List[str]) -> None:
    """Compute the first layer of a model on one device, and the second on another."""
    with report.step("model split over %s" % ", ".join(targets), targets[1]) as step:
        hidden, place = engine.product(targets[0], LEFT, RIGHT)
        if place != targets[0]:
            step.failed("the first layer ran on %s" % place, "device-placement")
            return
        found, place = engine.product(targets[1], hidden.tolist(), SECOND)
        step.judge(found.tolist(), OF_BOTH, place)


def copy(report: "Report", engine: Any, source: str, target: str) -> None:
    """Copy a matrix from one device to another."""
    with report.step("copy from %s" % source, target) as step:
        found, place, how = engine.copy(source, target)
        step.judge(found, LEFT, place)
        step.said["message"] += how


def reduce_over_all(report: "Report", engine: Any, targets: List[str]) -> None:
    """Add 1, 2, 3 ... over all devices, each of which has to get the sum."""
    with report.step("all-reduce over %s" % ", ".join(targets)) as step:
        found, by = engine.reduce(targets)
        wanted = [float(sum(range(len(targets) + 1)))] * len(targets)
        (step.passed if found == wanted else step.failed)(
            "%s gave %s, right is %s" % (by, found, wanted)
        )


def train_together(report: "Report", engine: Any, targets: List[str]) -> None:
    """Compare a linear model's gradient over all devices with that on one device."""
    with report.step("gradients over %s" % ", ".join(targets)) as step:
        source = random.Random(1)  # noqa: S311 - test data
        # Sixteenths are exact in TF32, too: devices of different kinds agree.
        rows = [
            [source.randint(-16, 16) / 16.0 for _ in range(4)] for _ in range(ROWS * len(targets))
        ]
        together, alone = engine.gradients(rows, targets)
        step.within(
            max(largest_difference(each, alone) for each in together), SHARE_ROUNDED, step.device
        )


def largest_difference(found: List[float], wanted: List[float]) -> float:
    """Return the largest difference between numbers, as a share of the largest number wanted."""
    if len(found) != len(wanted):
        return float("inf")
    differences = [abs(one - other) for one, other in zip(found, wanted)]
    worst = max(differences) if all(each == each for each in differences) else float("nan")  # noqa: PLR0124 - a NaN
    return worst / max(abs(each) for each in wanted)
