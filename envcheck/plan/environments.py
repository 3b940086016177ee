"""The environments of a plan: which requirements go in together, from which index, by which installer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import Version

from envcheck.frameworks import framework
from envcheck.matrix.specifiers import within
from envcheck.model import (
    CONDA,
    PIP,
    Environment,
    FrameworkRelease,
    Known,
    PlannedRelease,
    RequirementSet,
    dataclass,
    major_minor,
    replace,
)
from envcheck.plan.candidates import OWN, PACKAGES, WHEELS, constraints, is_resolved, python_minor, source_only
from envcheck.plan.choose import CandidateJudgement, Choice
from envcheck.plan.data import CondaRecipe, conda_builds_data, plan_data
from envcheck.plan.requests import PlanOptions
from envcheck.plan.steps import with_remedies
from envcheck.rules.builds import is_free_threaded
from envcheck.rules.context import Context, Target
from envcheck.rules.gpu_releases import driver_runs, name_of
from envcheck.rules.requirements import easiest_for_pip, wheel_glibc


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


def conda_build(context: Context, specifier: str, judged: CandidateJudgement) -> CondaBuild | None:
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


def describe_conda_release(context: Context, choice: Choice, planned: PlannedRelease) -> PlannedRelease:
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


def _built(context: Context, judged: CandidateJudgement, line: str) -> list[str]:
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


def _beside(context: Context, judged: CandidateJudgement) -> tuple[str, ...]:
    """List the constraints whose package bears the same name on the channel, and is not fixed by the build itself."""
    named = conda_builds_data().beside
    return tuple(text for text in constraints(context, judged.candidate, judged.source) if name_of(text) in named)


_VENV_SITE = "lib/python{python}/site-packages"


def planned_release(context: Context, choice: Choice, made: Environment) -> PlannedRelease:
    """Describe the release chosen for a request, as its environment will hold it."""
    judged = choice.best
    assert judged is not None  # noqa: S101 - asked for choices that were made
    candidate, row = judged.candidate, judged.candidate.cuda_row
    asked = Context(context.facts, context.matrix, Target(context.goal, candidate.judged))
    warnings = [item for item in judged.warnings if not is_resolved(context, candidate, item)]
    planned = PlannedRelease(
        framework=candidate.row.framework,
        distribution=candidate.row.distribution,
        version=candidate.row.build_version,
        requirement=candidate.requirement,
        build="gpu" if candidate.is_gpu else "cpu",
        cuda=candidate.cuda,
        cudnn=row.cudnn if candidate.is_gpu and not candidate.row.local else None,
        index=candidate.row.index,
        environment=made.folder,
        constraints=constraints(context, candidate, judged.source),
        rejected=choice.rejected,
        warnings=with_remedies(warnings, asked),
        doubts=with_remedies(judged.doubts, asked),
        citations=row.citations,
    )
    if made.sets or not made.packages:
        return planned
    # for conda's plans alone

    return describe_conda_release(context, choice, planned)


def environment_of(context: Context, group: Sequence[Choice], wish: PlanOptions) -> Environment:
    """Put the releases chosen for a group of requests into one environment."""
    judged = _judged(group)
    installer = wish.installer or (CONDA if any(item.source.kind == PACKAGES for item in judged) else PIP)
    rows = [row for item in judged for row in item.candidate.rows]
    made = Environment(
        folder=wish.folder or (".conda-env" if installer == CONDA else ".venv"),
        installer=installer,
        python=python_minor(context) + ("t" if is_free_threaded(context) else ""),
        platform=context.platform,
        glibc=max((wheel_glibc(row) for row in rows), key=lambda text: Version(text or "0")),
        machine_glibc=_machine_glibc(context),
        macos=_macos(rows),
        pip_too_old=_pip_needed(context, rows),
    )
    is_native = (
        installer == CONDA and not is_free_threaded(context) and not any(choice.request.beside for choice in group)
    )
    native = _use_conda_builds(context, made, group) if is_native else None
    if native is not None:
        return native
    packages = tuple(spec for item in judged for spec in item.source.packages)
    channels = tuple(dict.fromkeys(name for item in judged for name in item.source.channels))
    return replace(
        made,
        sets=_sets(context, judged, wish.kept),
        packages=(f"python={made.python}", "pip", *dict.fromkeys(packages)) if installer == CONDA else (),
        channels=channels or (("conda-forge",) if installer == CONDA else ()),
        library_folders=_library_folders(made, judged),
        variables=_variables(context, installer, judged),
    )


def _use_conda_builds(context: Context, made: Environment, group: Sequence[Choice]) -> Environment | None:
    """Take the frameworks themselves from conda; None where it has no build of one of them."""
    # for conda's plans alone

    builds = conda_builds(context, group)
    specs = dict.fromkeys(spec for build in builds for spec in (*build.specs, *build.beside))
    native: Environment = replace(
        made,
        packages=(f"python={made.python}", *specs),
        channels=conda_builds_data().channels,
        variables=_variables(context, CONDA, _judged(group)),
    )
    return native if builds else None


def _variables(context: Context, installer: str, judged: tuple[CandidateJudgement, ...]) -> dict[str, str]:
    """State the driver's CUDA to conda, whose own look may be at a machine without one."""
    if installer != CONDA or not any(item.candidate.is_gpu for item in judged):
        return {}
    version = context.facts.driver.cuda_driver_version
    if isinstance(version, Known):
        return {"CONDA_OVERRIDE_CUDA": version.value}
    release = context.facts.driver.release
    branch = context.matrix.driver_branch(release.value) if isinstance(release, Known) else None
    return {"CONDA_OVERRIDE_CUDA": branch.cuda} if branch else {}


