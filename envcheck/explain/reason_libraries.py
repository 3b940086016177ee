"""Which library could not be loaded, which build asks for it, and what that means beside what is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.events import Event
from envcheck.explain.log import Claim, Log
from envcheck.explain.signatures import signatures_by_name
from envcheck.matrix.query import Matrix
from envcheck.model.facts import Known, value_of
from envcheck.model.records import dataclass

DRIVER, NVML, CUDNN, TENSORRT, TOOLKIT, PROFILER, FRAMEWORK, OTHER = (
    "driver", "nvml", "cudnn", "tensorrt", "toolkit", "profiler", "framework", "other",
)  # fmt: skip

_FAMILIES = (
    (r"(?:lib)?cuda(?:\.so.*|\.dylib)|nvcuda\.dll", DRIVER),
    (r"libnvidia-|nvml\.dll", NVML),
    (r"(?:lib)?cudnn", CUDNN),
    (r"lib(?:nvinfer|nvonnx|nvparsers)|nvinfer", TENSORRT),
    (r"(?:lib)?cupti", PROFILER),
    (r"(?:lib)?(?:cu|nv(?:rtc|JitLink|jitlink|ToolsExt|blas|perf|tx)|npp|nccl)", TOOLKIT),
    (r"lib(?:torch|c10|caffe2|tensorflow|jax|shm)", FRAMEWORK),
)


@dataclass(frozen=True)
class Library:
    """A shared library by its file name."""

    name: str  # libcublas.so.10.0, cudnn64_7.dll
    stem: str  # cublas
    version: str  # "10.0"; "" for none
    family: str


def parse_library(name: str) -> Library:
    """Read a library's name, such as libcusolver.so.10, cudart64_110.dll or libcuda.so."""
    base = re.split(r"[/\\]", name)[-1]
    family = next((kind for pattern, kind in _FAMILIES if re.match(pattern, base)), OTHER)
    match = re.match(r"lib(?P<stem>[\w.+-]+?)\.so(?:\.(?P<version>[\d.]+\d|\d+))?", base)
    if match:
        return Library(base, match["stem"], match["version"] or "", family)
    match = re.match(r"(?P<stem>[a-zA-Z_]+?)(?:64)?_?(?P<version>\d+)?(?:_\d+)?\.dll", base)
    if match:
        return Library(base, match["stem"], _dll_version(match["stem"], match["version"] or ""), family)
    match = re.match(r"lib(?P<stem>[a-zA-Z_]+)\.(?P<version>[\d.]+)\.dylib", base)
    return Library(base, match["stem"], match["version"], family) if match else Library(base, base, "", family)


def _dll_version(stem: str, version: str) -> str:
    """Part a DLL's number as NVIDIA writes it: cudart64_110 is 11.0, cublas64_11 is 11, cudnn64_7 is 7."""
    if stem.startswith("cudnn") or len(version) < 2 or (len(version) == 2 and version.startswith("1")):
        return version
    return f"{version[:-1]}.{version[-1]}"


def providers(matrix: Matrix, library: Library) -> tuple[str, ...]:
    """List the toolkit lines that hold a library of this name, newest first."""
    return matrix.toolkits_with(library.stem, f"lib{library.stem}.so.{library.version}")


_LOADS = (
    "missing-dynamic-library", "missing-dlerror", "cannot-open-shared-object", "import-cannot-open",
    "tf-couldnt-open-cuda-library", "tf-could-not-find-dll", "could-not-locate-library", "cupy-cuda-path",
    "dylib-not-loaded", "cannot-open-other-language", "library-cannot-be-loaded",
)  # fmt: skip
_FATAL = ("import-cannot-open", "tf-could-not-find-dll", "could-not-locate-library", "cannot-open-other-language")


def library_claims(log: Log) -> Iterator[Claim]:
    """Say what each library that could not be loaded means."""
    missing = [(event, parse_library(_name(event))) for event in log.of(*_LOADS) if _name(event)]
    yield from _cudnn_loader(log)
    yield from _toolkit(log, [pair for pair in missing if pair[1].family == TOOLKIT])
    for event, library in missing:
        if library.family == DRIVER:
            yield _driver(log, event, library)
        elif library.family == NVML:
            where = "driver-not-in-container" if log.in_container else "driver-missing"
            yield Claim(where, 62, f"{library.name} is part of the driver and is not found.", (event,))
        elif library.family == CUDNN:
            yield _cudnn(log, event, library, alone=not any(other.family == TOOLKIT for _, other in missing))
        elif library.family == TENSORRT and event.signature in _FATAL:
            yield Claim("tensorrt-missing", 86, f"The program needs TensorRT's {library.name}.", (event,))
        elif library.family == PROFILER and event.signature in _FATAL:
            yield Claim("toolkit-missing", 70, f"{library.name} of the CUDA Toolkit is not found.", (event,))
        elif library.family == FRAMEWORK:
            means = f"{library.name} is part of a framework release that is not the one installed."
            yield Claim("extension-build-mismatch", 88, means, (event,))
        elif library.family == OTHER:
            yield _foreign(event, library)


