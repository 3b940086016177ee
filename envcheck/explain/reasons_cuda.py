"""Conclude from messages about libraries, versions and GPU architectures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envcheck.explain.facts import build_context
from envcheck.explain.libraries import (
    CUDNN,
    DRIVER,
    FFMPEG,
    FRAMEWORK,
    OTHER,
    PROFILER,
    TENSORRT,
    TOOLKIT,
    Library,
    list_common_toolkits,
    parse_library,
    providers,
)  # fmt: skip
from envcheck.explain.log import (
    FRAMEWORKS,
    Claim,
    Log,
    Strength,
    conclude,
    find_framework_of_message,
    find_framework_of_package,
    normalize_capability,
    parse_number,
)
from envcheck.explain.signatures import Event
from envcheck.frameworks import Framework, identities
from envcheck.matrix.companions import date_symbol
from envcheck.model import major, replace
from envcheck.model.versions import matches, public_version
from envcheck.remedies.system import system_packages
from envcheck.rules.builds import installed_builds

_LOADS = (
    "missing-dynamic-library", "missing-dlerror", "cannot-open-shared-object", "import-cannot-open",
    "dll-not-found", "tf-couldnt-open-cuda-library", "tf-could-not-find-dll",
    "could-not-locate-library", "cupy-cuda-path", "dylib-not-loaded", "cannot-open-other-language",
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
    yield from _judge_cudnn_loader(log)
    missing = _list_missing(log)
    of_toolkit = [pair for pair in missing if pair[1].family == TOOLKIT]
    if of_toolkit:
        yield _judge_toolkit(log, of_toolkit)
    for event, library in missing:
        own = _find_own_import(log) if library.family == FRAMEWORK else ""
        if own:
            yield _judge_own_part(event, library, own)
            continue
        name = _read_library(log, event, library, has_toolkit=bool(of_toolkit))
        if name:
            wanted = major(library.version)
            found = ", ".join(sorted(_list_cudnn_majors(log)))
            cudnn = f"cuDNN {wanted}".rstrip()
            yield conclude(name, event, library=library.name, cudnn=cudnn, found=found)


def _find_own_import(log: Log) -> str:
    """Name the framework whose own import ended, not that of an extension; "" for none."""
    owner = "".join(log.ending.raised.owners[-1:]) if log.ending.raised else ""
    return owner if find_framework_of_package(owner) else ""


def _judge_own_part(event: Event, library: Library, package: str) -> Claim:
    """Say that a framework lacks a library of its own."""
    named = replace(event, captures=(*event.captures, ("package", package)))
    message = f"{library.name}, a part of {package}, is not there: {package} is installed in part."
    return Claim("install-damaged", Strength.NAMED_PART, message, (named,))


def _read_library(log: Log, event: Event, library: Library, *, has_toolkit: bool) -> str:
    """Name what a missing library means; "" where it is a smaller part of what is missing."""
    if library.family == DRIVER:
        return _read_driver_library(log, library)
    if library.family == CUDNN and not has_toolkit:
        return _read_cudnn(log, library)
    is_optional = library.family in (TENSORRT, PROFILER) and event.signature not in _FATAL
    # A package tries one release of FFmpeg after the other: one that fails for another reason was
    # found.
    has_other = has_toolkit or log.has("c10-symbol", "extension-other-symbol")
    if (
        library.family in (CUDNN, TOOLKIT)
        or is_optional
        or (library.family == FFMPEG and has_other)
    ):
        return ""
    if library.family == OTHER and library.name.partition(".so")[0] in system_packages().packages:
        return "missing-of-system"
    return f"missing-{library.family}"


def _list_missing(log: Log) -> list[tuple[Event, Library]]:
    """List the messages that name a missing library, with the library."""
    named = [(event, event.values.get("library", "")) for event in log.select(*_LOADS)]
    return [(event, parse_library(name)) for event, name in named if name]


def _read_driver_library(log: Log, library: Library) -> str:
    if library.name in ("libcuda.so", "libcuda.dylib"):
        return "plain-libcuda"
    is_visible = bool(log.values("libcuda_path") or log.facts.driver.libcuda_path.value)
    # in a container the driver may run: its libraries come from the host
    if is_visible or log.in_wsl or (log.driver and not log.in_container):
        return "unreached-libcuda"
    return "missing-driver"


def _read_cudnn(log: Log, library: Library) -> str:
    wanted, majors = major(library.version), _list_cudnn_majors(log)
    if wanted in majors:
        return "unreached-cudnn"
    if wanted and majors:
        return "other-cudnn"
    if log.has("torch-imported") and not log.has(*EXTENSIONS):
        return "missing-wheel-of-cudnn"
    return "missing-cudnn"


def _list_cudnn_majors(log: Log) -> set[str]:
    """List the majors of the cuDNN that the facts, a package list, the loader or a folder shows."""
    opened = [parse_library(name) for name in log.values("opened")]
    versions = [item.version for item in opened if item.family == CUDNN]
    versions += [
        version
        for name, version in log.packages.items()
        if re.fullmatch(r"nvidia-cudnn-cu\d+", name)
    ]
    for copy in log.facts.cudnn.value or ():
        stated = (copy.library_version, copy.header_version, copy.package_version)
        versions += [fact.value for fact in stated if fact.value][:1]
    versions += log.values("cudnn_listed", "cudnn_file")
    return set(map(major, versions))


def _judge_cudnn_loader(log: Log) -> Iterator[Claim]:
    """Judge a library of the toolkit that cuDNN does not find: its name tells cuDNN's own CUDA."""
    for event in log.select("cudnn-loader-error", "cudnn-loader-cublas"):
        named = re.search(
            r"(lib[\w-]+\.so[\w.]*): (?:cannot open|undefined)", event.values.get("reason", "")
        )
        library = parse_library(named[1] if named else event.values["library"])
        if library.family != TOOLKIT or not library.version or "undefined symbol" in event.text:
            continue
        majors = set(map(major, providers(log.matrix, library))) or {major(library.version)}
        built, cuda = find_build_cuda(log), " or ".join(sorted(majors))
        if major(built) not in majors:
            shown = {"library": library.name, "cuda": cuda, "built": built}
            yield conclude("cudnn-of-other-cuda", event, **shown)


