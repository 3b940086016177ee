"""Find the driver's libraries as the loader does, and ask libcuda for its CUDA version."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

from envcheck.host.files import find_trust_problem
from envcheck.host.loader import Loader
from envcheck.host.paths import list_names
from envcheck.host.process import call_concurrently
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Source, Unknown, from_file
from envcheck.model.text import find_group
from envcheck.model.versions import cuda_of_number

# Folders with copies that the loader searches only where it is configured to.
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
_WINDOWS_CUDA = ("C:\\Windows\\System32\\nvcuda.dll",)
_WINDOWS_NVML = (
    "C:\\Windows\\System32\\nvml.dll",
    "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll",
)
_ELF_32_BIT = b"\x7fELF\x01"


class DriverLibraries(NamedTuple):
    """The driver's libraries: real files that the loader finds, and other copies."""

    libcuda: Fact[str]
    libcuda_unversioned: Fact[str]
    libcuda_elsewhere: Fact[Tuple[str, ...]]
    nvml: Fact[str]
    nvml_to_query: Fact[str]  # the loader's, else WSL's own

    @property
    def is_any_found(self) -> bool:
        """Return whether any part of a driver's user space exists."""
        return any(fact.value is not None for fact in (self.libcuda, self.nvml, self.nvml_to_query))


def find_driver_libraries(host: Host) -> DriverLibraries:
    """Find libcuda and libnvidia-ml."""
    if host.system != "linux":
        cuda_paths, nvml_paths = (
            (_WINDOWS_CUDA, _WINDOWS_NVML) if host.system == "windows" else ((), ())
        )
        cuda = _find_first(host, cuda_paths, Absent(cuda_paths))
        nvml = _find_first(host, nvml_paths, Absent(nvml_paths))
        return DriverLibraries(cuda, Absent(), Absent(), nvml, nvml)
    loader = Loader(host)
    find = partial(_find_loaded, host, loader)
    libcuda, nvml = find("libcuda.so.1"), find("libnvidia-ml.so.1")
    query = nvml
    if not isinstance(nvml, Known):
        query = _find_first(host, ("/usr/lib/wsl/lib/libnvidia-ml.so.1",), nvml)
    return DriverLibraries(
        libcuda, find("libcuda.so"), _find_other_copies(host, loader, libcuda), nvml, query
    )


def _find_first(host: Host, paths: Tuple[str, ...], otherwise: Fact[str]) -> Fact[str]:
    facts = map(host.real_path, paths)
    return next((fact for fact in facts if isinstance(fact, Known)), otherwise)


def _find_loaded(host: Host, loader: Loader, name: str) -> Fact[str]:
    """Return the real file that the loader opens for `name`."""
    for path, _ in loader.list_candidates(name):
        real = host.real_path(path)
        if real.value is not None and _is_loadable(host, real.value):
            return from_file(real.value, path, f"-> {real.value}" if real.value != path else "")
    tried = tuple(
        f"{name} in {place}"
        for place in ("LD_LIBRARY_PATH", "/etc/ld.so.cache", "the default folders")
    )
    cache = host.loader_cache()
    if isinstance(cache, Unknown):
        return Unknown(cache.why, cache.detail, tried)
    return Absent(tried)


def _is_loadable(host: Host, path: str) -> bool:
    # The loader skips libraries of the other word size but stops at a broken one.
    status = host.status(path)
    if status.value is None or status.value.kind != "file":
        return False
    return host.read_bytes(path, 5).value != _ELF_32_BIT


def _find_other_copies(host: Host, loader: Loader, chosen: Fact[str]) -> Fact[Tuple[str, ...]]:
    searched = (path for path, _ in loader.list_candidates("libcuda.so.1"))
    candidates = [*searched, *_list_unsearched_paths(host)]
    real = dict.fromkeys(host.real_path(path).value for path in candidates)
    others = tuple(
        path for path in real if path and path != chosen.value and _is_loadable(host, path)
    )
    if not others:
        return Absent((*_OTHER_FOLDERS, "/usr/local/cuda*"))
    return from_file(others, others[0])


