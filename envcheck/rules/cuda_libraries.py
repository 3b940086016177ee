"""Which CUDA libraries a build loads, where they come from, and which toolkits are there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import (
    ERROR,
    UNDETERMINED,
    Citation,
    Evidence,
    Finding,
    Known,
    LibraryLookup,
    ToolkitInstall,
    Unknown,
    get_value,
    numbers,
)
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, source_of
from envcheck.rules.targets import judged_builds

# The parts of a CUDA Toolkit that every CUDA build loads, and those that only some do.
_CUDA = ("cudart", "cublas", "cublasLt", "cufft", "curand", "cusolver", "cusolverMg", "cusparse")
_SOMETIMES = ("cupti", "nvrtc", "nvJitLink", "nvToolsExt")
_SITE = r"/(?:site|dist)-packages/"


def cuda_builds(context: Context) -> Iterator[Build]:
    """Yield the judged builds that are meant to use CUDA."""
    for build in judged_builds(context):
        if get_value(build.cuda_build) is True:
            yield build


def brings_cuda(build: Build) -> bool:
    """Tell whether a build's CUDA libraries come with it or as wheels, so that it needs no toolkit."""
    # Every PyTorch release has them inside or as dependencies; JAX's plugins name theirs in the other half's extra.
    if build.framework == "torch" or build.distribution.startswith("jax-cuda"):
        return True
    release = build.release
    return release is not None and bool(release.gpu_extra or release.cuda_wheels or release.finds_cuda_wheels)


def library_name(soname: str) -> str:
    """Cut a soname to its library: libcublasLt.so.12 -> cublasLt."""
    match = re.match(r"lib(\w+)\.so", soname)
    return match.group(1) if match else ""


def in_environment(path: str) -> bool:
    """Tell whether a file came with a Python package."""
    return re.search(_SITE, path) is not None


def is_own(context: Context, path: str) -> bool:
    """Tell whether a file lies in the inspected environment: in a package, or below a conda prefix."""
    prefix = get_value(context.facts.python.prefix)
    conda = get_value(context.facts.python.kind) == "conda"
    return in_environment(path) or (conda and prefix is not None and path.startswith(prefix.rstrip("/") + "/"))


def toolkit_lookups(build: Build) -> tuple[LibraryLookup, ...] | None:
    """List what a build loads of a CUDA Toolkit; None when that was not read."""
    if isinstance(build.libraries, Unknown):
        return None
    lookups = build.libraries.value if isinstance(build.libraries, Known) else ()
    return tuple(item for item in lookups if _of_toolkit(item))


def cudnn_lookup(build: Build) -> LibraryLookup | None:
    """Find the lookup of cuDNN itself among what a build loads."""
    lookups = build.libraries.value if isinstance(build.libraries, Known) else ()
    return next((item for item in lookups if library_name(item.soname) == "cudnn"), None)


def _of_toolkit(item: LibraryLookup) -> bool:
    name = library_name(item.soname)
    if item.needed_by.rsplit("/", 1)[-1].startswith("libcudnn"):
        return False  # what cuDNN needs tells of cuDNN
    return item.mandatory and (name in _CUDA or name in _SOMETIMES)


def unfound(context: Context, build: Build, lookups: tuple[LibraryLookup, ...]) -> tuple[LibraryLookup, ...]:
    """List the libraries the loader does not find; one that could not be looked up ends the rule."""
    places = ((item, f"{build.label}: where the loader finds {item.soname}") for item in lookups)
    return tuple(item for item, name in places if context.need(item.found, name) is None)


def relies_on_system(build: Build) -> bool:
    """Tell whether a build takes its CUDA from the system: it has no wheels of its own, or uses none of them."""
    if not brings_cuda(build):
        return True
    lookups = build.libraries.value if isinstance(build.libraries, Known) else ()
    return any(
        isinstance(item.found, Known) and not in_environment(item.found.value)
        for item in lookups
        if _of_toolkit(item) or library_name(item.soname) == "cudnn"
    ) and not any(in_environment(path) for item in lookups for path in item.elsewhere)


def system_toolkits(context: Context) -> tuple[ToolkitInstall, ...] | None:
    """List the toolkits that are not wheels; None when none of any kind was found. Unknown ends the rule."""
    found = context.need(context.facts.toolkits.installs, "toolkits.installs")
    if found is None:
        return None
    return tuple(item for item in found if item.origin != "wheels")


def toolkit_holding(context: Context, path: str) -> ToolkitInstall | None:
    """Find the toolkit a file lies in."""
    installs = get_value(context.facts.toolkits.installs) or ()
    holding = [item for item in installs if path.startswith(item.root.rstrip("/") + "/")]
    return max(holding, key=lambda item: len(item.root), default=None)


def loaded_sonames(context: Context, cuda: str) -> dict[str, str]:
    """Map the libraries every CUDA build loads to their sonames in one toolkit; empty when it is not in the matrix."""
    return {name: soname for name, soname in context.matrix.cuda_sonames(cuda).items() if name in _CUDA}


def unknown_release(what: str, decides: str, seen: Evidence, severity: str = ERROR) -> Finding:
    """Say that the matrix has no row for `what`, and what therefore stays open."""
    message = f"{what} is not in the compatibility matrix, so {decides} could not be told."
    return Finding("release-unknown", UNDETERMINED, severity, message, (seen,))


def built_for_cuda(build: Build) -> tuple[Evidence, ...]:
    """Show which CUDA a build was made for; its matrix row is cited only where it describes this very build."""
    cuda = get_value(build.cuda)
    row = build.release.cuda if build.release else None
    if not cuda:
        return ()
    same = row is not None and numbers(row)[:2] == numbers(cuda)[:2]
    cited = build.citations[0] if same and build.citations else None
    return (Evidence(build.label, f"built for CUDA {cuda}", source_of(build.cuda), cited),)


def row_evidence(fact: str, shown: str, citations: tuple[Citation, ...]) -> Evidence:
    """Make evidence of a matrix row."""
    return Evidence(fact, shown, citation=citations[0] if citations else None)
