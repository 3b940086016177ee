"""A GPU as the driver test uses it: a context, memory, kernels and timed launches."""

import ctypes
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children.driver_api import Cuda

BLOCK = 64  # results a side that one block of a kernel makes
THREADS = 256
MAJOR, MINOR = 75, 76
ORDINAL_OF_POINTER = 9


class Gpu:
    """One GPU with a context of its own; `label` is its name in this process: GPU:0."""

    def __init__(self, cuda: "Cuda", index: int) -> None:
        self.cuda, self.label = cuda, "GPU:%d" % index
        self.device = cuda.number("cuDeviceGet", index)
        self.name = cuda.name(self.device)
        self.capability = (cuda.attribute(MAJOR, self.device), cuda.attribute(MINOR, self.device))
        self.context: Optional[ctypes.c_void_p] = None
        self.kernels: Dict[str, ctypes.c_void_p] = {}

    def open(self) -> None:
        """Create the context: the first thing that takes memory on the GPU."""
        self.context = self.cuda.pointer("cuCtxCreate_v2", 0, self.device)

    def select(self) -> None:
        """Make this GPU's context the current one."""
        self.cuda.call("cuCtxSetCurrent", self.context)

    def kernel(self, name: str) -> ctypes.c_void_p:
        """Return a kernel, translated by the driver on first use."""
        if name not in self.kernels:
            self.kernels[name] = self.cuda.load_kernel(name)
        return self.kernels[name]

    @contextmanager
    def memory(self, size: int) -> Iterator[ctypes.c_uint64]:
        """Hold `size` bytes of the GPU's memory."""
        address = ctypes.c_uint64(0)
        self.cuda.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        try:
            yield address
        finally:
            if not self.cuda.ended:
                self.cuda.call("cuMemFree_v2", address)

    @contextmanager
    def filled(self, values: Any) -> Iterator[ctypes.c_uint64]:
        """Hold a copy of an array in the GPU's memory."""
        data = memoryview(values).cast("B")
        with self.memory(len(data)) as address:
            source = (ctypes.c_char * len(data)).from_buffer(values)
            self.cuda.call("cuMemcpyHtoD_v2", address, source, ctypes.c_size_t(len(data)))
            yield address

    def fetch(self, address: ctypes.c_uint64, values: Any) -> Any:
        """Copy from the GPU's memory into an array and return it."""
        size = len(memoryview(values).cast("B"))
        target = (ctypes.c_char * size).from_buffer(values)
        self.cuda.call("cuMemcpyDtoH_v2", target, address, ctypes.c_size_t(size))
        return values

    @contextmanager
    def locked(self, size: int) -> Iterator[ctypes.c_void_p]:
        """Hold `size` bytes of the computer's memory, locked in place so that the GPU copies them itself."""
        address = self.cuda.pointer("cuMemHostAlloc", ctypes.c_size_t(size), 0)
        try:
            yield address
        finally:
            if not self.cuda.ended:
                self.cuda.call("cuMemFreeHost", address)

    def free_memory(self) -> Tuple[int, int]:
        """Return free and total memory in bytes."""
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        self.cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def fill(self, address: ctypes.c_uint64, word: int, count: int) -> None:
        """Write a 32-bit word `count` times."""
        self.cuda.call("cuMemsetD32_v2", address, ctypes.c_uint(word), ctypes.c_size_t(count))

    def word_at(self, address: ctypes.c_uint64, offset: int) -> int:
        """Read the 32-bit word at an offset in bytes."""
        word = ctypes.c_uint32(0)
        place = ctypes.c_uint64(address.value + offset)
        self.cuda.call("cuMemcpyDtoH_v2", ctypes.byref(word), place, ctypes.c_size_t(4))
        return word.value

    def place_of(self, address: ctypes.c_uint64) -> str:
        """Return the GPU that holds an address, by the driver's word; before CUDA 9.2 it tells the context's only."""
        if self.cuda.number("cuDriverGetVersion") < 9020:
            return "GPU:%d" % self.cuda.number("cuCtxGetDevice")
        return "GPU:%d" % self.cuda.number("cuPointerGetAttribute", ORDINAL_OF_POINTER, address)

    def launch(self, kernel: str, matrices: Any, sizes: Any, stream: Optional[ctypes.c_void_p] = None) -> None:
        """Start c[m x n] = a[m x k] * b[k x n]; the caller waits for it."""
        rows, columns = sizes[0], sizes[1]
        values = list(matrices) + [ctypes.c_uint32(size) for size in sizes]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        grid = ((columns + BLOCK - 1) // BLOCK, (rows + BLOCK - 1) // BLOCK, 1)
        shape = grid + (THREADS, 1, 1, 0)
        self.cuda.call("cuLaunchKernel", self.kernel(kernel), *(shape + (stream, pointers, None)))

    def multiply(self, kernel: str, operands: Any, target: Any, sizes: Any) -> Tuple[Any, str]:
        """Multiply arrays, overwriting `target`; return it and the GPU that held it."""
        with ExitStack() as stack:
            held = [stack.enter_context(self.filled(values)) for values in (*operands, target)]
            self.launch(kernel, held, sizes)
            self.wait()
            return self.fetch(held[2], target), self.place_of(held[2])

    def wait(self) -> None:
        """Wait until everything that was started has ended."""
        self.cuda.call("cuCtxSynchronize")

    def seconds(self, work: Any, times: int) -> float:
        """Return how long one of `times` runs of `work` takes on the GPU, by its own clock, after one to warm up."""
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
