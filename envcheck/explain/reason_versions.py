"""Two that meet: cuDNN loaded and built with, nvcc and torch's CUDA, JAX and its floor, packages of one module."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.explain.events import Event
from envcheck.explain.log import Claim, Log, number

_NVCC_UNFIT = (
    "nvcc-failed", "nvcc-unsupported-arch", "nvcc-arch-option-new", "unknown-cuda-arch", "find-cuda-old",
)  # fmt: skip
_CUDNN = ("cudnn-runtime-older", "jax-cudnn-version", "torch-cudnn-version", "trt-cudnn-linked")


def version_claims(log: Log) -> Iterator[Claim]:
    """Compare the versions that messages name in pairs."""
    for event in log.of(*_CUDNN):
        if {"cudnn_loaded", "cudnn_built"} <= set(event.captured):
            yield _cudnn(log, event)
    for event in log.of("torch-cuda-mismatch"):
        yield _nvcc(log, event)
    yield from _apex(log)
    yield from _nvjitlink(log)
    for event in log.of("jax-component-version", "jax-component-old"):
        if event.captured["component"].lower() == "cudnn":
            means = "The cuDNN that JAX finds is older than the one it was built against."
            yield Claim("cudnn-too-old", 90, means, (event,), rivals=("cudnn-shadowed",))
            continue
        means = f"JAX finds an older {event.captured['component']} than it was built against."
        path = bool(log.library_path)
        yield Claim("toolkit-path-conflict" if path else "toolkit-wrong-version", 74, means, (event,))
    for event in log.of("jax-component-missing"):
        component = event.captured["component"]
        finding = "cudnn-missing" if component == "cuDNN" else "cuda-wheel-not-found"
        yield Claim(finding, 76, f"JAX cannot load {component}.", (event,), rivals=("framework-cuda-extra-missing",))
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
        yield Claim("toolkit-path-conflict", 93, means, (*paths, *failed), rivals=("toolkit-wrong-version",))
    if len(releases) > 1 and failed:
        means = f"nvcc is here in releases {' and '.join(sorted(releases))}, and the build takes one of them."
        rivals = ("toolkit-wrong-version",)
        yield Claim("toolkit-path-conflict", 84, means, (*shown, *failed), rivals=rivals)


def _two_packages(log: Log) -> Iterator[Claim]:
    """Read a list of packages in which two bring the module onnxruntime: the plain one hides the GPU's."""
    rows = log.of("pip-list-onnxruntime") if not log.is_healthy else ()
    names = {event.captured["package"].lower().replace("_", "-") for event in rows}
    if len(names) > 1:
        means = f"{' and '.join(sorted(names))} bring the same module: the files of one overwrote those of the other."
        yield Claim("framework-duplicate-dists", 78, means, rows, rivals=("framework-cpu-build",))


def _wheels_elsewhere(log: Log) -> Iterator[Claim]:
    """Read a library of a CUDA wheel that torch seeks on its path beside facts that list that wheel."""
    for event in log.of("torch-preload-cuda"):
        stem = event.text.partition(".so")[0].rpartition("lib")[2]
        wheel = next((name for name in log.packages if name.startswith(f"nvidia-{stem}-cu")), "")
        if wheel:
            means = f"{wheel} is installed where this interpreter does not look: torch finds no lib{stem} on its path."
            yield Claim("cuda-wheel-not-found", 84, means, (event,), rivals=("env-mixed",))


def cudnn_number(text: str) -> tuple[int, ...]:
    """Read a cuDNN version in any of its spellings: 8.6.0, (8, 3, 2), 8700 and 90100."""
    plain = text.strip(" ().")
    if not plain.isdecimal():
        return number(plain)
    value = int(plain)
    # cuDNN's own number is major * 1000 + minor * 100 + patch, and from 9 on major * 10000 + minor * 100 + patch.
    unit = 10_000 if value >= 90_000 else 1_000
    return (value // unit, value % unit // 100, value % 100)


def _cudnn(log: Log, event: Event) -> Claim:
    loaded, built = cudnn_number(event.captured["cudnn_loaded"]), cudnn_number(event.captured["cudnn_built"])
    means = f"cuDNN {_text(loaded)} is loaded; the build was compiled with {_text(built)}."
    of_torch = event.signature == "torch-cudnn-version"
    if of_torch and loaded < built:
        means += " PyTorch brings its own cuDNN, so another copy stands before it."
        return Claim("cudnn-shadowed", 92, means, (event,), rivals=("cudnn-too-old",))
    if loaded[:1] != built[:1]:
        return Claim("cudnn-wrong-major", 93, means, (event,))
    if loaded > built:
        return Claim("cudnn-too-new", 88 if of_torch else 70, means, (event,), rivals=("cudnn-shadowed",))
    if event.signature == "jax-cudnn-version" and "torch" in log.packages:
        means += " PyTorch in the same environment brings an older cuDNN; the first one loaded wins."
        return Claim("cudnn-shadowed", 93, means, (event,), rivals=("cudnn-too-old",))
    return Claim("cudnn-too-old", 92, means, (event,), rivals=("cudnn-shadowed",))


def _nvcc(log: Log, event: Event) -> Claim:
    nvcc, torch = event.captured.get("nvcc", ""), event.captured.get("torch_cuda") or log.first("torch_cuda")
    means = f"The extension is compiled with CUDA {nvcc}, PyTorch was built with {torch or 'another'}."
    minor = event.captured.get("minor")
    installed = [line for line in log.cudas if line == torch]
    if installed and not minor:
        means += f" CUDA {torch} is installed as well and is not the one found."
        return Claim("toolkit-path-conflict", 91, means, (event,))
    return Claim("toolkit-wrong-version", 40 if minor else 92, means, (event,), "warning" if minor else "error")


def _apex(log: Log) -> Iterator[Claim]:
    """Read a build that refuses its toolkit beside the one that torch was built with, which is installed as well."""
    torch = log.first("torch_cuda")
    shown = log.of("apex-cuda-mismatch")
    releases = {".".join(value.split(".")[:2]) for value in log.values("nvcc")}
    if shown and torch in log.cudas and releases and torch not in releases:
        means = (
            f"nvcc is of CUDA {', '.join(sorted(releases))}; CUDA {torch}, which torch was built with, is installed."
        )
        yield Claim("toolkit-path-conflict", 91, means, shown, rivals=("toolkit-wrong-version",))


def _nvjitlink(log: Log) -> Iterator[Claim]:
    """Read a symbol that libnvJitLink lacks beside the wheel that brings it, where that is older than the symbol."""
    wheel = next((version for name, version in log.packages.items() if name.startswith("nvidia-nvjitlink-cu")), "")
    for event in log.of("nvjitlink-symbol"):
        needed = event.captured["nvjitlink"].replace("_", ".")
        if wheel and number(wheel)[:2] < number(needed):
            means = f"The wheel of nvJitLink is {wheel}; the other CUDA wheels need {needed}."
            yield Claim("cuda-wheel-conflict", 94, means, (event,), rivals=("toolkit-path-conflict",))


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
