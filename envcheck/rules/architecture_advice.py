"""Which release of a framework to take for a GPU, and what is known to go wrong with it."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from envcheck.model import Command, Fix
from envcheck.model.releases import FrameworkRelease, KnownProblem
from envcheck.rules.architecture_targets import NATIVE, build_targets, coverage
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.fixes_python import install_steps
from envcheck.rules.gpu_facts import Judged, gpu_name
from envcheck.rules.gpu_releases import driver_runs, gpu_requirement
from envcheck.rules.targets import supports_python


def older_release(context: Context, build: Build, item: Judged) -> Fix:
    """Name the newest release that still has machine code for an old GPU."""
    found = _serving(context, build, item)
    if not found:
        return _none(build, item)
    row = found[0]
    extra = (
        " PyTorch's own package index has builds of newer releases for older CUDA versions."
        if build.framework == "torch"
        else ""
    )
    what = (
        f"Install {row.distribution} {row.version}, the newest with machine code for compute capability "
        f"{item.capability}."
    )
    return Fix(what + extra, _steps(context, row))


def newer_release(context: Context, build: Build, item: Judged) -> Fix:
    """Name the oldest release after this one that has machine code for a new GPU, and the newest."""
    found = [row for row in _serving(context, build, item) if _is_after(row, build)]
    if not found:
        return _none(build, item)
    row, newest = found[-1], found[0]
    also = "" if newest.version == row.version else f" ({newest.version} is the newest)"
    what = (
        f"Install {row.distribution} {row.version} or newer{also}: the first after yours with machine code for "
        f"compute capability {item.capability}."
    )
    return Fix(what, _steps(context, row))


def _none(build: Build, item: Judged) -> Fix:
    return Fix(
        f"No {build.framework} wheel in the matrix for this Python has machine code for {gpu_name(item.gpu)}: "
        f"build it from source for compute capability {item.capability}, or use a build for another Python, or "
        "NVIDIA's container images."
    )


def _steps(context: Context, row: FrameworkRelease) -> tuple[Command, ...]:
    # Which CUDA variant of torch a package index serves is not in the row: named, not typed.
    return () if row.framework == "torch" else install_steps(context, gpu_requirement(context, row))


def _is_after(row: FrameworkRelease, build: Build) -> bool:
    try:
        return Version(row.version) > Version(build.version)
    except InvalidVersion:
        return True


def _serving(context: Context, build: Build, item: Judged) -> list[FrameworkRelease]:
    """List the CUDA releases for this Python with machine code for a GPU, newest first; withdrawn names left out."""
    rows = context.matrix.releases(build.framework, context.platform)
    usable = (row for row in rows if row.cuda_build and not row.yanked and supports_python(context, row))
    living = (row for row in usable if context.matrix.removed_distribution(row.distribution) is None)
    native = [row for row in living if _is_native(context, row, item)]
    return [row for row in native if driver_runs(context, row.cuda)] or native


def _is_native(context: Context, row: FrameworkRelease, item: Judged) -> bool:
    targets = build_targets(row.framework, row.compute_capabilities)

    def is_tegra(capability: str) -> bool:
        architecture = context.matrix.architecture(capability)
        return architecture is not None and architecture.tegra

    return coverage(targets, item.capability, is_tegra) == NATIVE


def known_trouble(context: Context, build: Build, item: Judged) -> tuple[KnownProblem, ...]:
    """List what is known to go wrong with a build on a GPU of this compute capability."""
    from packaging.specifiers import SpecifierSet

    rows = context.matrix.problems(build.distribution, build.version, stage="advice")
    return tuple(
        row
        for row in rows
        if row.finding == "gpu-arch-too-new"
        and row.compute_capabilities
        and SpecifierSet(row.compute_capabilities).contains(Version(item.capability))
    )
