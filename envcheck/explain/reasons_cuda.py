"""Conclude from messages about libraries, versions and GPU architectures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.log import (
    FRAMEWORKS,
    Claim,
    Log,
    Strength,
    find_framework_of_message,
    normalize_capability,
    parse_number,
)
from envcheck.explain.signatures import Event, signatures_by_name
from envcheck.frameworks import Framework, identities
from envcheck.matrix.companions import date_symbol
from envcheck.matrix.query import Matrix
from envcheck.model import dataclass, major, major_minor
from envcheck.model.specifiers import matches

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


@dataclass
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
        return Library(
            base, match["stem"], _parse_dll_version(match["stem"], match["version"] or ""), family
        )
    match = re.match(r"lib(?P<stem>[a-zA-Z_]+)\.(?P<version>[\d.]+)\.dylib", base)
    if match:
        return Library(base, match["stem"], match["version"], family)
    return Library(base, base, "", family)


def _parse_dll_version(stem: str, version: str) -> str:
    """Part a DLL's number as NVIDIA writes it.

    cudart64_110 is 11.0, cublas64_11 is 11, cudnn64_7 is 7.
    """
    if (
        stem.startswith("cudnn")
        or len(version) < 2
        or (len(version) == 2 and version.startswith("1"))
    ):
        return version
    return f"{version[:-1]}.{version[-1]}"


def providers(matrix: Matrix, library: Library) -> tuple[str, ...]:
    """List the toolkit lines that hold a library of this name, newest first."""
    return matrix.toolkits_with(library.stem, f"lib{library.stem}.so.{library.version}")


_LOADS = (
    "missing-dynamic-library", "missing-dlerror", "cannot-open-shared-object", "import-cannot-open",
    "dll-not-found", "tf-couldnt-open-cuda-library", "tf-could-not-find-dll",
    "could-not-locate-library", "cupy-cuda-path", "dylib-not-loaded", "cannot-open-other-language",
    "library-cannot-be-loaded",
)  # fmt: skip
_HOSTS = tuple(item for item in FRAMEWORKS if item.cuda.hosts_extensions)
# who asks: the files of a package, or its own words
EXTENSIONS = ("extension-named", "bnb-load-error")
_FATAL = (
    "import-cannot-open",
    "tf-could-not-find-dll",
    "could-not-locate-library",
    "cannot-open-other-language",
)


def library_claims(log: Log) -> Iterator[Claim]:
    """Say what each library that could not be loaded means."""
    missing = _list_missing(log)
    yield from _judge_cudnn_loader(log)
    yield from _judge_toolkit(log, _list_missing(log, TOOLKIT))
    has_toolkit = any(library.family == TOOLKIT for _, library in missing)
    for event, library in missing:
        if library.family == DRIVER:
            yield _judge_driver_library(log, event, library)
        elif library.family == NVML:
            yield Claim(
                "driver-missing",
                Strength.PROBABLE,
                f"{library.name} is part of the driver and is not found.",
                (event,),
            )
        elif (
            library.family == CUDNN and not has_toolkit
        ):  # else it is the smaller part of what is missing
            yield _judge_cudnn(log, event, library)
        elif library.family == TENSORRT and event.signature in _FATAL:
            yield Claim(
                "tensorrt-missing",
                Strength.NAMED_PLACE,
                f"The program needs TensorRT's {library.name}.",
                (event,),
            )
        elif library.family == PROFILER and event.signature in _FATAL:
            yield Claim(
                "toolkit-missing",
                Strength.DECIDED,
                f"{library.name} of the CUDA Toolkit is not found.",
                (event,),
            )
        elif library.family == FRAMEWORK:
            message = (
                f"{library.name} is part of a framework release that is not the one installed."
            )
            yield Claim("extension-build-mismatch", Strength.NAMED_PART, message, (event,))
        elif library.family == OTHER:
            yield from _judge_other_library(log, event, library)


def _list_missing(log: Log, family: str = "") -> list[tuple[Event, Library]]:
    """List the messages that name a missing library, with the library; of one family or all."""
    found = ((event, parse_library(find_library_name(event))) for event in log.select(*_LOADS))
    return [pair for pair in found if pair[1].name and family in ("", pair[1].family)]


def find_library_name(event: Event) -> str:
    """Return the library that a message says is missing; "" where it names none."""
    row = event.values
    return row.get("library") or row.get("library2") or ""


def _judge_driver_library(log: Log, event: Event, library: Library) -> Claim:
    if library.name in ("libcuda.so", "libcuda.dylib"):
        message = (
            "A library opens the driver's libcuda by its plain name libcuda.so, and the loader does"
            " not find it."
        )
        return Claim(
            "libcuda-not-on-path",
            Strength.NAMED_PART,
            message,
            (event,),
            rivals=("driver-wsl",) if log.in_wsl else (),
        )
    is_visible = bool(log.values("libcuda_path")) or log.facts.driver.libcuda_path.value
    # the driver may run: its libraries come from the host
    in_container = log.in_container and not is_visible
    if log.in_wsl or is_visible or (log.driver and not in_container):
        message = f"The driver works, but the loader does not find its {library.name}."
        return Claim(
            "libcuda-not-on-path",
            Strength.LIKELY,
            message,
            (event,),
            rivals=("driver-wsl",) if log.in_wsl else (),
        )
    message = (
        f"The driver's {library.name} is not on this machine: no NVIDIA driver is installed, or"
        " there is no GPU."
    )
    return Claim(
        "driver-missing",
        Strength.OPEN,
        message,
        (event,),
        rivals=("gpu-absent", "driver-not-in-container"),
    )


def _judge_cudnn(log: Log, event: Event, library: Library) -> Claim:
    opened = [parse_library(name) for name in log.values("opened")]
    majors = {major(item.version) for item in opened if item.family == CUDNN}
    majors |= _list_cudnn_majors(log)
    for copy in log.facts.cudnn.value or ():
        version = (
            copy.library_version.value or copy.header_version.value or copy.package_version.value
        )
        majors |= {major(version)} if version else set()
    wanted = major(library.version)
    if wanted and majors and wanted not in majors:
        message = (
            f"This build loads cuDNN {wanted}; cuDNN {', '.join(sorted(majors))} is installed."
        )
        return Claim("cudnn-wrong-major", Strength.DERIVED, message, (event,))
    if wanted in majors:
        message = f"cuDNN {wanted} is installed, but the loader does not find its {library.name}."
        return Claim(
            "toolkit-path-conflict", Strength.USUAL, message, (event,), rivals=("cudnn-missing",)
        )
    message = f"cuDNN {wanted or ''} is not found ({library.name}).".replace("  ", " ")
    if log.has("torch-imported") and not log.select(*EXTENSIONS):
        message += " PyTorch takes it from the nvidia-* wheels, which are not installed."
        rivals = ("cudnn-missing", "cuda-wheel-not-found")
        return Claim(
            "framework-cuda-extra-missing", Strength.NOT_FOUND, message, (event,), rivals=rivals
        )
    return Claim(
        "cudnn-missing", Strength.NOT_FOUND, message, (event,), rivals=("cudnn-wrong-major",)
    )


def _list_cudnn_majors(log: Log) -> set[str]:
    """List the majors of the cuDNN that a list of packages, of the loader or of a folder shows."""
    wheels = (
        version
        for name, version in log.packages.items()
        if re.fullmatch(r"nvidia-cudnn-cu\d+", name)
    )
    return {major(version) for version in (*wheels, *log.values("cudnn_listed", "cudnn_file"))}


def _judge_cudnn_loader(log: Log) -> Iterator[Claim]:
    for event in log.select("cudnn-dll-error-code"):
        message = (
            f"Windows cannot load cuDNN's {event.values['library']} (error {event.values['code']})."
        )
        rivals = ("toolkit-path-conflict", "cudnn-shadowed")
        yield Claim("cudnn-missing", Strength.USUAL, message, (event,), rivals=rivals)
    for event in log.select("cudnn-loader-error", "cudnn-loader-cublas"):
        match = re.search(
            r"(lib[\w-]+\.so[\w.]*): (?:cannot open|undefined)", event.values.get("reason", "")
        )
        library = parse_library(match.group(1) if match else event.values["library"])
        if library.family == TOOLKIT and library.version and "undefined symbol" not in event.text:
            yield _judge_library_of_cudnn(log, event, library)


def _judge_library_of_cudnn(log: Log, event: Event, library: Library) -> Claim:
    """Judge a library of the toolkit that cuDNN does not find.

    By its name, cuDNN was built for another CUDA.
    """
    majors = sorted(
        {major(line) for line in providers(log.matrix, library)} or {major(library.version)}
    )
    cuda, built = " or ".join(majors), find_build_cuda(log)
    message = f"cuDNN asks for {library.name} of CUDA {cuda}, and the loader does not find it"
    if major(built) in majors:
        message += "; the framework was built for that CUDA as well."
        return Claim(
            "toolkit-missing",
            Strength.NAMED_PLACE,
            message,
            (event,),
            rivals=("toolkit-path-conflict",),
        )
    message += (
        f": the framework was built for CUDA {built}."
        if built
        else ": this cuDNN was built for another CUDA."
    )
    return Claim(
        "cudnn-wrong-cuda-build",
        Strength.NAMED_PLACE,
        message,
        (event,),
        rivals=("toolkit-missing",),
    )


def find_build_cuda(log: Log, frameworks: tuple[Framework, ...] = FRAMEWORKS) -> str:
    """Return the framework's CUDA, as the log states it or by its release; "" unknown."""
    releases = ((item.name, log.release_of(item).partition("+")[0]) for item in frameworks)
    rows = (
        log.matrix.release(name, release, "linux_x86_64") for name, release in releases if release
    )
    return _torch_cuda(log) or next((row.cuda for row in rows if row and row.cuda), "")


