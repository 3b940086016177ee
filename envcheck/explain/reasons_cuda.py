"""Conclude from messages about libraries, versions and GPU architectures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.log import FRAMEWORKS, Claim, Log, Strength, digits, framework_of_message, number
from envcheck.explain.signatures import Event, signatures_by_name
from envcheck.frameworks import Framework, identities
from envcheck.matrix.query import Matrix
from envcheck.model import Known, dataclass, get_value, major, major_minor

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
            yield Claim(where, Strength.PROBABLE, f"{library.name} is part of the driver and is not found.", (event,))
        elif library.family == CUDNN:
            yield _cudnn(log, event, library, alone=not any(other.family == TOOLKIT for _, other in missing))
        elif library.family == TENSORRT and event.signature in _FATAL:
            yield Claim(
                "tensorrt-missing", Strength.NAMED_PLACE, f"The program needs TensorRT's {library.name}.", (event,)
            )
        elif library.family == PROFILER and event.signature in _FATAL:
            yield Claim(
                "toolkit-missing", Strength.DECIDED, f"{library.name} of the CUDA Toolkit is not found.", (event,)
            )
        elif library.family == FRAMEWORK:
            means = f"{library.name} is part of a framework release that is not the one installed."
            yield Claim("extension-build-mismatch", Strength.NAMED_PART, means, (event,))
        elif library.family == OTHER:
            yield _foreign(event, library)


def _name(event: Event) -> str:
    row = event.captured
    return row.get("library") or row.get("library2") or ""


def _driver(log: Log, event: Event, library: Library) -> Claim:
    if library.name in ("libcuda.so", "libcuda.dylib"):
        means = "A library opens the driver's libcuda by its plain name libcuda.so, and the loader does not find it."
        return Claim(
            "libcuda-not-on-path", Strength.NAMED_PART, means, (event,), rivals=("driver-wsl",) if log.in_wsl else ()
        )
    seen = bool(log.values("libcuda_path")) or isinstance(log.facts.driver.libcuda_path, Known)
    if log.in_container and not seen and not log.in_wsl:  # the driver may run: its libraries come from the host
        means = f"The container was not given the driver's {library.name}."
        return Claim("driver-not-in-container", Strength.NOT_FOUND if log.driver else Strength.USUAL, means, (event,))
    if log.driver or log.in_wsl or seen:
        means = f"The driver works, and the loader does not find its {library.name}."
        return Claim(
            "libcuda-not-on-path", Strength.LIKELY, means, (event,), rivals=("driver-wsl",) if log.in_wsl else ()
        )
    means = f"The driver's {library.name} is not on this machine: no NVIDIA driver is installed, or there is no GPU."
    return Claim("driver-missing", Strength.OPEN, means, (event,), rivals=("gpu-absent", "driver-not-in-container"))


def _cudnn(log: Log, event: Event, library: Library, *, alone: bool) -> Claim:
    held = [parse_library(name) for name in log.values("opened")]
    majors = {major(item.version) for item in held if item.family == CUDNN}
    majors |= _cudnn_listed(log)
    for copy in get_value(log.facts.cudnn) or ():
        stated = get_value(copy.library_version) or get_value(copy.header_version) or get_value(copy.package_version)
        majors |= {major(stated)} if stated else set()
    wanted = major(library.version)
    if wanted and majors and wanted not in majors:
        means = f"This build loads cuDNN {wanted}; cuDNN {', '.join(sorted(majors))} is installed."
        return Claim("cudnn-wrong-major", Strength.DERIVED, means, (event,))
    if wanted in majors:
        means = f"cuDNN {wanted} is installed, and the loader does not find its {library.name}."
        return Claim("toolkit-path-conflict", Strength.USUAL, means, (event,), rivals=("cudnn-missing",))
    means = f"cuDNN {wanted or ''} is not found ({library.name}).".replace("  ", " ")
    if not alone:  # where the toolkit's own libraries are missing as well, cuDNN is the smaller part of it
        return Claim("cudnn-missing", Strength.FAILED_PART, means, (event,))
    return Claim("cudnn-missing", Strength.NOT_FOUND, means, (event,), rivals=("cudnn-wrong-major",))


def _cudnn_listed(log: Log) -> set[str]:
    """List the majors of the cuDNN that a list of packages, of the loader or of a folder shows."""
    wheels = (version for name, version in log.packages.items() if re.fullmatch(r"nvidia-cudnn-cu\d+", name))
    return {major(version) for version in (*wheels, *log.values("cudnn_listed", "cudnn_file"))}


def _cudnn_loader(log: Log) -> Iterator[Claim]:
    for event in log.of("cudnn-loader-error"):
        reason = event.captured["reason"]
        named = re.search(r"(lib[\w-]+\.so[\w.]*): (?:cannot open|undefined)", reason)
        library = parse_library(named.group(1)) if named else None
        if "undefined symbol" in reason:
            yield Claim("cudnn-shadowed", Strength.NAMED_CAUSE, "Parts of two cuDNN releases are mixed.", (event,))
        elif library and library.family == DRIVER:
            means = "cuDNN opens the driver's library by its plain name libcuda.so, which the loader does not find."
            yield Claim("libcuda-not-on-path", Strength.LIMIT_AND_VALUE, means, (event,))
        elif library and library.family == TOOLKIT:
            means = f"The cuDNN that is loaded was built for CUDA {library.version}: it asks for {library.name}."
            yield Claim("cudnn-wrong-cuda-build", Strength.NAMED_PLACE, means, (event,), rivals=("toolkit-missing",))
        else:
            yield Claim(
                "cudnn-missing",
                Strength.LIKELY,
                f"A part of cuDNN is not found: {event.captured['library']}.",
                (event,),
            )
    for event in log.of("cudnn-dll-error-code"):
        means = f"Windows cannot load cuDNN's {event.captured['library']} (error {event.captured['code']})."
        yield Claim(
            "cudnn-missing", Strength.USUAL, means, (event,), rivals=("toolkit-path-conflict", "cudnn-shadowed")
        )
    for event in log.of("cudnn-loader-cublas"):
        library = parse_library(event.captured["library"])
        if library.family == DRIVER:
            yield Claim(
                "libcuda-not-on-path", Strength.NAMED_PART, "cuDNN does not find the driver's libcuda.so.", (event,)
            )
        elif library.stem.startswith("cublas"):
            means = f"cuDNN asks for {library.name}: it was built for CUDA {library.version}, which is not there."
            yield Claim("cudnn-wrong-cuda-build", Strength.DERIVED, means, (event,), rivals=("toolkit-missing",))
        else:
            yield Claim("toolkit-missing", Strength.USUAL, f"cuDNN needs {library.name} of the CUDA Toolkit.", (event,))


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
    if wanted and of_torch and major(of_torch) not in set(map(major, wanted)):
        means = f"{asks}; torch itself is built for CUDA {of_torch}: a compiled extension was built for another one."
        yield Claim("extension-build-mismatch", Strength.DERIVED, means, events)
        return
    if log.has("torch-wheels-missing"):
        means = f"{asks}; PyTorch looks for it in the nvidia-* wheels, which are not installed."
        yield Claim("framework-cuda-extra-missing", Strength.NOT_FOUND, means, events, rivals=("cuda-wheel-not-found",))
        return
    if set(wanted) & set(log.cudas):
        means = f"{asks}; that version is installed, and the loader does not find it."
        yield Claim("toolkit-path-conflict", Strength.MISSING_HERE, means, events, rivals=("toolkit-missing",))
        return
    named = log.of("extension-named")
    if named and any(event.signature == "import-cannot-open" for event in events):
        means = f"{asks}; it is {named[0].captured['extension']} that asks, built for another CUDA than is here."
        yield Claim(
            "extension-build-mismatch", Strength.DERIVED, means, (*events, named[0]), rivals=("toolkit-missing",)
        )
        return
    if log.cudas and wanted:
        yield Claim(
            "toolkit-wrong-version", Strength.NAMED_PLACE, f"{asks}; installed is CUDA {', '.join(log.cudas)}.", events
        )
        return
    yield _judge_missing_libraries(log, events, [library for _, library in missing], asks)


def _judge_missing_libraries(log: Log, events: tuple[Event, ...], missing: list[Library], asks: str) -> Claim:
    """Judge by which libraries are missing: where the runtime was found, CUDA is there in another version."""
    provider = log.of("onnxruntime-cuda")
    if provider:  # its loader stops at the first library that it misses, so that no other is named says nothing
        means = f"{asks}; ONNX Runtime's CUDA provider needs it, and the loader finds none of that name."
        rivals = ("toolkit-wrong-version", "framework-cuda-extra-missing", "toolkit-path-conflict")
        return Claim("toolkit-missing", Strength.PROBABLE, means, (*events, provider[0]), rivals=rivals)
    opened = [parse_library(name) for name in log.values("opened")]
    runtime = any(item.stem == "cudart" for item in opened)
    stems = {item.stem for item in missing}
    if runtime and not stems & {"cudart"}:
        means = f"{asks}; CUDA's runtime was found, so an installed CUDA of another version lacks it."
        return Claim("toolkit-wrong-version", Strength.LIKELY, means, events, rivals=("toolkit-missing",))
    if "cudart" not in stems and not runtime and any(_in_toolkit(item) for item in missing) and stems != {"nccl"}:
        means = f"{asks}; no other CUDA library is complained about, so CUDA is there in another version."
        return Claim("toolkit-wrong-version", Strength.PROBABLE, means, events, rivals=("toolkit-missing",))
    if not any(_in_toolkit(item) for item in missing):
        means = f"{asks}; it comes with the CUDA wheels of the build, not with the CUDA Toolkit."
        others = ("cuda-wheel-not-found", "toolkit-missing")
        return Claim("framework-cuda-extra-missing", Strength.PROBABLE, means, events, rivals=others)
    means = f"{asks}, and the loader does not find it."
    strength = Strength.named(signatures_by_name()[events[0].signature].strength)
    return Claim("toolkit-missing", strength, means, events, rivals=("toolkit-wrong-version", "toolkit-path-conflict"))


def _in_toolkit(library: Library) -> bool:
    return not re.match(r"cusparseLt|nvshmem|cufile|nvjitlink", library.stem, re.IGNORECASE)


def _torch_cuda(log: Log) -> str:
    return log.first("torch_cuda") or log.labelled_cuda


def _foreign(event: Event, library: Library) -> Claim:
    if library.stem.startswith("stdc++"):
        return Claim("libstdcxx-mismatch", Strength.NOT_FOUND, f"{library.name} is not found.", (event,))
    if library.stem.startswith("zlib"):
        means = f"cuDNN needs {library.name}, which does not come with it."
        return Claim("toolkit-missing", Strength.USUAL, means, (event,), rivals=("cudnn-missing",))
    if library.stem.startswith("python"):
        means = f"A module was built for a Python that is not here ({library.name})."
        return Claim("extension-build-mismatch", Strength.DECIDED, means, (event,), rivals=("env-mixed",))
    return Claim(
        "dependency-conflict",
        Strength.FAILED_CALL,
        f"The system lacks {library.name}, which a package needs.",
        (event,),
    )


_NVCC_UNFIT = (
    "nvcc-failed", "nvcc-unsupported-arch", "nvcc-arch-option-new", "unknown-cuda-arch", "find-cuda-old",
)  # fmt: skip
_CUDNN = ("cudnn-runtime-older", "jax-cudnn-version", "torch-cudnn-version", "trt-cudnn-linked")


def version_claims(log: Log) -> Iterator[Claim]:
    """Compare the versions that messages name in pairs."""
    for event in log.of(*_CUDNN):
        if {"cudnn_loaded", "cudnn_built"} <= set(event.captured):
            yield _cudnn_versions(log, event)
    for event in log.of("torch-cuda-mismatch"):
        yield _nvcc(log, event)
    yield from _apex(log)
    yield from _nvjitlink(log)
    for event in log.of("jax-component-version", "jax-component-old"):
        if event.captured["component"].lower() == "cudnn":
            means = "The cuDNN that JAX finds is older than the one it was built against."
            yield Claim("cudnn-too-old", Strength.NAMED_PART, means, (event,), rivals=("cudnn-shadowed",))
            continue
        means = f"JAX finds an older {event.captured['component']} than it was built against."
        path = bool(log.library_path)
        yield Claim("toolkit-path-conflict" if path else "toolkit-wrong-version", Strength.USUAL, means, (event,))
    for event in log.of("jax-component-missing"):
        component = event.captured["component"]
        finding = "cudnn-missing" if component == "cuDNN" else "cuda-wheel-not-found"
        yield Claim(
            finding,
            Strength.LIKELY,
            f"JAX cannot load {component}.",
            (event,),
            rivals=("framework-cuda-extra-missing",),
        )
    yield from _two_toolkits(log)
    yield from _two_packages(log)
    yield from _wheels_elsewhere(log)


def _two_toolkits(log: Log) -> Iterator[Claim]:
    """Read a failed compilation beside two nvcc of different releases: the one that PATH gives is not the one meant."""
    shown = log.of("nvcc-release")
    releases = {event.captured["nvcc"] for event in shown}
    failed = log.of(*_NVCC_UNFIT)
    paths = log.of("nvcc-path")
    if len({event.captured["nvcc_path"] for event in paths}) > 1 and failed:
        means = f"nvcc is here as {' and '.join(event.captured['nvcc_path'] for event in paths)}; the build takes one."
        yield Claim(
            "toolkit-path-conflict", Strength.REFUSED_PART, means, (*paths, *failed), rivals=("toolkit-wrong-version",)
        )
    if len(releases) > 1 and failed:
        means = f"nvcc is here in releases {' and '.join(sorted(releases))}, and the build takes one of them."
        rivals = ("toolkit-wrong-version",)
        yield Claim("toolkit-path-conflict", Strength.DERIVED, means, (*shown, *failed), rivals=rivals)


def _two_packages(log: Log) -> Iterator[Claim]:
    """Read a list of packages in which two bring the module onnxruntime: the plain one hides the GPU's."""
    rows = log.of("pip-list-onnxruntime") if not log.is_healthy else ()
    names = {event.captured["package"].lower().replace("_", "-") for event in rows}
    if len(names) > 1:
        means = f"{' and '.join(sorted(names))} bring the same module: the files of one overwrote those of the other."
        yield Claim("framework-duplicate-dists", Strength.LIKELY, means, rows, rivals=("framework-cpu-build",))