def find_build_cuda(log: Log, frameworks: tuple[Framework, ...] = FRAMEWORKS) -> str:
    """Return the framework's CUDA, as the log states it or by its release; "" unknown."""
    names = [item.name for item in frameworks]
    builds = (item for item in installed_builds(build_context(log)) if item.framework in names)
    return _torch_cuda(log) or next((item.cuda.value for item in builds if item.cuda.value), "")


def _judge_toolkit(log: Log, missing: list[tuple[Event, Library]]) -> Claim:
    """Judge missing libraries of the CUDA Toolkit by what else the log shows of CUDA."""
    events = [event for event, _ in missing]
    libraries = [library for _, library in missing]
    wanted = list_common_toolkits(log.matrix, libraries)
    extensions = log.select(*EXTENSIONS)
    built = find_build_cuda(log, _HOSTS if extensions else ())
    name = _read_toolkit(log, events, wanted, built) or _read_unfound(log, events, libraries)
    asks = f"This build asks for {', '.join(dict.fromkeys(item.name for item in libraries))}"
    if wanted:
        asks += f", which CUDA {' to '.join(dict.fromkeys((wanted[-1], wanted[0])))} holds"
    if name == "extension-asks":
        events.append(extensions[0])
    if name == "other-toolkit":  # ONNX Runtime loads the CUDA of torch's wheels, too
        events += log.select("onnxruntime-cuda")[:1]
    return conclude(name, *events, asks=asks, built=built, found=", ".join(log.cudas) or built)


def _read_toolkit(log: Log, events: list[Event], wanted: tuple[str, ...], built: str) -> str:
    """Name what the CUDA of torch, of the extension that asks, or of the machine tells."""
    majors = set(map(major, wanted))
    is_provider = log.has("onnxruntime-cuda")
    if majors and built and major(built) not in majors and not is_provider:
        return "extension-of-other-cuda"
    if log.has("torch-wheels-missing"):
        return "missing-cuda-wheels"
    if set(wanted) & set(log.cudas):
        # a container on a Jetson takes CUDA from the host
        return "toolkit-not-mounted" if log.values("jetson") else "unreached-toolkit"
    ends_import = any(event.signature == "import-cannot-open" for event in events)
    if log.has("bnb-load-error") or (ends_import and log.has(*EXTENSIONS)):
        return "extension-asks"
    others = set(map(major, log.cudas))
    if is_provider and built and not others:
        others = {major(built)}
    if others and majors and not (is_provider and others & majors):
        return "other-toolkit"
    return ""