def _judge_toolkit(log: Log, missing: list[tuple[Event, Library]]) -> Iterator[Claim]:
    if not missing:
        return
    events = tuple(event for event, _ in missing)
    names = ", ".join(dict.fromkeys(library.name for _, library in missing))
    lines = [providers(log.matrix, library) for _, library in missing]
    if lines:
        wanted = [line for line in lines[0] if all(line in other for other in lines if other)]
    else:
        wanted = []
    shown = f"{wanted[-1]} to {wanted[0]}" if len(wanted) > 1 else "".join(wanted)
    asks = f"This build asks for {names}" + (f", which CUDA {shown} holds" if shown else "")
    named = log.select(*EXTENSIONS)
    of_torch = find_build_cuda(log, _HOSTS if named else ())
    if (
        wanted
        and of_torch
        and major(of_torch) not in set(map(major, wanted))
        and not log.has("onnxruntime-cuda")
    ):
        message = (
            f"{asks}; torch itself is built for CUDA {of_torch}: a compiled extension was built for"
            " another one."
        )
        yield Claim("extension-build-mismatch", Strength.DERIVED, message, events)
        return
    if log.has("torch-wheels-missing"):
        message = f"{asks}; PyTorch looks for it in the nvidia-* wheels, which are not installed."
        yield Claim(
            "framework-cuda-extra-missing",
            Strength.NOT_FOUND,
            message,
            events,
            rivals=("cuda-wheel-not-found",),
        )
        return
    if set(wanted) & set(log.cudas):
        yield _judge_installed_toolkit(log, events, asks)
        return
    if named and (
        log.has("bnb-load-error")
        or any(event.signature == "import-cannot-open" for event in events)
    ):
        message = (
            f"{asks}; it is {named[0].values['extension']} that asks, built for another CUDA than"
            " is here."
        )
        yield Claim(
            "extension-build-mismatch",
            Strength.DERIVED,
            message,
            (*events, named[0]),
            rivals=("toolkit-missing",),
        )
        return
    provider = log.select("onnxruntime-cuda")[:1]  # it loads the CUDA of torch's wheels, too
    others = log.cudas or ((of_torch,) if provider and of_torch else ())
    if others and wanted and not (provider and set(map(major, others)) & set(map(major, wanted))):
        message = f"{asks}; installed is CUDA {', '.join(others)}."
        yield Claim("toolkit-wrong-version", Strength.NAMED_PLACE, message, (*events, *provider))
        return
    yield _judge_missing_libraries(log, events, [library for _, library in missing], asks)


