"""The builds to judge: installed, asked for, and the packages on top of them."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.frameworks import Framework as FrameworkTraits
from envcheck.frameworks import framework as known_framework
from envcheck.matrix.query import Matrix
from envcheck.model import (
    Fact,
    FrameworkRelease,
    Known,
    Unknown,
    dataclass,
    replace,
)
from envcheck.rules.builds import Build, build_of, installed_builds, plugin_of
from envcheck.rules.context import Context, once
from envcheck.rules.wanted_releases import WantedRelease, wanted_releases


def target_builds(context: Context) -> tuple[Build, ...]:
    """List the builds that the requirements of --for mean on this machine."""
    builds: list[Build] = []
    for wanted in wanted_releases(context):
        if wanted.build is not None:
            builds += [wanted.build, *_list_plugins(context, wanted)]
    return tuple(builds)


def _list_plugins(context: Context, wanted: WantedRelease) -> tuple[Build, ...]:
    """List the distributions that an extra brings: jax[cuda12] -> jax-cuda12-plugin."""
    row = None
    if wanted.build and not wanted.build.installed:
        row = wanted.build.release
    if row is None or row.gpu_extra is None or row.cuda_build:
        return ()
    requested_extra = next((extra for extra in wanted.extras if extra in row.extras), None)
    extra = requested_extra or (row.gpu_extra if context.goal == "gpu" else None)
    plugin = plugin_of(context, row, extra) if extra else None
    return (build_of(plugin),) if plugin is not None else ()


@once
def judged_builds(context: Context) -> tuple[Build, ...]:
    """List every build to judge: the installed ones, then those of --for that are not installed.

    What --for asks of a framework replaces its installed build.
    """
    targets = tuple(build for build in target_builds(context) if not build.installed)
    requested = {
        wanted.framework
        for wanted in wanted_releases(context)
        if not (wanted.build and wanted.build.installed)
    }
    installed = tuple(
        build for build in installed_builds(context) if build.framework not in requested
    )
    return installed + targets


@once
def package_builds(context: Context) -> tuple[Build, ...]:
    """List the CUDA packages on top of a framework that the matrix holds.

    They are installed or asked for.
    """
    builds = []
    for item in context.distributions.values():
        section = None
        if item.installer != "conda":
            section = context.matrix.companion_of(item.name)
        row = None
        if section:
            row = context.matrix.release(section, item.version, context.platform, item.name)
        if row is not None and _has_cuda(row):
            builds.append(replace(build_of(row), installed=True))
    wanted = (item.package for item in wanted_releases(context))
    return (*builds, *(build_of(row) for row in wanted if row is not None and _has_cuda(row)))


def is_for_gpu_alone(matrix: Matrix, name: str) -> bool:
    """Return whether a package on top computes on no CPU.

    Its wheels hold CUDA code, and none is for a system without CUDA.
    """
    rows = matrix.companion_releases(name)
    return any(row.cuda_build for row in rows) and not any(
        row.platform.startswith("macosx") for row in rows
    )


def _has_cuda(row: FrameworkRelease) -> bool:
    return row.cuda_build or bool(row.compute_capabilities)


@dataclass
class JudgedFramework:
    """One framework with all its judged builds."""

    name: str
    builds: tuple[Build, ...]
    extras: tuple[str, ...]  # asked for with --for

    @property
    def traits(self) -> FrameworkTraits:
        """Return what is known of the framework."""
        return known_framework(self.name)

    @property
    def main(self) -> Build:
        """Return the build that names the framework's version.

        A stub or plugin only when there is no other.
        """
        matches = [build for build in self.builds if build.distribution == self.name]
        return (matches or list(self.builds))[0]

    @property
    def cuda_build(self) -> Fact[bool]:
        """Say whether any of its builds is a CUDA build."""
        facts = [build.cuda_build for build in self.builds]
        known_facts = [fact for fact in facts if isinstance(fact, Known)]
        unknown = [fact for fact in facts if isinstance(fact, Unknown)]
        for fact in known_facts:
            if fact.value:
                return fact
        return (unknown + known_facts + facts)[0]


@once
def judged_frameworks(context: Context) -> tuple[JudgedFramework, ...]:
    """List the judged frameworks in the order of their builds."""
    groups: dict[str, list[Build]] = {}
    for build in judged_builds(context):
        groups.setdefault(build.framework, []).append(build)
    extras: dict[str, tuple[str, ...]] = {}
    for wanted in wanted_releases(context):
        extras[wanted.framework] = extras.get(wanted.framework, ()) + wanted.extras
    return tuple(
        JudgedFramework(name, tuple(builds), extras.get(name, ()))
        for name, builds in groups.items()
    )


def cuda_builds(context: Context) -> Iterator[Build]:
    """Yield the judged builds that are meant to use CUDA."""
    for build in judged_builds(context):
        if build.cuda_build.value is True:
            yield build
