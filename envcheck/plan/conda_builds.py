"""conda's own builds of a framework: which of them a request admits, and how they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from envcheck.frameworks import framework
from envcheck.matrix.specifiers import within
from envcheck.model import dataclass, major_minor, replace
from envcheck.model.plans import PlannedRelease
from envcheck.plan.candidates import PACKAGES, WHEELS, constraints, python_minor
from envcheck.plan.choose import Choice, Judgement
from envcheck.plan.plan_data import CondaRecipe, conda_builds_data
from envcheck.rules.context import Context
from envcheck.rules.gpu_releases import driver_runs
from envcheck.rules.known_problems import name_of


@dataclass(frozen=True)
class CondaBuild:
    """A build of the channel, of the line of the release that was judged."""

    framework: str
    version: str  # the newest that was built of what the request admits
    requirement: str  # what any build that may come meets: tensorflow==2.16.*
    specs: tuple[str, ...]  # tensorflow=2.16.*=cuda*
    beside: tuple[str, ...]  # packages to keep within bounds: numpy<2


def conda_builds(context: Context, group: Sequence[Choice]) -> tuple[CondaBuild, ...]:
    """Return conda's builds of all chosen releases; () where one has none, or takes its CUDA from elsewhere."""
    found = [conda_build(context, choice.request.specifier, choice.best) for choice in group if choice.best]
    return tuple(item for item in found if item) if all(found) else ()


def conda_build(context: Context, specifier: str, judged: Judgement) -> CondaBuild | None:
    """Return conda's build for a judged release, where one of its line (jax: of it) is within the specifier."""
    row = judged.candidate.row
    by_minor = framework(row.framework).conda_releases == "minor"
    line = major_minor(row.version) if by_minor else row.version
    specs = conda_builds_data().specs.get(row.framework)
    built = [version for version in _built(context, judged, line) if within(version, specifier)]
    if not (built and specs) or judged.source.kind in (PACKAGES, WHEELS):
        return None
    newest = max(built, key=Version)
    # The recipes that were read are not all: a line is asked for whole where any release of it is welcome.
    is_open = all(within(f"{major_minor(newest)}.{patch}", specifier) for patch in (0, 9999))
    wanted = f"{major_minor(newest)}.*" if is_open and by_minor else newest
    texts = specs.gpu if judged.candidate.is_gpu else specs.cpu
    return CondaBuild(
        row.framework,
        newest,
        f"{row.framework}=={wanted}",
        tuple(text.format(version=wanted) for text in texts),
        _beside(context, judged),
    )


def described(context: Context, choice: Choice, planned: PlannedRelease) -> PlannedRelease:
    """Describe a planned release as conda brings it: under the framework's own name, any release of a line."""
    build = conda_build(context, choice.request.specifier, choice.best) if choice.best else None
    if build is None:
        return planned
    found: PlannedRelease = replace(
        planned,
        distribution=build.framework,
        version=build.version,
        requirement=build.requirement,
        index="",
        constraints=build.beside,
    )
    return found


def _built(context: Context, judged: Judgement, line: str) -> list[str]:
    """List the versions of a line that were built for this Python, platform, goal and driver."""
    rows = conda_builds_data().rows
    fitting = [entry for entry in rows if entry.framework == judged.candidate.row.framework]
    return [
        version
        for entry in fitting
        if _fits(context, entry, is_gpu=judged.candidate.is_gpu)
        for version in entry.versions
        if f"{version}.".startswith(f"{line}.")
    ]


def _fits(context: Context, entry: CondaRecipe, *, is_gpu: bool) -> bool:
    here = context.platform in entry.platforms and python_minor(context) in entry.pythons
    runs = any(driver_runs(context, f"{major}.0") for major in entry.cuda)
    return here and (runs if is_gpu else not entry.cuda)


def _beside(context: Context, judged: Judgement) -> tuple[str, ...]:
    """List the constraints whose package bears the same name on the channel, and is not fixed by the build itself."""
    named = conda_builds_data().beside
    return tuple(text for text in constraints(context, judged.candidate, judged.source) if name_of(text) in named)