def _judge_installed_toolkit(log: Log, events: tuple[Event, ...], asks: str) -> Claim:
    """Judge libraries of a CUDA whose folder is there.

    Not found, or on a Jetson not mounted from the host.
    """
    if log.values("jetson"):
        message = (
            f"{asks}; a container on a Jetson takes CUDA from the host, which has another L4T than"
            " the image."
        )
        return Claim(
            "toolkit-missing",
            Strength.MISSING_HERE,
            message,
            events,
            rivals=("toolkit-path-conflict",),
        )
    message = f"{asks}; that version is installed, and the loader does not find it."
    return Claim(
        "toolkit-path-conflict", Strength.MISSING_HERE, message, events, rivals=("toolkit-missing",)
    )


def _judge_missing_libraries(
    log: Log, events: tuple[Event, ...], missing: list[Library], asks: str
) -> Claim:
    """Judge by which libraries are missing.

    Where the runtime was found, CUDA is there in another version.
    """
    opened = [parse_library(name) for name in log.values("opened")]
    runtime = any(item.stem == "cudart" for item in opened)
    stems = {item.stem for item in missing}
    if runtime and not stems & {"cudart"}:
        message = (
            f"{asks}; CUDA's runtime was found, so an installed CUDA of another version lacks it."
        )
        return Claim(
            "toolkit-wrong-version", Strength.LIKELY, message, events, rivals=("toolkit-missing",)
        )
    if (
        "cudart" not in stems
        and not runtime
        and any(_in_toolkit(item) for item in missing)
        and stems != {"nccl"}
    ):
        return _judge_first_missing(log, events, missing, asks)
    if not any(_in_toolkit(item) for item in missing):
        message = f"{asks}; it comes with the CUDA wheels of the build, not with the CUDA Toolkit."
        others = ("cuda-wheel-not-found", "toolkit-missing")
        return Claim(
            "framework-cuda-extra-missing", Strength.PROBABLE, message, events, rivals=others
        )
    message = f"{asks}, and the loader does not find it."
    strength = Strength.named(signatures_by_name()[events[0].signature].strength)
    return Claim(
        "toolkit-missing",
        strength,
        message,
        events,
        rivals=("toolkit-wrong-version", "toolkit-path-conflict"),
    )