def _read_unfound(log: Log, events: list[Event], libraries: list[Library]) -> str:
    """Name what the missing libraries alone tell: with the runtime, another CUDA is there."""
    stems = {item.stem for item in libraries}
    has_runtime = any(parse_library(name).stem == "cudart" for name in log.values("opened"))
    if "cudart" in stems or (stems == {"nccl"} and not has_runtime):
        return "missing-toolkit"
    if has_runtime:
        return "toolkit-lacks-library"
    if not any(map(_in_toolkit, libraries)):
        return "missing-part-of-wheels"
    if any(event.signature == "missing-dynamic-library" for event in events):
        return "all-but-these"  # such a program lists all that is missing: it has found the rest
    # Another one ends at the first. Of a library that one CUDA alone holds, another CUDA is there
    # more often than none.
    if any(len(providers(log.matrix, item)) == 1 for item in libraries):
        return "first-of-one-toolkit"
    return "first-of-toolkit"


def _in_toolkit(library: Library) -> bool:
    return not re.match(r"cusparseLt|nvshmem|cufile|nvjitlink", library.stem, re.IGNORECASE)


def _torch_cuda(log: Log) -> str:
    return log.first_value("torch_cuda") or log.labelled_cuda


_NVCC_UNFIT = (
    "nvcc-failed", "nvcc-unsupported-arch", "nvcc-arch-option-new", "unknown-cuda-arch",
    "find-cuda-old",
)  # fmt: skip
_CUDNN = ("cudnn-runtime-older", "jax-cudnn-version", "torch-cudnn-version", "trt-cudnn-linked")


def version_claims(log: Log) -> Iterator[Claim]:
    """Compare the versions that messages name in pairs."""
    for event in log.select(*_CUDNN):
        if {"cudnn_loaded", "cudnn_built"} <= set(event.values):
            yield _judge_cudnn_versions(log, event)
    yield from _judge_nvjitlink(log)
    yield from _judge_torch_symbols(log)
    yield from _judge_two_toolkits(log)
    yield from _judge_unreachable_wheels(log)


def _judge_two_toolkits(log: Log) -> Iterator[Claim]:
    """Read a failed compilation beside two nvcc: the one that PATH gives is not the one meant."""
    failures = log.select(*_NVCC_UNFIT)
    for signature, capture in (("nvcc-path", "nvcc_path"), ("nvcc-release", "nvcc")):
        copies = {event.values[capture]: event for event in log.select(signature)}
        if failures and len(copies) > 1:
            yield conclude(
                f"two-{signature}", *copies.values(), *failures, copies=" and ".join(copies)
            )


def _judge_unreachable_wheels(log: Log) -> Iterator[Claim]:
    """Read a CUDA wheel's library on torch's path beside facts that list that wheel."""
    for event in log.select("torch-preload-cuda"):
        stem = event.text.partition(".so")[0].rpartition("lib")[2]
        for wheel in log.packages:
            if wheel.startswith(f"nvidia-{stem}-cu"):
                yield conclude("unreached-wheel", event, wheel=wheel, stem=stem)


