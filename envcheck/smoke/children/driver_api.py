"""The CUDA driver API through ctypes: every call checked, every result named."""

import ctypes
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report, Step

LIBRARY, IN_WSL = "libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"
LOADED_DRIVER = "/proc/driver/nvidia/version"
JIT_INFO, JIT_INFO_SIZE, JIT_ERRORS, JIT_ERRORS_SIZE = 3, 4, 5, 6
JIT_LOG_BYTES = 8192
OUT_OF_MEMORY = 2


def read_table(name: str) -> Any:
    """Read a data file, which lies in the package or, in a checkout, beside it."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = [os.path.join(folder, "data", name) for folder in (package, os.path.dirname(package))]
    with open(next(place for place in places if os.path.exists(place)), encoding="utf-8") as stream:
        return json.load(stream)


class CudaError(Exception):
    """A call that did not return CUDA_SUCCESS, with the name of its result and the finding it points to."""

    def __init__(self, call: str, code: int, row: Dict[str, Any], log: str) -> None:
        name, means = row.get("name", "a result without a name here"), row.get("means", "unknown to this program")
        super().__init__("%s: %s (%d): %s%s" % (call, name, code, means, "\n" + log if log else ""))
        self.call, self.code, self.finding = call, code, row.get("finding", "")
        self.ends_context = bool(row.get("ends_context"))


class Cuda:
    """The driver's library; `cuda.call("cuInit", 0)` raises CudaError on any other result than success."""

    def __init__(self) -> None:
        self._library = load_library()
        self._results = {row["code"]: row for row in read_table("cuda_results.json")["results"]}
        self.ended = ""  # the error after which nothing runs in this process any more

    def call(self, name: str, *arguments: Any, **more: Any) -> None:
        """Call a function; `log` is a buffer to quote when it fails."""
        if self.ended:
            raise SkippedError("nothing runs in this process after %s" % self.ended)
        code = int(getattr(self._library, name)(*arguments))
        if code != 0:
            log = more["log"].value.decode("utf-8", "replace").strip() if "log" in more else ""
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
        """Return a device's UUID without its prefix; of a MIG instance its own where the driver can tell it."""
        buffer = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid_v2" if self.tells_instances() else "cuDeviceGetUuid", buffer, device)
        digits = bytes(bytearray(buffer)).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def tells_uuids(self) -> bool:
        """Say whether this driver tells UUIDs: since CUDA 9.2."""
        return hasattr(self._library, "cuDeviceGetUuid")

    def tells_instances(self) -> bool:
        """Say whether a MIG instance tells its own UUID: drivers before CUDA 11.4 tell that of its GPU."""
        return hasattr(self._library, "cuDeviceGetUuid_v2")

    def load_kernel(self, name: str) -> ctypes.c_void_p:
        """Have the driver translate envcheck's PTX of this name, and return its kernel."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".ptx")
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
        return self.pointer("cuModuleGetFunction", module, ("envcheck_" + name).encode("ascii"))


def load_library() -> Any:
    """Load the driver's library by the name every program uses, in WSL else from the folder it lies in there."""
    if os.path.exists(IN_WSL) and not is_found(LIBRARY):
        return ctypes.CDLL(IN_WSL)
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else LIBRARY)


def is_found(name: str) -> bool:
    """Say whether the loader finds a library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


class SkippedError(Exception):
    """A check that cannot be made here, with the reason; a step knows it by its name."""


@contextmanager
def checked(report: "Report", check: str, device: str, exhausted: str = "gpu-memory-held") -> Iterator["Step"]:
    """Begin a check whose CUDA errors point to their finding.

    `exhausted` is the one for too little memory: what the test asks for is little, others hold the rest.
    """
    with report.step(check, device) as step:
        try:
            yield step
        except CudaError as error:
            step.raised(error)
            step.said["finding"] = exhausted if error.code == OUT_OF_MEMORY else error.finding


def not_loaded() -> str:
    """Return the finding that a missing library points to."""
    return "libcuda-not-on-path" if os.path.exists(LOADED_DRIVER) else "driver-missing"