def _judge_first_missing(
    log: Log, events: tuple[Event, ...], missing: list[Library], asks: str
) -> Claim:
    """Judge libraries without the runtime.

    A program that lists all that is missing has found the rest.

    Another one ends at the first. Of a library that one CUDA alone holds, another CUDA is there
    more often than none.
    """
    if any(event.signature == "missing-dynamic-library" for event in events):
        message = (
            f"{asks}; no other CUDA library is complained about, so CUDA is there in another"
            " version."
        )
        return Claim(
            "toolkit-wrong-version", Strength.PROBABLE, message, events, rivals=("toolkit-missing",)
        )
    message = (
        f"{asks}; the loader stops at the first that it does not find, so CUDA is missing or of"
        " another version."
    )
    of_one_cuda = any(len(providers(log.matrix, item)) == 1 for item in missing)
    finding, rival = (
        ("toolkit-wrong-version", "toolkit-missing")
        if of_one_cuda
        else ("toolkit-missing", "toolkit-wrong-version")
    )
    return Claim(finding, Strength.PROBABLE, message, events, rivals=(rival,))


def _in_toolkit(library: Library) -> bool:
    return not re.match(r"cusparseLt|nvshmem|cufile|nvjitlink", library.stem, re.IGNORECASE)


def _torch_cuda(log: Log) -> str:
    return log.first_value("torch_cuda") or log.labelled_cuda


def _judge_other_library(log: Log, event: Event, library: Library) -> Iterator[Claim]:
    if library.stem.startswith("stdc++"):
        yield Claim(
            "libstdcxx-mismatch", Strength.NOT_FOUND, f"{library.name} is not found.", (event,)
        )
    elif library.stem.startswith("zlib"):
        message = f"cuDNN needs {library.name}, which does not come with it."
        yield Claim("toolkit-missing", Strength.USUAL, message, (event,), rivals=("cudnn-missing",))
    elif library.stem.startswith("python"):
        message = f"A module was built for a Python that is not installed ({library.name})."
        yield Claim(
            "extension-build-mismatch", Strength.DECIDED, message, (event,), rivals=("env-mixed",)
        )
    elif re.match(r"(?:av|sw)(?:util|codec|device|filter|format|resample|scale)$", library.stem):
        # A package tries one release of FFmpeg after the other: one that fails for another reason
        # was found.
        if not log.has("c10-symbol", "extension-other-symbol") and not _list_missing(log, TOOLKIT):
            yield Claim(
                "library-missing",
                Strength.NOT_FOUND,
                f"FFmpeg's {library.name} is not found.",
                (event,),
            )
    else:
        message = f"The system lacks {library.name}, which a package needs."
        yield Claim("dependency-conflict", Strength.FAILED_CALL, message, (event,))


_NVCC_UNFIT = (
    "nvcc-failed", "nvcc-unsupported-arch", "nvcc-arch-option-new", "unknown-cuda-arch",
    "find-cuda-old",
)  # fmt: skip
_NEED_NVJITLINK = ("cusolver", "cusparse")
_CUDNN = ("cudnn-runtime-older", "jax-cudnn-version", "torch-cudnn-version", "trt-cudnn-linked")