def _name(event: Event) -> str:
    row = event.captured
    return row.get("library") or row.get("library2") or ""


def _driver(log: Log, event: Event, library: Library) -> Claim:
    if library.name in ("libcuda.so", "libcuda.dylib"):
        means = "A library opens the driver's libcuda by its plain name libcuda.so, and the loader does not find it."
        return Claim("libcuda-not-on-path", 88, means, (event,), rivals=("driver-wsl",) if log.in_wsl else ())
    seen = bool(log.values("libcuda_path")) or isinstance(log.facts.driver.libcuda_path, Known)
    if log.in_container and not seen and not log.in_wsl:  # the driver may run: its libraries come from the host
        means = f"The container was not given the driver's {library.name}."
        return Claim("driver-not-in-container", 80 if log.driver else 74, means, (event,))
    if log.driver or log.in_wsl or seen:
        means = f"The driver works, and the loader does not find its {library.name}."
        return Claim("libcuda-not-on-path", 78, means, (event,), rivals=("driver-wsl",) if log.in_wsl else ())
    means = f"The driver's {library.name} is not on this machine: no NVIDIA driver is installed, or there is no GPU."
    return Claim("driver-missing", 60, means, (event,), rivals=("gpu-absent", "driver-not-in-container"))


def _cudnn(log: Log, event: Event, library: Library, *, alone: bool) -> Claim:
    held = [parse_library(name) for name in log.values("opened")]
    majors = {item.version.split(".")[0] for item in held if item.family == CUDNN}
    majors |= _cudnn_listed(log)
    for copy in value_of(log.facts.cudnn) or ():
        stated = value_of(copy.library_version) or value_of(copy.header_version) or value_of(copy.package_version)
        majors |= {stated.split(".")[0]} if stated else set()
    wanted = library.version.split(".")[0]
    if wanted and majors and wanted not in majors:
        means = f"This build loads cuDNN {wanted}; cuDNN {', '.join(sorted(majors))} is installed."
        return Claim("cudnn-wrong-major", 84, means, (event,))
    if wanted in majors:
        means = f"cuDNN {wanted} is installed, and the loader does not find its {library.name}."
        return Claim("toolkit-path-conflict", 74, means, (event,), rivals=("cudnn-missing",))
    means = f"cuDNN {wanted or ''} is not found ({library.name}).".replace("  ", " ")
    if not alone:  # where the toolkit's own libraries are missing as well, cuDNN is the smaller part of it
        return Claim("cudnn-missing", 55, means, (event,))
    return Claim("cudnn-missing", 80, means, (event,), rivals=("cudnn-wrong-major",))


def _cudnn_listed(log: Log) -> set[str]:
    """List the majors of the cuDNN that a list of packages, of the loader or of a folder shows."""
    wheels = (version for name, version in log.packages.items() if re.fullmatch(r"nvidia-cudnn-cu\d+", name))
    return {version.split(".")[0] for version in (*wheels, *log.values("cudnn_listed", "cudnn_file"))}


def _cudnn_loader(log: Log) -> Iterator[Claim]:
    for event in log.of("cudnn-loader-error"):
        reason = event.captured["reason"]
        named = re.search(r"(lib[\w-]+\.so[\w.]*): (?:cannot open|undefined)", reason)
        library = parse_library(named.group(1)) if named else None
        if "undefined symbol" in reason:
            yield Claim("cudnn-shadowed", 92, "Parts of two cuDNN releases are mixed.", (event,))
        elif library and library.family == DRIVER:
            means = "cuDNN opens the driver's library by its plain name libcuda.so, which the loader does not find."
            yield Claim("libcuda-not-on-path", 94, means, (event,))
        elif library and library.family == TOOLKIT:
            means = f"The cuDNN that is loaded was built for CUDA {library.version}: it asks for {library.name}."
            yield Claim("cudnn-wrong-cuda-build", 86, means, (event,), rivals=("toolkit-missing",))
        else:
            yield Claim("cudnn-missing", 78, f"A part of cuDNN is not found: {event.captured['library']}.", (event,))
    for event in log.of("cudnn-dll-error-code"):
        means = f"Windows cannot load cuDNN's {event.captured['library']} (error {event.captured['code']})."
        yield Claim("cudnn-missing", 74, means, (event,), rivals=("toolkit-path-conflict", "cudnn-shadowed"))
    for event in log.of("cudnn-loader-cublas"):
        library = parse_library(event.captured["library"])
        if library.family == DRIVER:
            yield Claim("libcuda-not-on-path", 88, "cuDNN does not find the driver's libcuda.so.", (event,))
        elif library.stem.startswith("cublas"):
            means = f"cuDNN asks for {library.name}: it was built for CUDA {library.version}, which is not there."
            yield Claim("cudnn-wrong-cuda-build", 84, means, (event,), rivals=("toolkit-missing",))
        else:
            yield Claim("toolkit-missing", 74, f"cuDNN needs {library.name} of the CUDA Toolkit.", (event,))