def _sets(
    context: Context, judged: tuple[CandidateJudgement, ...], kept: tuple[str, ...]
) -> tuple[RequirementSet, ...]:
    """Group the requirements by index; what comes from an index of its own comes first, whole."""
    by_index: dict[str, list[CandidateJudgement]] = {}
    for item in sorted(judged, key=lambda item: not item.candidate.row.index):
        by_index.setdefault(item.candidate.row.index, []).append(item)
    return tuple(_set(context, index, items, kept) for index, items in by_index.items())


def _set(context: Context, index: str, judged: list[CandidateJudgement], kept: tuple[str, ...]) -> RequirementSet:
    texts = [item.candidate.requirement for item in judged]
    beside = [text for item in judged for text in constraints(context, item.candidate, item.source)]
    exceptions = [name for item in judged for name in source_only(context, item.candidate)]
    return RequirementSet(tuple(dict.fromkeys([*texts, *beside])), index, tuple(dict.fromkeys(exceptions)), kept)


def _library_folders(made: Environment, judged: tuple[CandidateJudgement, ...]) -> tuple[str, ...]:
    """List the folders, below the environment, that its activation must put on the loader's path."""
    hooked = [item.source.kind for item in judged if item.source.needs_hook]
    wheels = f"{_VENV_SITE.format(python=made.python)}/nvidia/*/lib"
    folders = [wheels] if any(kind in (OWN, WHEELS) for kind in hooked) else []
    return (*folders, *(["lib"] if PACKAGES in hooked else []))


def _judged(group: Sequence[Choice]) -> tuple[CandidateJudgement, ...]:
    return tuple(choice.best for choice in group if choice.best is not None)


def _machine_glibc(context: Context) -> str:
    libc = context.facts.host.libc_version
    return libc.value if context.os == "linux" and isinstance(libc, Known) else ""


def _macos(rows: list[FrameworkRelease]) -> str:
    """Return the macOS that every wheel runs on: macosx_14_0_arm64 -> 14.0; which Python has which tag is not held."""
    tags = (re.match(r"macosx_(\d+)_(\d+)_", tag) for row in rows for tag in row.tags)
    return max((f"{tag[1]}.{tag[2]}" for tag in tags if tag), key=Version, default="")


def _pip_needed(context: Context, rows: list[FrameworkRelease]) -> str:
    """Return the pip that a release's wheels need where a new environment may begin with an older one."""
    bundled = plan_data().bundled_pip.rows.get(python_minor(context), "0")
    needs = [need.pip for need in map(easiest_for_pip, rows) if need]
    wanted = max(needs, key=Version, default="0")
    return wanted if Version(wanted) > Version(bundled) else ""