def parse_cudnn_version(text: str) -> tuple[int, ...]:
    """Read a cuDNN version in any of its spellings: 8.6.0, (8, 3, 2), 8700 and 90100."""
    digits = text.strip(" ().")
    if not digits.isdecimal():
        return parse_number(digits)
    value = int(digits)
    # cuDNN's own number is major * 1000 + minor * 100 + patch, and from 9 on major * 10000 + minor
    # * 100 + patch.
    unit = 1_000
    if value >= 90_000:
        unit = 10_000
    return (value // unit, value % unit // 100, value % 100)


def _judge_cudnn_versions(log: Log, event: Event) -> Claim:
    from envcheck.rules.cudnn import OTHER_MAJOR, version_fault

    loaded, required = (
        parse_cudnn_version(event.values[name]) for name in ("cudnn_loaded", "cudnn_built")
    )
    shown = {"loaded": ".".join(map(str, loaded)), "required": ".".join(map(str, required))}
    fault = version_fault(shown["loaded"], shown["required"])
    pinning = _find_pinning_framework(log, event)
    if event.signature == "torch-cudnn-version" and loaded < required:
        name = "shadowed-cudnn-of-torch"
    elif fault == OTHER_MAJOR:
        name = "other-cudnn-loaded"
    elif not fault:
        name = "newer-cudnn"
    elif pinning:
        name = "shadowed-cudnn"
    else:
        name = "older-cudnn"
    return conclude(name, event, pinning=pinning, **shown)


def _find_pinning_framework(log: Log, event: Event) -> str:
    """Name the other framework whose own cuDNN may be loaded first."""
    framework = find_framework_of_message(event.signature)
    if framework is None or framework.cuda.pins_cudnn:
        return ""
    others = (item.title for item in identities() if item.cuda.pins_cudnn and log.release_of(item))
    return next(others, "")


def _judge_torch_symbols(log: Log) -> Iterator[Claim]:
    """Read for which PyTorch an extension was built off the symbol that it does not find."""
    torch = next((public_version(log.release_of(item)) for item in _HOSTS), "")
    for event in log.select("c10-symbol", "flash-attn-torch-cuda"):
        named = re.search(r"undefined symbol: (\w+)", event.text)
        row = named and date_symbol(named[1])
        if not named or not row or (torch and row.unless and matches(torch, row.unless)):
            continue
        name = "extension-of-other-torch"
        if torch and row.exported_by and matches(torch, row.exported_by):
            name = "other-torch-imported"
        yield conclude(name, event, built_for=row.built_for, symbol=named[1], torch=torch)


def _judge_nvjitlink(log: Log) -> Iterator[Claim]:
    """Read a symbol that libnvJitLink lacks beside an older wheel of it."""
    for event in log.select("nvjitlink-symbol"):
        needed = event.values["nvjitlink"].replace("_", ".")
        for name, wheel in log.packages.items():
            is_older = parse_number(wheel)[:2] < parse_number(needed)
            if name.startswith("nvidia-nvjitlink-cu") and is_older:
                yield conclude("older-nvjitlink", event, wheel=wheel, needed=needed)


_NO_CODE = (
    "no-kernel-image", "device-kernel-image-invalid", "invalid-device-function", "invalid-ptx",
)  # fmt: skip
_NOT_BUILT_FOR = ("torch-arch-mismatch", "torch-found-gpu-cc")


def architecture_claims(log: Log) -> Iterator[Claim]:
    """Say whether a GPU is too new or too old for a CUDA; of a framework's build the rules say it.

    Sample: "no kernel image is available for execution on the device", and a GPU of 3.7.
    """
    for event in log.select("nvcc-unsupported-arch", "unknown-cuda-arch", "ptxas-gpu-name"):
        cc = normalize_capability(event.values.get("sm") or event.values["cc"])
        if log.matrix.is_dropped(cc):
            yield conclude("old-gpu-for-toolkit", event, cc=cc)
        elif event.signature != "ptxas-gpu-name":
            yield conclude("new-gpu-for-toolkit", event, cc=cc)
    if len(log.cudas) == 1 and not _torch_cuda(log):  # no build brings a CUDA
        yield from _judge_compiled_code(log, log.cudas[0])
    for event in log.select(*_NO_CODE, *_NOT_BUILT_FOR):
        named = event.values.get("sm") or event.values.get("cc")
        shown = (normalize_capability(named),) if named else log.capabilities
        if are_dropped(log, shown):
            yield conclude("dropped-gpu", event, gpus=", ".join(shown))


def _judge_compiled_code(log: Log, cuda: str) -> Iterator[Claim]:
    """Find GPU code that does not load: the driver cannot compile PTX of the CUDA that built it."""
    events = log.select(*_NO_CODE)
    if not events:
        return
    from envcheck.rules.driver import compiles_ptx, cuda_ceiling  # few logs need it: 1 ms

    context = build_context(log)
    if not compiles_ptx(context, cuda):
        offered = cuda_ceiling(context) or ""
        for event in events:
            yield conclude("code-beyond-driver", event, cuda=cuda, driver_cuda=offered)


def are_dropped(log: Log, capabilities: Sequence[str]) -> bool:
    """Return whether newer toolkits build for none of some compute capabilities."""
    return bool(capabilities) and all(map(log.matrix.is_dropped, capabilities))
