"""Find the driver's user-space libraries as the loader does, and ask libcuda for its CUDA version."""

from __future__ import annotations

import posixpath
import re
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from envcheck.host.process import start_thread
from envcheck.host.protocol import FileStatus, Host
from envcheck.model import Absent, Fact, Known, Source, Unknown, get_value

_ROOT_OR_UNMAPPED = ("0", "65534", "root", "nobody")  # a user namespace shows the host's files as nobody's


def why_not_loaded(host: Host, path: str) -> Optional[str]:
    """Say why root must not load `path`: it, or a folder above it, can be changed by another user."""
    if host.system != "linux" or not host.system_facts().get("is_root"):
        return None
    real = host.real_path(path)
    place = real.value if isinstance(real, Known) else path
    while True:
        status = host.status(place)
        if isinstance(status, Known) and _changeable(status.value):
            return f"not loaded as root: {place} can be changed by others ({status.value.mode} {status.value.owner})"
        if place in ("/", ""):
            return None
        place = posixpath.dirname(place)


def _changeable(status: FileStatus) -> bool:
    sticky = status.mode[-1:] in ("t", "T")
    anyone = status.mode[8:9] == "w" and not sticky
    return anyone or status.owner.split(":")[0] not in _ROOT_OR_UNMAPPED


# Sources, in the loader's order: LD_LIBRARY_PATH, its cache, the default folders.
_DEFAULT_FOLDERS = (
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
    "/lib64", "/usr/lib64", "/lib", "/usr/lib",
)  # fmt: skip
# Where copies lie that the loader reaches only when it is told to.
_OTHER_FOLDERS = (
    "/usr/lib/wsl/lib",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
    "/.singularity.d/libs",
)
_TOOLKIT_FOLDERS = ("compat", "lib64/stubs", "compat/lib.real")
_WINDOWS_LIBRARIES = {
    "libcuda.so.1": ("C:\\Windows\\System32\\nvcuda.dll",),
    "libnvidia-ml.so.1": (
        "C:\\Windows\\System32\\nvml.dll",
        "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll",
    ),
}
_ELF_32_BIT = b"\x7fELF\x01"
_NAMES = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")


class DriverLibraries(NamedTuple):
    """The driver's libraries: real files the loader reaches, and the others."""

    libcuda: Fact[str]
    libcuda_unversioned: Fact[str]
    libcuda_elsewhere: Fact[Tuple[str, ...]]
    nvml: Fact[str]
    nvml_to_ask: Fact[str]  # the loader's, else WSL's own

    @property
    def any_there(self) -> bool:
        """Tell whether there is any trace of a driver's user side."""
        return any(isinstance(fact, Known) for fact in (self.libcuda, self.nvml, self.nvml_to_ask))


def find_driver_libraries(host: Host) -> DriverLibraries:
    """Find libcuda and libnvidia-ml."""
    if host.system != "linux":
        return _off_linux(host)
    search = _Search(host)
    libcuda, nvml = search.find("libcuda.so.1"), search.find("libnvidia-ml.so.1")
    ask = nvml if isinstance(nvml, Known) else _first_existing(host, ("/usr/lib/wsl/lib/libnvidia-ml.so.1",), nvml)
    return DriverLibraries(libcuda, search.find("libcuda.so"), _elsewhere(host, search, libcuda), nvml, ask)


def _off_linux(host: Host) -> DriverLibraries:
    places: Mapping[str, Tuple[str, ...]] = _WINDOWS_LIBRARIES if host.system == "windows" else {}
    cuda = _first_existing(host, places.get("libcuda.so.1", ()), Absent(places.get("libcuda.so.1", ())))
    nvml = _first_existing(host, places.get("libnvidia-ml.so.1", ()), Absent(places.get("libnvidia-ml.so.1", ())))
    return DriverLibraries(cuda, Absent(), Absent(), nvml, nvml)


def _first_existing(host: Host, paths: Tuple[str, ...], otherwise: Fact[str]) -> Fact[str]:
    found = (host.real_path(path) for path in paths)
    return next((fact for fact in found if isinstance(fact, Known)), otherwise)


class _Search:
    """The folders of one machine in which the loader looks, those that exist."""

    def __init__(self, host: Host) -> None:
        self._host = host
        entries = re.split("[:;]", host.environment().get("LD_LIBRARY_PATH", ""))
        # The loader takes an empty entry for the current folder, which says nothing of the machine: left out.
        self._told = self._existing(tuple(dict.fromkeys(entry for entry in entries if entry.startswith("/"))))
        self._default = self._existing(_DEFAULT_FOLDERS)
        self._cache = host.loader_cache()

    def _existing(self, folders: Tuple[str, ...]) -> List[str]:
        return [folder for folder in folders if isinstance(self._host.status(folder), Known)]

    def candidates(self, name: str) -> Iterator[str]:
        """Yield where the loader would try `name`, in its order."""
        cached = self._cache.value.get(name, ()) if isinstance(self._cache, Known) else ()
        yield from (f"{folder.rstrip('/')}/{name}" for folder in self._told)
        yield from cached
        yield from (f"{folder}/{name}" for folder in self._default)

    def find(self, name: str) -> Fact[str]:
        """Return the real file behind what the loader would open for `name`."""
        for path in self.candidates(name):
            real = self._host.real_path(path)
            if isinstance(real, Known) and _loadable(self._host, real.value):
                return Known(real.value, Source("file", path, f"-> {real.value}" if real.value != path else ""))
        tried = tuple(f"{name} in {place}" for place in ("LD_LIBRARY_PATH", "/etc/ld.so.cache", "the default folders"))
        if isinstance(self._cache, Unknown):
            return Unknown(self._cache.why, self._cache.detail, tried)
        return Absent(tried)


