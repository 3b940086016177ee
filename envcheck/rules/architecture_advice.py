"""Which release of a framework to take for a GPU, and what is known to go wrong with it."""

from __future__ import annotations

from packaging.version import Version

from envcheck.model.findings import Fix
from envcheck.model.releases import FrameworkRelease, KnownProblem
from envcheck.rules.architecture_targets import NATIVE, coverage, parse_target
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.fixes_python import install_steps
from envcheck.rules.gpu_facts import Judged, gpu_name
from envcheck.rules.gpu_releases import gpu_requirement


def supporting_release(context: Context, build: Build, item: Judged, newest: bool) -> Fix:
    """Name the release to install: the newest that still supports an old GPU, or the oldest that supports a new one."""
    found = _serving(context, build, item)
    if not found:
        return Fix(
            f"No {build.framework} release in the matrix has machine code for {gpu_name(item.gpu)}: build it from source for compute capability {item.capability}, or take another build."
        )
    row = found[0] if newest else found[-1]
    which = "the newest that still has" if newest else "the oldest that has"
    other = "" if newest or found[0].version == row.version else f"; {found[0].version} is the newest"
    steps = () if row.framework == "torch" else install_steps(context, gpu_requirement(context, row))
    return Fix(
        f"Install {row.distribution} {row.version}, {which} machine code for compute capability {item.capability}{other}.",
        steps,
    )


def _serving(context: Context, build: Build, item: Judged) -> list[FrameworkRelease]:
    """List the final CUDA releases with machine code for a GPU, newest first."""
    rows = context.matrix.releases(build.framework, context.platform)
    return [row for row in rows if row.cuda_build and not row.yanked and _is_native(context, row, item)]


def _is_native(context: Context, row: FrameworkRelease, item: Judged) -> bool:
    targets = [target for target in map(parse_target, row.compute_capabilities) if target]

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