def version_claims(log: Log) -> Iterator[Claim]:
    """Compare the versions that messages name in pairs."""
    for event in log.select(*_CUDNN):
        if {"cudnn_loaded", "cudnn_built"} <= set(event.values):
            yield _judge_cudnn_versions(log, event)
    for event in log.select("torch-cuda-mismatch"):
        yield _judge_nvcc(log, event)
    yield from _judge_apex(log)
    yield from _judge_nvjitlink(log)
    yield from _judge_torch_symbols(log)
    for event in log.select("jax-component-version", "jax-component-old"):
        if event.values["component"].lower() == "cudnn":
            message = "The cuDNN that JAX finds is older than the one it was built against."
            yield Claim(
                "cudnn-too-old", Strength.NAMED_PART, message, (event,), rivals=("cudnn-shadowed",)
            )
            continue
        message = f"JAX finds an older {event.values['component']} than it was built against."
        path = bool(log.library_path)
        yield Claim(
            "toolkit-path-conflict" if path else "toolkit-wrong-version",
            Strength.USUAL,
            message,
            (event,),
        )
    for event in log.select("jax-component-missing"):
        component = event.values["component"]
        if component.lower() in _NEED_NVJITLINK and "Is it installed" not in event.text:
            message = (
                f"JAX cannot load {component}, which needs nvJitLink: the wheels of the two are of"
                " different releases."
            )
            rivals = ("cuda-wheel-not-found", "framework-cuda-extra-missing")
            yield Claim("cuda-wheel-conflict", Strength.LIKELY, message, (event,), rivals=rivals)
            continue
        finding = "cuda-wheel-not-found"
        if component.lower() == "cudnn":
            finding = "cudnn-missing"
        yield Claim(
            finding,
            Strength.LIKELY,
            f"JAX cannot load {component}.",
            (event,),
            rivals=("framework-cuda-extra-missing",),
        )
    yield from _judge_two_toolkits(log)
    yield from _judge_unreachable_wheels(log)


def _judge_two_toolkits(log: Log) -> Iterator[Claim]:
    """Read a failed compilation beside two nvcc of different releases.

    The one that PATH gives is not the one meant.
    """
    release_events = log.select("nvcc-release")
    releases = {event.values["nvcc"] for event in release_events}
    failures = log.select(*_NVCC_UNFIT)
    paths = log.select("nvcc-path")
    if len({event.values["nvcc_path"] for event in paths}) > 1 and failures:
        message = (
            f"nvcc is installed as {' and '.join(event.values['nvcc_path'] for event in paths)};"
            " the build uses one."
        )
        yield Claim(
            "toolkit-path-conflict",
            Strength.REFUSED_PART,
            message,
            (*paths, *failures),
            rivals=("toolkit-wrong-version",),
        )
    if len(releases) > 1 and failures:
        message = (
            f"nvcc is installed in releases {' and '.join(sorted(releases))}; the build uses one of"
            " them."
        )
        rivals = ("toolkit-wrong-version",)
        yield Claim(
            "toolkit-path-conflict",
            Strength.DERIVED,
            message,
            (*release_events, *failures),
            rivals=rivals,
        )


def _judge_unreachable_wheels(log: Log) -> Iterator[Claim]:
    """Read a CUDA wheel's library on torch's path beside facts that list that wheel."""
    for event in log.select("torch-preload-cuda"):
        stem = event.text.partition(".so")[0].rpartition("lib")[2]
        wheel = next((name for name in log.packages if name.startswith(f"nvidia-{stem}-cu")), "")
        if wheel:
            message = (
                f"{wheel} is installed where this interpreter does not search: torch finds no"
                f" lib{stem} on its path."
            )
            yield Claim(
                "cuda-wheel-not-found", Strength.DERIVED, message, (event,), rivals=("env-mixed",)
            )


