"""The driver test in full: memory, large products in float32 and float16, two streams, copies between GPUs."""

import array
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, List, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import driver_numbers as numbers
    from envcheck.smoke.children.driver_api import Cuda, SkippedError, checked
    from envcheck.smoke.children.driver_gpu import Gpu
    from envcheck.smoke.children.driver_peers import copy_between
    from envcheck.smoke.children.start import Report
else:
    import driver_numbers as numbers
    from driver_api import SkippedError, checked
    from driver_peers import copy_between

HALF_FROM = (5, 3)  # compute capability of float16 arithmetic
SHARE = 0.5  # of the free memory that is asked for
LIMIT = 256 << 20  # bytes of it at most
PATTERN = 0x5EED5EED


def more(report: "Report", opened: "Tuple[Cuda, List[Gpu]]") -> None:
    """Test each GPU that passed the small product, alone or, where several are visible, one with another."""
    _, gpus = opened
    if report.gpu == "all":
        copy_between(report, gpus)
        return
    for gpu in gpus:
        gpu.select()
        allocate(report, gpu)
        large(report, gpu, "matmul_f32", "matmul-float32")
        large(report, gpu, "matmul_f16", "matmul-float16")
        two_streams(report, gpu)


def allocate(report: "Report", gpu: "Gpu") -> None:
    """Take half of the free memory, at most 256 MiB; write all of it and read both ends."""
    with checked(report, "memory", gpu.label, exhausted="gpu-memory-exhausted") as step:
        free, total = gpu.free_memory()
        size = min(int(free * SHARE), LIMIT) // 4 * 4
        with gpu.memory(size) as address:
            gpu.fill(address, PATTERN, size // 4)
            ends = [gpu.word_at(address, offset) for offset in (0, size - 4)]
        told = "%d of %d MiB are free; %d MiB were written" % (free >> 20, total >> 20, size >> 20)
        if ends != [PATTERN, PATTERN]:
            step.failed("%s and %s read back" % (told, ["%#x" % end for end in ends]), "gpu-hardware-fault")
        else:
            step.passed("%s and read back" % told)


def large(report: "Report", gpu: "Gpu", kernel: str, check: str) -> None:
    """Multiply 2,048 x 2,048 and check every row."""
    with checked(report, check, gpu.label) as step:
        if kernel == "matmul_f16" and gpu.capability < HALF_FROM:
            raise SkippedError("float16 arithmetic came with compute capability %d.%d" % HALF_FROM)
        left, right = numbers.matrix(1), numbers.matrix(2)
        found, place = product(gpu, kernel, left, right)
        step.within(numbers.largest_error(left, right, found), numbers.ALLOWED[kernel], place)


def product(gpu: "Gpu", kernel: str, left: Any, right: Any) -> Tuple[Any, str]:
    """Return a large product and the GPU that held it."""
    operands = [numbers.packed(values, kernel) for values in (left, right)]
    empty = numbers.packed([0.0], kernel) * numbers.SIZE**2
    found, place = gpu.multiply(kernel, operands, empty, (numbers.SIZE,) * 3)
    return numbers.unpacked(found, kernel), place


def two_streams(report: "Report", gpu: "Gpu") -> None:
    """Multiply in two streams at once: both results must be right."""
    identity = array.array("f", [1.0, 0.0, 0.0, 1.0])
    inputs = [array.array("f", [1.0, 2.0, 3.0, 4.0]), array.array("f", [5.0, 6.0, 7.0, 8.0])]
    with checked(report, "streams", gpu.label) as step:
        streams = [gpu.cuda.pointer("cuStreamCreate", 1) for _ in inputs]  # 1: not in line with the default stream
        with ExitStack() as stack:
            one = stack.enter_context(gpu.filled(identity))
            held = [stack.enter_context(gpu.filled(values)) for values in inputs]
            targets = [stack.enter_context(gpu.filled(array.array("f", [0.0] * 4))) for _ in inputs]
            gpu.wait()  # these streams do not wait for the copies above by themselves
            for values, target, stream in zip(held, targets, streams):
                gpu.launch("matmul_f32", (values, one, target), (2, 2, 2), stream)
            for stream in streams:
                gpu.cuda.call("cuStreamSynchronize", stream)
            found = [gpu.fetch(target, array.array("f", [0.0] * 4)).tolist() for target in targets]
            step.judge(found, [values.tolist() for values in inputs], gpu.place_of(targets[1]))
        for stream in streams:
            gpu.cuda.call("cuStreamDestroy_v2", stream)