def _toolkit(log: Log, missing: list[tuple[Event, Library]]) -> Iterator[Claim]:
    if not missing:
        return
    events = tuple(event for event, _ in missing)
    names = ", ".join(dict.fromkeys(library.name for _, library in missing))
    lines = [providers(log.matrix, library) for _, library in missing]
    wanted = [line for line in lines[0] if all(line in other for other in lines if other)] if lines else []
    shown = f"{wanted[-1]} to {wanted[0]}" if len(wanted) > 1 else "".join(wanted)
    asks = f"This build asks for {names}" + (f", which CUDA {shown} holds" if shown else "")
    of_torch = _torch_cuda(log)
    if wanted and of_torch and of_torch.split(".")[0] not in {line.split(".")[0] for line in wanted}:
        means = f"{asks}; torch itself is built for CUDA {of_torch}: a compiled extension was built for another one."
        yield Claim("extension-build-mismatch", 84, means, events)
        return
    if log.has("torch-wheels-missing"):
        means = f"{asks}; PyTorch looks for it in the nvidia-* wheels, which are not installed."
        yield Claim("framework-cuda-extra-missing", 80, means, events, rivals=("cuda-wheel-not-found",))
        return
    if set(wanted) & set(log.cudas):
        means = f"{asks}; that version is installed, and the loader does not find it."
        yield Claim("toolkit-path-conflict", 82, means, events, rivals=("toolkit-missing",))
        return
    named = log.of("extension-named")
    if named and any(event.signature == "import-cannot-open" for event in events):
        means = f"{asks}; it is {named[0].captured['extension']} that asks, built for another CUDA than is here."
        yield Claim("extension-build-mismatch", 84, means, (*events, named[0]), rivals=("toolkit-missing",))
        return
    if log.cudas and wanted:
        yield Claim("toolkit-wrong-version", 86, f"{asks}; installed is CUDA {', '.join(log.cudas)}.", events)
        return
    yield _nothing_installed_told(log, events, [library for _, library in missing], asks)


def _nothing_installed_told(log: Log, events: tuple[Event, ...], missing: list[Library], asks: str) -> Claim:
    """Judge by which libraries are missing: where the runtime was found, CUDA is there in another version."""
    opened = [parse_library(name) for name in log.values("opened")]
    runtime = any(item.stem == "cudart" for item in opened)
    stems = {item.stem for item in missing}
    if runtime and not stems & {"cudart"}:
        means = f"{asks}; CUDA's runtime was found, so an installed CUDA of another version lacks it."
        return Claim("toolkit-wrong-version", 76, means, events, rivals=("toolkit-missing",))
    if "cudart" not in stems and not runtime and any(_in_toolkit(item) for item in missing) and stems != {"nccl"}:
        means = f"{asks}; no other CUDA library is complained about, so CUDA is there in another version."
        linked = any(event.signature == "import-cannot-open" for event in events)
        return Claim("toolkit-wrong-version", 64 if linked else 68, means, events, rivals=("toolkit-missing",))
    if not any(_in_toolkit(item) for item in missing):
        means = f"{asks}; it comes with the CUDA wheels of the build, not with the CUDA Toolkit."
        others = ("cuda-wheel-not-found", "toolkit-missing")
        return Claim("framework-cuda-extra-missing", 64, means, events, rivals=others)
    means = f"{asks}, and the loader does not find it."
    fatal = signatures_by_name()[events[0].signature].weight
    return Claim("toolkit-missing", fatal, means, events, rivals=("toolkit-wrong-version", "toolkit-path-conflict"))


def _in_toolkit(library: Library) -> bool:
    return not re.match(r"cusparseLt|nvshmem|cufile|nvjitlink", library.stem, re.IGNORECASE)


def _torch_cuda(log: Log) -> str:
    told = log.first("torch_cuda")
    version = log.packages.get("torch", "")
    label = re.search(r"\+cu(\d+)(\d)$", version)
    return told or (f"{label.group(1)}.{label.group(2)}" if label else "")


def _foreign(event: Event, library: Library) -> Claim:
    if library.stem.startswith("stdc++"):
        return Claim("libstdcxx-mismatch", 80, f"{library.name} is not found.", (event,))
    if library.stem.startswith("zlib"):
        means = f"cuDNN needs {library.name}, which does not come with it."
        return Claim("toolkit-missing", 72, means, (event,), rivals=("cudnn-missing",))
    if library.stem.startswith("python"):
        means = f"A module was built for a Python that is not here ({library.name})."
        return Claim("extension-build-mismatch", 70, means, (event,), rivals=("env-mixed",))
    return Claim("dependency-conflict", 50, f"The system lacks {library.name}, which a package needs.", (event,))