def _wheels_elsewhere(log: Log) -> Iterator[Claim]:
    """Read a library of a CUDA wheel that torch seeks on its path beside facts that list that wheel."""
    for event in log.of("torch-preload-cuda"):
        stem = event.text.partition(".so")[0].rpartition("lib")[2]
        wheel = next((name for name in log.packages if name.startswith(f"nvidia-{stem}-cu")), "")
        if wheel:
            means = f"{wheel} is installed where this interpreter does not look: torch finds no lib{stem} on its path."
            yield Claim("cuda-wheel-not-found", Strength.DERIVED, means, (event,), rivals=("env-mixed",))


def cudnn_number(text: str) -> tuple[int, ...]:
    """Read a cuDNN version in any of its spellings: 8.6.0, (8, 3, 2), 8700 and 90100."""
    plain = text.strip(" ().")
    if not plain.isdecimal():
        return number(plain)
    value = int(plain)
    # cuDNN's own number is major * 1000 + minor * 100 + patch, and from 9 on major * 10000 + minor * 100 + patch.
    unit = 10_000 if value >= 90_000 else 1_000
    return (value // unit, value % unit // 100, value % 100)


def _cudnn_versions(log: Log, event: Event) -> Claim:
    loaded, built = cudnn_number(event.captured["cudnn_loaded"]), cudnn_number(event.captured["cudnn_built"])
    means = f"cuDNN {_text(loaded)} is loaded; the build was compiled with {_text(built)}."
    of_torch = event.signature == "torch-cudnn-version"
    if of_torch and loaded < built:
        means += " PyTorch brings its own cuDNN, so another copy stands before it."
        return Claim("cudnn-shadowed", Strength.NAMED_CAUSE, means, (event,), rivals=("cudnn-too-old",))
    if loaded[:1] != built[:1]:
        return Claim("cudnn-wrong-major", Strength.REFUSED_PART, means, (event,))
    if loaded > built:
        return Claim(
            "cudnn-too-new",
            Strength.NAMED_PART if of_torch else Strength.DECIDED,
            means,
            (event,),
            rivals=("cudnn-shadowed",),
        )
    owner = framework_of_message(event.signature)
    beside = next((item for item in identities() if item.pins_cudnn and log.release_of(item)), None)
    if owner and beside and beside is not owner and not owner.pins_cudnn:
        means += f" {beside.title} in the same environment brings an older cuDNN; the first one loaded wins."
        return Claim("cudnn-shadowed", Strength.REFUSED_PART, means, (event,), rivals=("cudnn-too-old",))
    return Claim("cudnn-too-old", Strength.NAMED_CAUSE, means, (event,), rivals=("cudnn-shadowed",))


def _nvcc(log: Log, event: Event) -> Claim:
    nvcc, torch = event.captured.get("nvcc", ""), event.captured.get("torch_cuda") or log.first("torch_cuda")
    means = f"The extension is compiled with CUDA {nvcc}, PyTorch was built with {torch or 'another'}."
    minor = event.captured.get("minor")
    installed = [line for line in log.cudas if line == torch]
    if installed and not minor:
        means += f" CUDA {torch} is installed as well and is not the one found."
        return Claim("toolkit-path-conflict", Strength.NAMED_CAUSE, means, (event,))
    return Claim(
        "toolkit-wrong-version",
        Strength.UNUSED_GPU if minor else Strength.NAMED_CAUSE,
        means,
        (event,),
        "warning" if minor else "error",
    )


def _apex(log: Log) -> Iterator[Claim]:
    """Read a build that refuses its toolkit beside the one that torch was built with, which is installed as well."""
    torch = log.first("torch_cuda")
    shown = log.of("apex-cuda-mismatch")
    releases = {major_minor(value) for value in log.values("nvcc")}
    if shown and torch in log.cudas and releases and torch not in releases:
        means = (
            f"nvcc is of CUDA {', '.join(sorted(releases))}; CUDA {torch}, which torch was built with, is installed."
        )
        yield Claim("toolkit-path-conflict", Strength.NAMED_CAUSE, means, shown, rivals=("toolkit-wrong-version",))


def _nvjitlink(log: Log) -> Iterator[Claim]:
    """Read a symbol that libnvJitLink lacks beside the wheel that brings it, where that is older than the symbol."""
    wheel = next((version for name, version in log.packages.items() if name.startswith("nvidia-nvjitlink-cu")), "")
    for event in log.of("nvjitlink-symbol"):
        needed = event.captured["nvjitlink"].replace("_", ".")
        if wheel and number(wheel)[:2] < number(needed):
            means = f"The wheel of nvJitLink is {wheel}; the other CUDA wheels need {needed}."
            yield Claim(
                "cuda-wheel-conflict", Strength.LIMIT_AND_VALUE, means, (event,), rivals=("toolkit-path-conflict",)
            )


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


NEW, OLD = "gpu-arch-too-new", "gpu-arch-too-old"
_NO_CODE = ("no-kernel-image", "device-kernel-image-invalid", "invalid-device-function", "invalid-ptx")
_FAILED = (
    "tf-blas-gemm",
    "cublas-execution-failed",
    "cudnn-execution-failed",
    "dnn-library-not-found",
    "cufft-internal",
)


def architecture_claims(log: Log) -> Iterator[Claim]:
    """Say whether the GPU is too new or too old for what runs on it."""
    built = _targets(log)
    for event in log.of("torch-arch-mismatch"):
        yield _torch(log, event, digits(event.captured["sm"]), built)
    for event in log.of("torch-found-gpu-cc"):
        low, high = log.first("cc_low"), log.first("cc_high")
        cc = event.captured["cc"]
        side = _side(cc, [low, high]) if low else (OLD if log.has("torch-gpu-too-old") or _is_dropped(log, cc) else NEW)
        yield Claim(
            side,
            Strength.NAMED_PART,
            f"{event.captured['gpu']} has compute capability {cc}, which is outside.",
            (event,),
        )
    for event in log.of(*_NO_CODE):
        yield _no_code(log, event, built)
    for event in log.of(*_FAILED):
        if built and any(_side(cc, built) == NEW and not _is_covered(cc, built) for cc in log.capabilities):
            means = f"The GPU ({', '.join(log.capabilities)}) is newer than the build ({built[-1]}) supports."
            yield Claim(NEW, Strength.MISSING_HERE, means, (event,))
    yield from _compilers(log)


def _torch(log: Log, event: Event, cc: str, built: list[str]) -> Claim:
    side = _side(cc, built) if built else (OLD if _is_dropped(log, cc) else NEW)
    shown = f"; this PyTorch holds code for {', '.join(built)}" if built else ""
    gpu = event.captured.get("gpu", "The GPU")
    return Claim(side, Strength.REFUSED_PART, f"{gpu} has compute capability {cc}{shown}.", (event,))


def _no_code(log: Log, event: Event, built: list[str]) -> Claim:
    means = "The program holds no code for this GPU"
    sides = {_side(cc, built) for cc in log.capabilities} if built else set()
    dropped = log.capabilities and all(_is_dropped(log, cc) for cc in log.capabilities)
    if len(sides) == 1 and not dropped and all(_is_covered(cc, built) for cc in log.capabilities):
        shown = f"{means}, which the framework's build covers: a compiled extension was built for other GPUs."
        return Claim("extension-build-mismatch", Strength.LIKELY, shown, (event,), rivals=(NEW,))
    if len(sides) == 1 and not (dropped and NEW in sides):
        shown = f"{means}: it has compute capability {', '.join(log.capabilities)}; built for {', '.join(built)}."
        return Claim(sides.pop(), Strength.NAMED_PART, shown, (event,))
    if dropped:
        return Claim(OLD, Strength.DERIVED, f"{means}, whose architecture was dropped.", (event,), rivals=(NEW,))
    strength = Strength.DECIDED if log.capabilities else Strength.PROBABLE
    return Claim(NEW, strength, f"{means}.", (event,), rivals=(OLD, "extension-build-mismatch"))


def _compilers(log: Log) -> Iterator[Claim]:
    for event in log.of("nvcc-unsupported-arch", "unknown-cuda-arch"):
        cc = digits(event.captured.get("sm") or event.captured["cc"])
        side = OLD if _is_dropped(log, cc) else NEW
        word = "no longer knows" if side == OLD else "does not know yet"
        yield Claim(side, Strength.NAMED_CAUSE, f"This CUDA Toolkit {word} compute capability {cc}.", (event,))
    for event in log.of("ptxas-gpu-name"):
        cc = digits(event.captured["sm"])
        if _is_dropped(log, cc):
            yield Claim(OLD, Strength.NAMED_PART, f"This ptxas no longer knows compute capability {cc}.", (event,))
        else:
            means = f"ptxas is older than the GPU: it does not know compute capability {cc}."
            yield Claim("ptxas-problem", Strength.NAMED_PART, means, (event,), rivals=(NEW,))


def _targets(log: Log) -> list[str]:
    """List the compute capabilities a build holds code for, by the log or by its row in the matrix, lowest first."""
    told = [digits(item) for item in log.first("targets").split() if item.startswith("sm_")]
    if told:
        return sorted(told, key=number)
    rows = [_row(log, item, name) for item in FRAMEWORKS for name in item.log_packages]
    found = next((row for row in rows if row), ()) or _of_cuda(log)
    return sorted({digits(item) for item in found}, key=number)


def _of_cuda(log: Log) -> tuple[str, ...]:
    """List what the CUDA that a build loaded can build for at all."""
    opened = [parse_library(name) for name in log.values("opened")]
    lines = [log.first("torch_cuda"), *(line for item in opened for line in providers(log.matrix, item)[:1])]
    rows = [row for row in map(log.matrix.toolkit, filter(None, lines)) if row]
    return rows[0].compute_capabilities if rows else ()


def _row(log: Log, known: Framework, name: str) -> tuple[str, ...]:
    version = log.packages.get(name, "").partition("+")[0]
    platform = "win_amd64" if log.os == "windows" else "linux_x86_64"
    row = log.matrix.release(known.name, version, platform) if version else None
    label = re.search(r"\+cu(\d+)(\d)$", log.packages.get(name, ""))
    cuda = f"{label.group(1)}.{label.group(2)}" if label else ""
    if row is None or not cuda or (row.cuda or "").startswith(cuda):
        return row.compute_capabilities if row else ()
    toolkit = log.matrix.toolkit(cuda)  # a build from the framework's own index holds other code than the row's
    return row.variants.get(cuda) or (toolkit.compute_capabilities if toolkit else ())


def _side(cc: str, built: list[str]) -> str:
    return OLD if number(cc) < number(built[0]) else NEW


def _is_covered(cc: str, built: list[str]) -> bool:
    """Tell whether code for a capability runs on a GPU: of the same major, and not of a higher minor."""
    return any(number(item)[:1] == number(cc)[:1] and number(item) <= number(cc) for item in built)


def _is_dropped(log: Log, cc: str) -> bool:
    """Tell whether newer toolkits no longer build for a compute capability."""
    row = log.matrix.architecture(cc)
    return row is not None and row.last_toolkit is not None
