"""The driver test: only the CUDA driver API and envcheck's own small kernels.

It needs no framework, and runs on each GPU visible.
"""

import array
import ctypes
import os
import random
import sys
import time
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from smoke_card import attributes, expected, judge_speed, load_library, read_table
from smoke_engine import SkippedError
from smoke_numbers import LEFT, PRODUCT, RIGHT
from smoke_speed import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from start import Report, Step

LOADED_DRIVER = "/proc/driver/nvidia/version"
JIT_INFO, JIT_INFO_SIZE, JIT_ERRORS, JIT_ERRORS_SIZE = 3, 4, 5, 6
JIT_LOG_BYTES = 8192
OUT_OF_MEMORY = 2
KERNEL = "matmul_f32"
BLOCK = 64  # results a side that one block of a kernel makes
THREADS = 256
MAJOR, MINOR = 75, 76
ORDINAL_OF_POINTER = 9
SIZE = 2048
PERIOD = 8191  # a prime, so that no two rows are alike
STEPS = 16  # values are multiples of 1/16
ALLOWED = 1e-4  # error, as a share of the typical number
SHARE = 0.5  # of the free memory that is asked for
LIMIT = 256 << 20  # bytes of it at most
PATTERN = 0x5EED5EED
WORDS = 4 << 20  # of four bytes: 16 MiB
PATIENCE = 60.0  # seconds for all pairs: sixteen GPUs are 240 of them
COPIED = 256 << 20  # bytes of a copy
TIMES = 10
ABOUT_COPIES = (
    "how fast batches reach the GPU; a GPU that waits for its data is no faster than this"
)
ABOUT_MEMORY = "how fast the GPU reads and writes its own memory; small operations are bound by it"


class CudaError(Exception):
    """A call without CUDA_SUCCESS, with its result's name and the finding it points to."""

    def __init__(self, call: str, code: int, row: Dict[str, Any], log: str) -> None:
        name = row.get("name", "a result without a name here")
        means = row.get("means", "unknown to this program")
        super().__init__("%s: %s (%d): %s%s" % (call, name, code, means, "\n" + log if log else ""))
        self.call, self.code, self.finding = call, code, row.get("finding", "")
        self.ends_context = bool(row.get("ends_context"))


