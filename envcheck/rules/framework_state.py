"""The frameworks to judge, each with its builds together: jax, jaxlib and their plugins are one framework."""

from __future__ import annotations

from envcheck.model import Absent, Fact, Known, LibraryLookup, Unknown, dataclass
from envcheck.rules.builds import Build, is_condas
from envcheck.rules.context import Context
from envcheck.rules.targets import judged_builds, wanted_releases


@dataclass(frozen=True)
class Framework:
    """One framework with all its judged builds."""

    name: str
    builds: tuple[Build, ...]
    extras: tuple[str, ...]  # asked for with --for

    @property
    def main(self) -> Build:
        """Return the build that names the framework's version: a stub or plugin only when there is no other."""
        named = [build for build in self.builds if build.distribution == self.name]
        return (named or list(self.builds))[0]

    @property
    def cuda_build(self) -> Fact[bool]:
        """Say whether any of its builds is a CUDA build."""
        facts = [build.cuda_build for build in self.builds]
        known = [fact for fact in facts if isinstance(fact, Known)]
        unknown = [fact for fact in facts if isinstance(fact, Unknown)]
        return next((fact for fact in known if fact.value), (unknown + known + facts)[0])


def judged_frameworks(context: Context) -> tuple[Framework, ...]:
    """List the judged frameworks in the order of their builds."""
    if "judged_frameworks" not in context.memo:
        grouped: dict[str, list[Build]] = {}
        for build in judged_builds(context):
            grouped.setdefault(build.framework, []).append(build)
        extras: dict[str, tuple[str, ...]] = {}
        for wanted in wanted_releases(context):
            extras[wanted.framework] = extras.get(wanted.framework, ()) + wanted.extras
        context.memo["judged_frameworks"] = tuple(
            Framework(name, tuple(builds), extras.get(name, ())) for name, builds in grouped.items()
        )
    return tuple(context.memo["judged_frameworks"])


def is_conda_build(context: Context, build: Build) -> bool:
    """Tell whether conda installed a build: the wheels' rows then say little about it."""
    return build.installed and is_condas(context, build.distribution)


def has_no_gpu(context: Context) -> bool:
    """Tell whether this machine surely has no NVIDIA GPU."""
    return isinstance(context.facts.gpus, Absent)


def unfound_libraries(build: Build) -> list[LibraryLookup]:
    """List the needed libraries that the loader does not find."""
    lookups = build.libraries.value if isinstance(build.libraries, Known) else ()
    return [item for item in lookups if item.mandatory and isinstance(item.found, Absent)]