def _loadable(host: Host, path: str) -> bool:
    # The loader passes over libraries of the other word size; it stops at a broken one, so that one counts.
    status = host.status(path)
    if not isinstance(status, Known) or status.value.kind != "file":
        return False
    head = host.read_bytes(path, 5)
    return not (isinstance(head, Known) and head.value == _ELF_32_BIT)


def _elsewhere(host: Host, search: _Search, chosen: Fact[str]) -> Fact[Tuple[str, ...]]:
    found: Dict[str, None] = {}
    for path in [*search.candidates("libcuda.so.1"), *_hidden_places(host)]:
        real = host.real_path(path)
        if isinstance(real, Known) and _loadable(host, real.value):
            found[real.value] = None
    others = tuple(path for path in found if path != get_value(chosen))
    if not others:
        return Absent((*_OTHER_FOLDERS, "/usr/local/cuda*"))
    return Known(others, Source("file", others[0]))


def _hidden_places(host: Host) -> List[str]:
    local = host.list_folder("/usr/local")
    names = local.value if isinstance(local, Known) else ()
    roots = [f"/usr/local/{name}" for name in names if re.match(r"cuda(-\d|$)", name)]
    folders = [f"{root}/{inner}" for root in roots for inner in _TOOLKIT_FOLDERS]
    existing = [folder for folder in (*_OTHER_FOLDERS, *folders) if isinstance(host.status(folder), Known)]
    return [f"{folder}/{name}" for folder in existing for name in ("libcuda.so.1", "libcuda.so")]


def read_library_version(library: Fact[str]) -> Fact[str]:
    """Read the release out of a library's real name; WSL's libraries do not carry one."""
    if not isinstance(library, Known):
        return library
    version = parse_driver_library_name(library.value)
    if version is None:
        return Absent((library.value,))
    return Known(version, Source("file", library.value))


def parse_driver_library_name(path: str) -> Optional[str]:
    """Read the driver release that ends a library's file name.

    "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01" -> "550.163.01"; "/usr/lib/wsl/lib/libcuda.so.1.1" -> None
    """
    found = re.search(r"\.so\.(\d{3,}\.\d+(?:\.\d+)?)$", path)
    return found.group(1) if found else None


_STUB = 34


class CudaReading(NamedTuple):
    """What libcuda told."""

    driver_version: Fact[str]
    init_result: Fact[int]


def query_cuda(host: Host, library: Fact[str]) -> CudaReading:
    """Ask cuDriverGetVersion and cuInit in two children, side by side; without a library none is started.

    The version needs neither a GPU nor the kernel module, so it must not depend on how cuInit ends.
    """
    if not isinstance(library, Known):
        return CudaReading(library, library)
    path = library.value
    reason = why_not_loaded(host, path)
    if reason:
        refused = Unknown("denied", reason, (path,))
        return CudaReading(refused, refused)
    answers = _side_by_side(
        version=lambda: host.ask("libcuda_version", path),
        init=lambda: host.ask("libcuda_version", path, "init"),
    )
    return CudaReading(parse_version_answer(answers["version"], path), parse_init_answer(answers["init"], path))


def _side_by_side(**calls: Callable[[], Fact[Mapping[str, Any]]]) -> Dict[str, Fact[Mapping[str, Any]]]:
    results: Dict[str, Fact[Mapping[str, Any]]] = {}
    errors: Dict[str, BaseException] = {}

    def call(name: str) -> None:
        try:
            results[name] = calls[name]()
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            errors[name] = error

    for thread in filter(None, [start_thread(partial(call, name)) for name in calls]):
        thread.join()
    for error in errors.values():
        raise error
    return results


def parse_version_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[str]:
    """Turn the child's answer into a version: {"version": 12040} -> "12.4"; {"error": 34} is a stub library."""
    if not isinstance(answer, Known):
        return answer
    number = answer.value.get("version")
    version = format_cuda_version(number)
    if version is not None:
        return Known(version, Source("library", path, f"cuDriverGetVersion: {number}"))
    if answer.value.get("error") == _STUB:
        return Unknown("failed", f"{path} is a stub library, no driver: cuDriverGetVersion returned 34", (path,))
    if "error" in answer.value:
        return Unknown("failed", f"{path}: cuDriverGetVersion returned {answer.value['error']}", (path,))
    return _unreadable(answer.value, path)


def parse_init_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[int]:
    """Turn the child's answer into cuInit's result: {"init": 100} -> 100 (no device)."""
    if not isinstance(answer, Known):
        return answer
    code = answer.value.get("init")
    if isinstance(code, int):
        return Known(code, Source("library", path, f"cuInit(0): {code}"))
    return _unreadable(answer.value, path)


def _unreadable(answer: Mapping[str, Any], path: str) -> Unknown:
    if "load_error" in answer:
        return Unknown("failed", f"{path} cannot be loaded: {answer['load_error']}", (path,))
    return Unknown("unparsable", f"{path}: the answer was {str(dict(answer))[:80]}", (path,))


def format_cuda_version(value: Any) -> Optional[str]:
    """Turn the driver's number into a version: 12040 -> "12.4"."""
    if not isinstance(value, int) or value < 1000:
        return None
    return f"{value // 1000}.{value % 1000 // 10}"