class Cuda:
    """The driver's library.

    `cuda.call("cuInit", 0)` raises CudaError on any other result than success.
    """

    def __init__(self) -> None:
        self._library = load_library()
        self._results = {
            row["code"]: row for row in read_table("nvidia/cuda_results.json")["results"]
        }
        self.ended = ""  # the error after which nothing runs in this process any more

    def call(self, name: str, *arguments: Any, **more: Any) -> None:
        """Call a function; `log` is a buffer to quote when it fails."""
        if self.ended:
            raise SkippedError("nothing runs in this process after %s" % self.ended)
        code = int(getattr(self._library, name)(*arguments))
        if code != 0:
            log = ""
            if "log" in more:
                log = more["log"].value.decode("utf-8", "replace").strip()
            error = CudaError(name, code, self._results.get(code, {}), log)
            if error.ends_context:
                self.ended = str(error).splitlines()[0]
            raise error

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function that writes one int through its first argument, and return that."""
        value = ctypes.c_int(0)
        self.call(name, ctypes.byref(value), *arguments)
        return value.value

    def pointer(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that writes one handle through its first argument, and return that."""
        value = ctypes.c_void_p()
        self.call(name, ctypes.byref(value), *arguments)
        return value

    def attribute(self, number: int, device: int) -> int:
        """Return an attribute of a device; 0 where this driver does not tell it."""
        try:
            return self.number("cuDeviceGetAttribute", number, device)
        except CudaError:
            return 0

    def name(self, device: int) -> str:
        """Return a device's product name."""
        buffer = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", buffer, 256, device)
        return buffer.value.decode("utf-8", "replace")

    def uuid(self, device: int) -> str:
        """Return a device's UUID without its prefix, of a MIG instance its own."""
        buffer = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid_v2", buffer, device)
        digits = bytes(bytearray(buffer)).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def tells_uuids(self) -> bool:
        """Say whether this driver tells the UUIDs of GPUs and MIG instances: since CUDA 11.4."""
        return hasattr(self._library, "cuDeviceGetUuid_v2")

    def load_kernel(self) -> ctypes.c_void_p:
        """Have the driver translate envcheck's PTX, and return its kernel."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), KERNEL + ".ptx")
        with open(path, "rb") as stream:
            text = ctypes.create_string_buffer(stream.read())
        info, errors = (ctypes.create_string_buffer(JIT_LOG_BYTES) for _ in range(2))
        keys = (ctypes.c_int * 4)(JIT_INFO, JIT_INFO_SIZE, JIT_ERRORS, JIT_ERRORS_SIZE)
        values = (ctypes.c_void_p * 4)(
            ctypes.addressof(info), JIT_LOG_BYTES, ctypes.addressof(errors), JIT_LOG_BYTES
        )  # sizes stand in the place of pointers, as the interface has it
        module = ctypes.c_void_p()
        self.call("cuModuleLoadDataEx", ctypes.byref(module), text, 4, keys, values, log=errors)
        sys.stderr.write(info.value.decode("utf-8", "replace"))
        return self.pointer("cuModuleGetFunction", module, ("envcheck_" + KERNEL).encode("ascii"))


@contextmanager
def checked(
    report: "Report", check: str, device: str, exhausted: str = "gpu-memory-held"
) -> Iterator["Step"]:
    """Begin a check whose CUDA errors point to their finding.

    `exhausted` is the one for too little memory: what the test asks for is little, others hold the
    rest.
    """
    with report.step(check, device) as step:
        try:
            yield step
        except CudaError as error:
            step.raised(error)
            step.said["finding"] = exhausted if error.code == OUT_OF_MEMORY else error.finding


def not_loaded() -> str:
    """Return the finding that a missing library points to."""
    if os.path.exists(LOADED_DRIVER):
        return "libcuda-not-on-path"
    return "driver-missing"


class Gpu:
    """One GPU with a context of its own; `label` is its name in this process: GPU:0."""

    def __init__(self, cuda: "Cuda", index: int) -> None:
        self.cuda, self.label = cuda, "GPU:%d" % index
        self.device = cuda.number("cuDeviceGet", index)
        self.name = cuda.name(self.device)
        self.capability = (cuda.attribute(MAJOR, self.device), cuda.attribute(MINOR, self.device))
        self.context: Optional[ctypes.c_void_p] = None
        self.kernel: Optional[ctypes.c_void_p] = None

    def open(self) -> None:
        """Create the context: the first thing that takes memory on the GPU."""
        self.context = self.cuda.pointer("cuCtxCreate_v2", 0, self.device)

    def select(self) -> None:
        """Make this GPU's context the current one."""
        self.cuda.call("cuCtxSetCurrent", self.context)

    @contextmanager
    def memory(self, size: int, *, on_host: bool = False) -> Iterator[ctypes.c_void_p]:
        """Hold `size` bytes of the GPU's memory, or locked ones of the host's, which it copies."""
        bytes_held = ctypes.c_size_t(size)
        if on_host:
            address = self.cuda.pointer("cuMemHostAlloc", bytes_held, 0)
        else:
            address = self.cuda.pointer("cuMemAlloc_v2", bytes_held)
        try:
            yield address
        finally:
            if not self.cuda.ended:
                self.cuda.call("cuMemFreeHost" if on_host else "cuMemFree_v2", address)

    @contextmanager
    def filled(self, values: Any) -> Iterator[ctypes.c_void_p]:
        """Hold a copy of an array in the GPU's memory."""
        data = memoryview(values).cast("B")
        with self.memory(len(data)) as address:
            source = (ctypes.c_char * len(data)).from_buffer(values)
            self.cuda.call("cuMemcpyHtoD_v2", address, source, ctypes.c_size_t(len(data)))
            yield address

    def fetch(self, address: ctypes.c_void_p, values: Any) -> Any:
        """Copy from the GPU's memory into an array and return it."""
        size = len(memoryview(values).cast("B"))
        target = (ctypes.c_char * size).from_buffer(values)
        self.cuda.call("cuMemcpyDtoH_v2", target, address, ctypes.c_size_t(size))
        return values

    def free_memory(self) -> Tuple[int, int]:
        """Return free and total memory in bytes."""
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        self.cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def fill(self, address: ctypes.c_void_p, word: int, count: int) -> None:
        """Write a 32-bit word `count` times."""
        self.cuda.call("cuMemsetD32_v2", address, ctypes.c_uint(word), ctypes.c_size_t(count))

    def word_at(self, address: ctypes.c_void_p, offset: int) -> int:
        """Read the 32-bit word at an offset in bytes."""
        word = ctypes.c_uint32(0)
        place = ctypes.c_void_p((address.value or 0) + offset)
        self.cuda.call("cuMemcpyDtoH_v2", ctypes.byref(word), place, ctypes.c_size_t(4))
        return word.value

    def place_of(self, address: ctypes.c_void_p) -> str:
        """Return the GPU that holds an address, by the driver's word: since CUDA 9.2."""
        return "GPU:%d" % self.cuda.number("cuPointerGetAttribute", ORDINAL_OF_POINTER, address)

    def launch(self, matrices: Any, sizes: Any) -> None:
        """Start c[m x n] = a[m x k] * b[k x n]; the caller waits for it."""
        rows, columns = sizes[0], sizes[1]
        values = list(matrices) + [ctypes.c_uint32(size) for size in sizes]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        grid = ((columns + BLOCK - 1) // BLOCK, (rows + BLOCK - 1) // BLOCK, 1)
        shape = grid + (THREADS, 1, 1, 0)
        self.cuda.call("cuLaunchKernel", self.kernel, *(shape + (None, pointers, None)))

    def multiply(self, operands: Any, target: Any, sizes: Any) -> Tuple[Any, str]:
        """Multiply arrays, overwriting `target`; return it and the GPU that held it."""
        with ExitStack() as stack:
            held = [stack.enter_context(self.filled(values)) for values in (*operands, target)]
            self.launch(held, sizes)
            self.wait()
            return self.fetch(held[2], target), self.place_of(held[2])

    def wait(self) -> None:
        """Wait until everything that was started has ended."""
        self.cuda.call("cuCtxSynchronize")

    def seconds(self, work: Any, times: int) -> float:
        """Return how long one of `times` runs takes by the GPU's clock, after a warm-up."""
        work()
        events = [self.cuda.pointer("cuEventCreate", 0) for _ in range(2)]
        self.cuda.call("cuEventRecord", events[0], None)
        for _ in range(times):
            work()
        self.cuda.call("cuEventRecord", events[1], None)
        self.cuda.call("cuEventSynchronize", events[1])
        passed = ctypes.c_float(0)
        self.cuda.call("cuEventElapsedTime", ctypes.byref(passed), *events)
        for event in events:
            self.cuda.call("cuEventDestroy_v2", event)
        return max(passed.value, 1e-6) / 1000 / times


def matrix(seed: int) -> List[float]:
    """Make a matrix, row by row, of multiples of 1/16 between -1 and 1."""
    source = random.Random(seed)  # noqa: S311 - test data
    some = [source.randint(-STEPS, STEPS) / STEPS for _ in range(PERIOD)]
    return (some * (SIZE * SIZE // PERIOD + 1))[: SIZE * SIZE]


def largest_error(left: List[float], right: List[float], product: "Sequence[float]") -> float:
    """Return the largest error of a product's rows, as a share of the typical number.

    Freivalds: with random signs s, each row of product * s must be that row of left * (right * s).
    A wrong number anywhere in a row shows; the cost is that of three vectors, not of a second
    product.
    """
    source = random.Random(3)  # noqa: S311 - test data
    signs = [source.choice((-1.0, 1.0)) for _ in range(SIZE)]
    wanted = times(left, times(right, signs))
    found = times(product, signs)
    typical = (sum(value * value for value in product[:SIZE]) / SIZE) ** 0.5 * SIZE**0.5
    errors = [abs(one - other) for one, other in zip(found, wanted)]
    worst = max(errors) if all(error == error for error in errors) else float("nan")  # noqa: PLR0124 - a NaN is not
    return worst / typical if typical else float("inf")


def times(numbers: "Sequence[float]", vector: List[float]) -> List[float]:
    """Multiply a square matrix, given row by row, with a vector."""
    rows = range(0, SIZE * SIZE, SIZE)
    return [sum(map(float.__mul__, numbers[row : row + SIZE], vector)) for row in rows]


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
            step.refused(
                "the driver's library cannot be loaded: %s" % error, not_loaded(), str(error)
            )
        for cuda in opened:
            version = cuda.number("cuDriverGetVersion")
            cuda.call("cuInit", 0)
            seconds = time.time() - begun
            report.framework("driver", "%d.%d" % (version // 1000, version % 1000 // 10), seconds)
            step.passed(
                "CUDA driver API %d.%d, started in %.1f s"
                % (version // 1000, version % 1000 // 10, seconds)
            )
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
    """Return the digits of the UUID asked for.

    Return "" for a number, and for what this driver cannot tell.
    """
    kind, _, digits = name.lower().partition("-")
    is_uuid = kind in ("gpu", "mig") and "/" not in digits
    return digits if is_uuid and cuda.tells_uuids() else ""


def multiply(report: "Report", gpu: Gpu) -> bool:
    """Open a GPU, translate the kernel for it and multiply; say whether it can be used further."""
    with checked(report, "context", gpu.label) as step:
        gpu.open()
        step.passed("a context on %s, compute capability %d.%d" % ((gpu.name,) + gpu.capability))
    if step.said["outcome"] != "passed":
        return False
    with checked(report, "translate", gpu.label) as step:
        gpu.kernel = gpu.cuda.load_kernel()
        step.passed("the driver translated the kernel's PTX")
    if step.said["outcome"] != "passed":
        return False
    with checked(report, "matmul", gpu.label) as step:
        operands = [array.array("f", chain(*rows)) for rows in (LEFT, RIGHT)]
        target = array.array("f", [-1.0] * 4)
        found, place = gpu.multiply(operands, target, (2, 2, 3))
        step.judge([found[:2].tolist(), found[2:].tolist()], PRODUCT, place)
    return step.said["outcome"] == "passed"


def full(report: "Report", opened: "Tuple[Cuda, List[Gpu]]") -> None:
    """Test each GPU that passed the small product: alone, or in pairs where there are more."""
    _, gpus = opened
    if report.gpu == "all":
        copy_between(report, gpus)
        return
    for gpu in gpus:
        gpu.select()
        allocate(report, gpu)
        large(report, gpu)


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
            step.failed(
                "%s and %s read back" % (told, ["%#x" % end for end in ends]), "gpu-hardware-fault"
            )
        else:
            step.passed("%s and read back" % told)


def large(report: "Report", gpu: "Gpu") -> None:
    """Multiply 2,048 x 2,048 and check every row."""
    with checked(report, "matmul-float32", gpu.label) as step:
        left, right = matrix(1), matrix(2)
        operands = [array.array("f", values) for values in (left, right)]
        empty = array.array("f", [0.0]) * SIZE**2
        found, place = gpu.multiply(operands, empty, (SIZE,) * 3)
        step.within(largest_error(left, right, found), ALLOWED, place)


def copy_between(report: "Report", gpus: "List[Gpu]") -> None:
    """Copy data from each GPU to every other GPU."""
    begun = time.time()
    pairs = [(source, target) for source in gpus for target in gpus if source is not target]
    for source, target in pairs:
        with checked(report, "peer-copy", "%s to %s" % (source.label, target.label)) as step:
            if time.time() - begun > PATIENCE:
                step.skipped("the pairs before took %d s" % PATIENCE)
                continue
            direct = open_way(source, target)
            right = arrives(source, target)
            if direct:
                # a GPU may have eight such ways at a time
                source.cuda.call("cuCtxDisablePeerAccess", target.context)
            if right:
                step.passed(
                    "16 MiB arrived %s" % ("directly" if direct else "through the host's memory")
                )
            else:
                how = "a copy through the host's memory"
                if direct:
                    how = "a direct copy"
                step.failed("%s arrived with other bytes" % how, "multi-gpu-p2p-nccl")


def open_way(source: "Gpu", target: "Gpu") -> bool:
    """Let the source reach the target's memory directly if possible; say whether it does."""
    source.select()
    if not source.cuda.number("cuDeviceCanAccessPeer", source.device, target.device):
        return False
    source.cuda.call("cuCtxEnablePeerAccess", target.context, 0)
    return True


def arrives(source: "Gpu", target: "Gpu") -> bool:
    """Copy random words from one GPU to another and compare them."""
    sent = array.array("I", [(7919 * word) & 0xFFFFFFFF for word in range(8191)]) * (
        WORDS // 8191 + 1
    )
    size = ctypes.c_size_t(4 * len(sent))
    source.select()
    with source.filled(sent) as origin:
        target.select()
        with target.filled(array.array("I", [0]) * len(sent)) as goal:
            target.cuda.call("cuMemcpyPeer", goal, target.context, origin, source.context, size)
            target.wait()
            arrived = bool(target.fetch(goal, array.array("I", [0]) * len(sent)) == sent)
        source.select()
        return arrived


def bench(report: "Report", opened: "Tuple[Cuda, List[Gpu]]") -> None:
    """Measure each GPU alone."""
    for gpu in opened[1] if report.gpu != "all" else []:
        gpu.select()
        copy_on_device(report, gpu)
        copy_to_and_from(report, gpu)


def copy_on_device(report: "Report", gpu: "Gpu") -> None:
    """Measure copies within the GPU's memory, each byte read and written, and judge them."""
    with checked(report, "copy-on-device", gpu.label) as step:
        size = ctypes.c_size_t(COPIED)
        with gpu.memory(COPIED) as source, gpu.memory(COPIED) as target:
            seconds = gpu.seconds(
                lambda: gpu.cuda.call("cuMemcpyDtoD_v2", target, source, size), TIMES
            )
        speed, best = 2 * COPIED / seconds / 1e9, None
        # an instance has a part of the width, which the driver does not tell
        if not report.gpu.startswith("MIG-"):
            best = expected(attributes()).get("memory")
        about = share(speed, best) + ABOUT_MEMORY
        report.measure(step.check, gpu.label, "device to device", speed, "GB/s", about)
        judge_speed(step, "device to device: %.4g GB/s" % speed, speed, best)


def copy_to_and_from(report: "Report", gpu: "Gpu") -> None:
    """Measure copies between the computer's memory, locked in place, and the GPU's."""
    with checked(report, "copy-to-device", gpu.label) as step:
        size = ctypes.c_size_t(COPIED)
        with gpu.memory(COPIED, on_host=True) as here, gpu.memory(COPIED) as there:
            up = gpu.seconds(
                lambda: gpu.cuda.call("cuMemcpyHtoDAsync_v2", there, here, size, None), TIMES
            )
            down = gpu.seconds(
                lambda: gpu.cuda.call("cuMemcpyDtoHAsync_v2", here, there, size, None), TIMES
            )
        for name, seconds in (("device to host", down), ("host to device", up)):
            speed = COPIED / seconds / 1e9
            report.measure(step.check, gpu.label, name, speed, "GB/s", ABOUT_COPIES)
            step.passed("%s: %.4g GB/s" % (name, speed))