def _list_unsearched_paths(host: Host) -> List[str]:
    roots = [
        f"/usr/local/{name}"
        for name in list_names(host, "/usr/local")
        if re.match(r"cuda(-\d|$)", name)
    ]
    folders = [f"{root}/{inner}" for root in roots for inner in _TOOLKIT_FOLDERS]
    existing = [
        folder for folder in (*_OTHER_FOLDERS, *folders) if isinstance(host.status(folder), Known)
    ]
    return [f"{folder}/{name}" for folder in existing for name in ("libcuda.so.1", "libcuda.so")]


def read_library_version(library: Fact[str]) -> Fact[str]:
    """Return the driver release in a library's real name.

    The names of WSL's libraries have none.
    """
    if not isinstance(library, Known):
        return library
    version = parse_driver_library_name(library.value)
    if version:
        return from_file(version, library.value)
    return Absent((library.value,))


def parse_driver_library_name(path: str) -> Optional[str]:
    """Parse the driver release at the end of a library's file name.

    "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01" -> "550.163.01";
    "/usr/lib/wsl/lib/libcuda.so.1.1" -> None
    """
    return find_group(r"\.so\.(\d{3,}\.\d+(?:\.\d+)?)$", path) or None


def find_load_refusal(host: Host, path: str) -> Optional[Unknown]:
    """Return why root must not load a library, None where it may."""
    problem = find_trust_problem(host, path) if host.system == "linux" else None
    if problem:
        return Unknown("denied", f"not loaded as root: {problem}", (path,))
    return None


_STUB_LIBRARY = 34  # cuda.h: CUDA_ERROR_STUB_LIBRARY


class CudaReading(NamedTuple):
    """The answers of libcuda."""

    driver_version: Fact[str]
    init_result: Fact[int]


def query_cuda(host: Host, library: Fact[str]) -> CudaReading:
    """Call cuDriverGetVersion and cuInit in two concurrent children; start none without a library.

    The version needs neither a GPU nor the kernel module, so it must not depend on the result of
    cuInit.
    """
    if not isinstance(library, Known):
        return CudaReading(library, library)
    path = library.value
    refusal = find_load_refusal(host, path)
    if refusal:
        return CudaReading(refusal, refusal)
    ask = partial(host.ask, "libcuda_version", path)
    answers = call_concurrently({"version": ask, "init": partial(ask, "init")})
    return CudaReading(
        parse_version_answer(answers["version"], path), parse_init_answer(answers["init"], path)
    )


def parse_version_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[str]:
    """Parse the child's answer into a version.

    {"version": 12040} -> "12.4"; {"error": 34} is a stub library.
    """
    if not isinstance(answer, Known):
        return answer
    number, error = answer.value.get("version"), answer.value.get("error")
    version = format_cuda_version(number)
    if version is not None:
        return Known(version, Source("library", path, f"cuDriverGetVersion: {number}"))
    if error == _STUB_LIBRARY:
        return Unknown(
            "failed",
            f"{path} is a stub library, not a driver: cuDriverGetVersion returned 34",
            (path,),
        )
    if error is not None:
        return Unknown("failed", f"{path}: cuDriverGetVersion returned {error}", (path,))
    return _explain_unreadable(answer.value, path)


def parse_init_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[int]:
    """Parse the child's answer into the result of cuInit: {"init": 100} -> 100 (no device)."""
    if not isinstance(answer, Known):
        return answer
    code = answer.value.get("init")
    if isinstance(code, int):
        return Known(code, Source("library", path, f"cuInit(0): {code}"))
    return _explain_unreadable(answer.value, path)


def _explain_unreadable(answer: Mapping[str, Any], path: str) -> Unknown:
    if "load_error" in answer:
        return Unknown("failed", f"{path} cannot be loaded: {answer['load_error']}", (path,))
    return Unknown(
        "unparsable", f"{path} gave an unexpected answer: {str(dict(answer))[:80]}", (path,)
    )


def format_cuda_version(value: Any) -> Optional[str]:
    """Convert the driver's number into a version: 12040 -> "12.4"."""
    if not isinstance(value, int) or value < 1000:
        return None
    return cuda_of_number(value)