def parse_cudnn_version(text: str) -> tuple[int, ...]:
    """Read a cuDNN version in any of its spellings: 8.6.0, (8, 3, 2), 8700 and 90100."""
    digits = text.strip(" ().")
    if not digits.isdecimal():
        return parse_number(digits)
    value = int(digits)
    # cuDNN's own number is major * 1000 + minor * 100 + patch, and from 9 on major * 10000 + minor
    # * 100 + patch.
    unit = 10_000 if value >= 90_000 else 1_000
    return (value // unit, value % unit // 100, value % 100)


def _judge_cudnn_versions(log: Log, event: Event) -> Claim:
    loaded = parse_cudnn_version(event.values["cudnn_loaded"])
    required = parse_cudnn_version(event.values["cudnn_built"])
    message = (
        f"cuDNN {_format_version(loaded)} is loaded; the build was compiled with"
        f" {_format_version(required)}."
    )
    is_torch = event.signature == "torch-cudnn-version"
    if is_torch and loaded < required:
        message += " PyTorch includes its own cuDNN, so another copy comes first."
        return Claim(
            "cudnn-shadowed", Strength.NAMED_CAUSE, message, (event,), rivals=("cudnn-too-old",)
        )
    if loaded[:1] != required[:1]:
        return Claim("cudnn-wrong-major", Strength.REFUSED_PART, message, (event,))
    if loaded > required:
        return Claim(
            "cudnn-too-new",
            Strength.NAMED_PART if is_torch else Strength.DECIDED,
            message,
            (event,),
            rivals=("cudnn-shadowed",),
        )
    framework = find_framework_of_message(event.signature)
    pinning_framework = next(
        (item for item in identities() if item.cuda.pins_cudnn and log.release_of(item)), None
    )
    if (
        framework
        and pinning_framework
        and pinning_framework is not framework
        and not framework.cuda.pins_cudnn
    ):
        message += (
            f" {pinning_framework.title} in the same environment includes an older cuDNN; the first"
            " one loaded wins."
        )
        return Claim(
            "cudnn-shadowed", Strength.REFUSED_PART, message, (event,), rivals=("cudnn-too-old",)
        )
    return Claim(
        "cudnn-too-old", Strength.NAMED_CAUSE, message, (event,), rivals=("cudnn-shadowed",)
    )


def _judge_nvcc(log: Log, event: Event) -> Claim:
    nvcc = event.values.get("nvcc", "")
    torch = event.values.get("torch_cuda") or log.first_value("torch_cuda")
    found = f"CUDA {nvcc}" if nvcc else "the CUDA that nvcc belongs to"
    message = (
        f"The extension is compiled with {found}; PyTorch was built with {torch or 'another'}."
    )
    minor = event.values.get("minor")
    installed = [line for line in log.cudas if line == torch]
    if installed and not minor:
        message += f" CUDA {torch} is also installed, but is not the one found."
        return Claim("toolkit-path-conflict", Strength.NAMED_CAUSE, message, (event,))
    return Claim(
        "toolkit-wrong-version",
        Strength.UNUSED_GPU if minor else Strength.NAMED_CAUSE,
        message,
        (event,),
        "warning" if minor else "error",
    )


def _judge_torch_symbols(log: Log) -> Iterator[Claim]:
    """Read for which PyTorch an extension was built off the symbol that it does not find."""
    torch = next((log.release_of(item).partition("+")[0] for item in _HOSTS), "")
    for event in log.select("c10-symbol", "flash-attn-torch-cuda"):
        named = re.search(r"undefined symbol: (\w+)", event.text)
        row = date_symbol(named[1]) if named else None
        if row is None or named is None or (torch and row.unless and matches(torch, row.unless)):
            continue
        message = (
            f"A compiled extension was built for {row.built_for}: the torch here lacks {named[1]}."
        )
        if torch and row.exported_by and matches(torch, row.exported_by):
            message += f" torch {torch} has it: another copy of torch is imported."
            yield Claim(
                "env-mixed",
                Strength.LIMIT_AND_VALUE,
                message,
                (event,),
                rivals=("extension-build-mismatch",),
            )
        else:
            yield Claim("extension-build-mismatch", Strength.NAMED_CAUSE, message, (event,))


def _judge_apex(log: Log) -> Iterator[Claim]:
    """Read a build that refuses its toolkit beside torch's own, which is installed too."""
    torch_cuda = log.first_value("torch_cuda")
    mismatches = log.select("apex-cuda-mismatch")
    releases = {major_minor(value) for value in log.values("nvcc")}
    if mismatches and torch_cuda in log.cudas and releases and torch_cuda not in releases:
        nvcc = ", ".join(sorted(releases))
        message = (
            f"nvcc is from CUDA {nvcc}; torch was built with CUDA {torch_cuda}, which is also"
            " installed."
        )
        yield Claim(
            "toolkit-path-conflict",
            Strength.NAMED_CAUSE,
            message,
            mismatches,
            rivals=("toolkit-wrong-version",),
        )


def _judge_nvjitlink(log: Log) -> Iterator[Claim]:
    """Read a symbol that libnvJitLink lacks beside an older wheel of it."""
    wheel = next(
        (
            version
            for name, version in log.packages.items()
            if name.startswith("nvidia-nvjitlink-cu")
        ),
        "",
    )
    for event in log.select("nvjitlink-symbol"):
        needed = event.values["nvjitlink"].replace("_", ".")
        if wheel and parse_number(wheel)[:2] < parse_number(needed):
            message = f"The wheel of nvJitLink is {wheel}; the other CUDA wheels need {needed}."
            yield Claim(
                "cuda-wheel-conflict",
                Strength.LIMIT_AND_VALUE,
                message,
                (event,),
                rivals=("toolkit-path-conflict",),
            )


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


NEW, OLD = "gpu-arch-too-new", "gpu-arch-too-old"
_NO_CODE = (
    "no-kernel-image",
    "device-kernel-image-invalid",
    "invalid-device-function",
    "invalid-ptx",
)
_FAILED = (
    "tf-blas-gemm",
    "cublas-execution-failed",
    "cudnn-execution-failed",
    "dnn-library-not-found",
    "cufft-internal",
)


def architecture_claims(log: Log) -> Iterator[Claim]:
    """Say whether the GPU is too new or too old for what runs on it."""
    targets = _list_build_targets(log)
    for event in log.select("torch-arch-mismatch"):
        yield _judge_torch_mismatch(log, event, normalize_capability(event.values["sm"]), targets)
    for event in log.select("torch-found-gpu-cc"):
        low, high = log.first_value("cc_low"), log.first_value("cc_high")
        cc = event.values["cc"]
        if low:
            finding = _compare_with_build(cc, [low, high])
        elif log.has("torch-gpu-too-old") or _is_dropped(log, cc):
            finding = OLD
        else:
            finding = NEW
        yield Claim(
            finding,
            Strength.NAMED_PART,
            f"{event.values['gpu']} has compute capability {cc}, which this build does not"
            " support.",
            (event,),
        )
    for event in log.select(*_NO_CODE):
        yield _judge_missing_code(log, event, targets)
    for event in log.select(*_FAILED):
        if targets and any(
            _compare_with_build(cc, targets) == NEW and not _is_covered(cc, targets)
            for cc in log.capabilities
        ):
            message = (
                f"The GPU ({', '.join(log.capabilities)}) is newer than the build ({targets[-1]})"
                " supports."
            )
            yield Claim(NEW, Strength.MISSING_HERE, message, (event,))
    yield from _judge_compilers(log)


def _judge_torch_mismatch(log: Log, event: Event, cc: str, targets: list[str]) -> Claim:
    if targets:
        finding = _compare_with_build(cc, targets)
    elif _is_dropped(log, cc):
        finding = OLD
    else:
        finding = NEW
    target_list = ""
    if targets:
        target_list = f"; this PyTorch contains code for {', '.join(targets)}"
    gpu = event.values.get("gpu", "The GPU")
    return Claim(
        finding, Strength.REFUSED_PART, f"{gpu} has compute capability {cc}{target_list}.", (event,)
    )


def _judge_missing_code(log: Log, event: Event, targets: list[str]) -> Claim:
    reason = "The program contains no code for this GPU"
    if targets:
        finding_ids = {_compare_with_build(cc, targets) for cc in log.capabilities}
    else:
        finding_ids = set()
    is_dropped = log.capabilities and all(_is_dropped(log, cc) for cc in log.capabilities)
    if re.search(
        r"(?:function|image)\b.*?(?:\b\w+_(?:cuda|gpu|forward|backward)\b|\bin \S+\.cu\b)",
        event.text,
    ):
        message = (
            f"{reason}: a compiled extension was built for other GPUs, or by another CUDA than"
            " torch's."
        )
        return Claim("extension-build-mismatch", Strength.LIKELY, message, (event,), rivals=(NEW,))
    newer = _find_toolkit_beyond_driver(log)
    if newer:
        message = (
            f"{reason} that the driver loads: it was compiled by CUDA {newer[0]}, the driver offers"
            f" CUDA {newer[1]}."
        )
        return Claim(
            "driver-too-old", Strength.DERIVED, message, (event,), rivals=("ptxas-problem", NEW)
        )
    if (
        len(finding_ids) == 1
        and not is_dropped
        and all(_is_covered(cc, targets) for cc in log.capabilities)
    ):
        message = (
            f"{reason}, which the framework's build supports: a compiled extension was built for"
            " other GPUs."
        )
        return Claim("extension-build-mismatch", Strength.LIKELY, message, (event,), rivals=(NEW,))
    if len(finding_ids) == 1 and not (is_dropped and NEW in finding_ids):
        message = (
            f"{reason}: it has compute capability {', '.join(log.capabilities)}; built for"
            f" {', '.join(targets)}."
        )
        return Claim(finding_ids.pop(), Strength.NAMED_PART, message, (event,))
    if is_dropped:
        return Claim(
            OLD,
            Strength.DERIVED,
            f"{reason}, whose architecture was dropped.",
            (event,),
            rivals=(NEW,),
        )
    strength = Strength.DECIDED if log.capabilities else Strength.PROBABLE
    return Claim(NEW, strength, f"{reason}.", (event,), rivals=(OLD, "extension-build-mismatch"))


def _find_toolkit_beyond_driver(log: Log) -> tuple[str, str] | None:
    """Return the only toolkit's CUDA and the driver's newer one, where no build brings any."""
    driver_cuda = log.facts.driver.cuda_driver_version.value or log.first_value("driver_cuda")
    if not driver_cuda or len(log.cudas) != 1 or _torch_cuda(log):
        return None
    if parse_number(log.cudas[0]) > parse_number(driver_cuda)[:2]:
        return (log.cudas[0], driver_cuda)
    return None


def _judge_compilers(log: Log) -> Iterator[Claim]:
    for event in log.select("nvcc-unsupported-arch", "unknown-cuda-arch"):
        cc = normalize_capability(event.values.get("sm") or event.values["cc"])
        finding = OLD if _is_dropped(log, cc) else NEW
        verb = "no longer supports" if finding == OLD else "does not support yet"
        yield Claim(
            finding,
            Strength.NAMED_CAUSE,
            f"This CUDA Toolkit {verb} compute capability {cc}.",
            (event,),
        )
    for event in log.select("ptxas-gpu-name"):
        cc = normalize_capability(event.values["sm"])
        if _is_dropped(log, cc):
            yield Claim(
                OLD,
                Strength.NAMED_PART,
                f"This ptxas no longer supports compute capability {cc}.",
                (event,),
            )
        else:
            message = f"ptxas is older than the GPU: it does not support compute capability {cc}."
            yield Claim("ptxas-problem", Strength.NAMED_PART, message, (event,), rivals=(NEW,))


def _list_build_targets(log: Log) -> list[str]:
    """List a build's compute capabilities, by the log or the matrix, lowest first."""
    listed = [
        normalize_capability(item)
        for item in log.first_value("targets").split()
        if item.startswith("sm_")
    ]
    if listed:
        return sorted(listed, key=parse_number)
    rows = [
        _find_compute_capabilities(log, item, name)
        for item in FRAMEWORKS
        for name in item.logs.packages
    ]
    capabilities = next((row for row in rows if row), ()) or _list_toolkit_targets(log)
    return sorted({normalize_capability(item) for item in capabilities}, key=parse_number)


def _list_toolkit_targets(log: Log) -> tuple[str, ...]:
    """List what the CUDA that a build loaded can build for at all."""
    libraries = [parse_library(name) for name in log.values("opened")]
    versions = [
        log.first_value("torch_cuda"),
        *(line for item in libraries for line in providers(log.matrix, item)[:1]),
        *(log.cudas if len(log.cudas) == 1 and not _torch_cuda(log) else ()),
    ]
    rows = [row for row in map(log.matrix.toolkit, filter(None, versions)) if row]
    return rows[0].compute_capabilities if rows else ()


def _find_compute_capabilities(log: Log, framework: Framework, name: str) -> tuple[str, ...]:
    version = log.packages.get(name, "").partition("+")[0]
    platform = "win_amd64" if log.os == "windows" else "linux_x86_64"
    row = log.matrix.release(framework.name, version, platform) if version else None
    label = re.search(r"\+cu(\d+)(\d)$", log.packages.get(name, ""))
    cuda = f"{label.group(1)}.{label.group(2)}" if label else ""
    if row is None or not cuda or (row.cuda or "").startswith(cuda):
        return row.compute_capabilities if row else ()
    # a build from the framework's own index holds other code than the row's
    toolkit = log.matrix.toolkit(cuda)
    return row.variants.get(cuda) or (toolkit.compute_capabilities if toolkit else ())


def _compare_with_build(cc: str, targets: list[str]) -> str:
    return OLD if parse_number(cc) < parse_number(targets[0]) else NEW


def _is_covered(cc: str, targets: list[str]) -> bool:
    """Return whether code for a capability runs on a GPU.

    Of the same major, and not of a higher minor.
    """
    return any(
        parse_number(item)[:1] == parse_number(cc)[:1] and parse_number(item) <= parse_number(cc)
        for item in targets
    )


def _is_dropped(log: Log, cc: str) -> bool:
    """Return whether newer toolkits no longer build for a compute capability."""
    row = log.matrix.architecture(cc)
    return row is not None and row.last_toolkit is not None
