"""The environments of a plan.

Which requirements go in together, from which index, by which installer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from packaging.version import Version

from envcheck.frameworks import framework
from envcheck.matrix.companions import SourceInstall, companion_row
from envcheck.model import (
    CONDA,
    PIP,
    UNDETERMINED,
    WARNING,
    Environment,
    Finding,
    FrameworkRelease,
    PlannedRelease,
    RequirementSet,
    dataclass,
    major_minor,
    replace,
)
from envcheck.model.versions import name_of, within
from envcheck.plan.candidates import (
    OWN,
    PACKAGES,
    WHEELS,
    Candidate,
    constraints,
    is_resolved,
    machine_glibc,
    needs_gpu,
    python_minor,
    source_only,
)
from envcheck.plan.choose import CandidateJudgement, Choice
from envcheck.plan.data import conda_builds_data, plan_data
from envcheck.plan.requests import PlanOptions
from envcheck.plan.steps import with_remedies
from envcheck.rules.builds import is_free_threaded, list_conda_recipes
from envcheck.rules.context import Context, Target
from envcheck.rules.gpu_releases import driver_runs
from envcheck.rules.requirements import easiest_for_pip, wheel_glibc


@dataclass
class CondaBuild:
    """A build of the channel, of the line of the release that was judged."""

    framework: str
    version: str  # the newest that was built of what the request admits
    requirement: str  # what any build that may come meets: tensorflow==2.16.*
    specs: tuple[str, ...]  # tensorflow=2.16.*=cuda*
    constraints: tuple[str, ...]  # packages to keep within bounds: numpy<2


def conda_builds(context: Context, group: Sequence[Choice]) -> tuple[CondaBuild, ...]:
    """Return conda's builds of all chosen releases.

    Return () where one has none, or takes its CUDA from elsewhere.
    """
    builds = []
    for choice in group:
        build = None
        if choice.best:
            build = conda_build(context, choice.request.specifier, choice.best)
        if build is None:
            return ()
        builds.append(build)
    return tuple(builds)


def conda_build(
    context: Context, specifier: str, judgement: CandidateJudgement
) -> CondaBuild | None:
    """Return the conda build of a judged release.

    The newest of its minor (JAX: its release) within the specifier.
    """
    row = judgement.candidate.row
    by_minor = framework(row.framework).plans.conda_releases == "minor"
    line = major_minor(row.version) if by_minor else row.version
    specs = conda_builds_data().specs.get(row.framework)
    versions = [
        version
        for version in _built_versions(context, judgement, line)
        if within(version, specifier)
    ]
    if not (versions and specs) or judgement.source.kind in (PACKAGES, WHEELS):
        return None
    newest = max(versions, key=Version)
    # The recipes that were read are not all: a line is asked for whole where any release of it is
    # welcome.
    is_open = all(within(f"{major_minor(newest)}.{patch}", specifier) for patch in (0, 9999))
    wanted = f"{major_minor(newest)}.*" if is_open and by_minor else newest
    texts = specs.gpu if judgement.candidate.is_gpu else specs.cpu
    bounds = constraints(context, judgement.candidate, judgement.source)
    shared = conda_builds_data().beside  # the channel has them too, and the build leaves them open
    return CondaBuild(
        row.framework,
        newest,
        f"{row.framework}=={wanted}",
        tuple(text.format(version=wanted) for text in texts),
        tuple(text for text in bounds if name_of(text) in shared),
    )


def _built_versions(context: Context, judgement: CandidateJudgement, line: str) -> list[str]:
    """List the versions of a line that were built for this Python, platform, goal and driver."""
    candidate = judgement.candidate
    found: list[str] = []
    for entry in list_conda_recipes(context.matrix, candidate.row.framework):
        is_match = context.platform in entry.platforms and python_minor(context) in entry.pythons
        runs = not entry.cuda
        if candidate.is_gpu:
            runs = any(driver_runs(context, f"{major}.0") for major in entry.cuda)
        if is_match and runs:
            found += [text for text in entry.releases if f"{text}.".startswith(f"{line}.")]
    return found


_VENV_SITE = "lib/python{python}/site-packages"


def planned_release(context: Context, choice: Choice, environment: Environment) -> PlannedRelease:
    """Describe the release chosen for a request, as its environment will hold it."""
    judgement = choice.best
    assert judgement is not None  # noqa: S101 - asked for choices that were made
    candidate, row = judgement.candidate, judgement.candidate.cuda_row
    release_context = Context(
        context.facts, context.matrix, Target(context.goal, candidate.targets)
    )
    warnings = [item for item in judgement.warnings if not is_resolved(context, candidate, item)]
    release = PlannedRelease(
        framework=candidate.row.framework,
        distribution=candidate.row.distribution,
        version=candidate.row.build_version,
        requirement=candidate.requirement,
        build="gpu" if candidate.is_gpu else "cpu",
        cuda=candidate.cuda,
        cudnn=row.cudnn if candidate.is_gpu and not candidate.row.local else None,
        index=candidate.row.index,
        environment=environment.folder,
        constraints=constraints(context, candidate, judgement.source),
        companions=candidate.companions,
        needs_gpu=tuple(item.name for item in needs_gpu(context, candidate)),
        rejected=choice.rejected,
        warnings=with_remedies(warnings, release_context),
        doubts=(
            *with_remedies(judgement.doubts, release_context),
            *_unheld_companions(context, candidate),
        ),
        citations=tuple(row.citations),
    )
    build = None
    if environment.packages and not environment.sets:
        build = conda_build(context, choice.request.specifier, judgement)
    if build is None:
        return release
    # as conda brings it: under the framework's own name, any release of a line
    return replace(
        release,
        distribution=build.framework,
        version=build.version,
        requirement=build.requirement,
        index="",
        constraints=build.constraints,
    )


def _unheld_companions(context: Context, candidate: Candidate) -> Iterator[Finding]:
    """Yield a doubt for each companion release that the matrix lacks: vllm==0.5."""
    for item in candidate.chosen:
        if (
            item.row is None
            and item.source is None
            and context.matrix.companion_releases(item.name)
        ):
            first = companion_row(item.name).first
            begins = f"{item.label} is not in the matrix, which begins at {item.name} {first}"
            message = f"{begins}: its CUDA and its GPU code are unknown."
            yield Finding("release-unknown", UNDETERMINED, WARNING, message)


def environment_of(context: Context, group: Sequence[Choice], options: PlanOptions) -> Environment:
    """Put the releases chosen for a group of requests into one environment."""
    judgements = _list_judgements(group)
    installer = options.installer or (
        CONDA if any(item.source.kind == PACKAGES for item in judgements) else PIP
    )
    rows = [row for item in judgements for row in item.candidate.rows]
    environment = Environment(
        folder=options.folder or (".conda-env" if installer == CONDA else ".venv"),
        installer=installer,
        python=python_minor(context) + ("t" if is_free_threaded(context) else ""),
        platform=context.platform,
        glibc=max(map(wheel_glibc, rows), key=lambda text: Version(text or "0")),
        machine_glibc=machine_glibc(context),
        macos=_find_macos(rows),
        pip_too_old=_minimum_pip(context, rows),
    )
    is_native = (
        installer == CONDA
        and not is_free_threaded(context)
        and not any(choice.request.companions for choice in group)
        and not (options.beside or options.lock)
    )
    native = None
    if is_native:
        native = _use_conda_builds(context, environment, group)
    if native is not None:
        return native
    packages: list[str] = []
    channels = [name for item in judgements for name in item.source.channels]
    if installer == CONDA:
        packages = [f"python={environment.python}", "pip"]
        packages += [spec for item in judgements for spec in item.source.packages]
        channels = channels or ["conda-forge"]
    return replace(
        environment,
        sets=() if options.lock else _group_requirements(context, judgements, options),
        lock=options.lock,
        packages=tuple(dict.fromkeys(packages)),
        channels=tuple(dict.fromkeys(channels)),
        library_folders=_library_folders(environment, judgements),
        variables=_set_variables(context, installer, judgements),
    )


def _use_conda_builds(
    context: Context, environment: Environment, group: Sequence[Choice]
) -> Environment | None:
    """Take the frameworks themselves from conda; None where it has no build of one of them."""
    builds = conda_builds(context, group)
    specs = dict.fromkeys(spec for build in builds for spec in (*build.specs, *build.constraints))
    native: Environment = replace(
        environment,
        packages=(f"python={environment.python}", *specs),
        channels=conda_builds_data().channels,
        variables=_set_variables(context, CONDA, _list_judgements(group)),
    )
    return native if builds else None


def _set_variables(
    context: Context, installer: str, judgements: tuple[CandidateJudgement, ...]
) -> dict[str, str]:
    """State the driver's CUDA to conda, whose own look may be at a machine without one."""
    if installer != CONDA or not any(item.candidate.is_gpu for item in judgements):
        return {}
    version = context.driver.cuda_driver_version.value
    if version:
        return {"CONDA_OVERRIDE_CUDA": version}
    release = context.driver.release.value
    branch = None
    if release:
        branch = context.matrix.driver_branch(release)
    return {"CONDA_OVERRIDE_CUDA": branch.cuda} if branch else {}


def _group_requirements(
    context: Context, judgements: tuple[CandidateJudgement, ...], options: PlanOptions
) -> tuple[RequirementSet, ...]:
    """Group the requirements by index; what comes from an index of its own comes first, whole."""
    pins = options.keep
    by_index: dict[str, list[CandidateJudgement]] = {}
    for item in sorted(judgements, key=lambda item: not item.candidate.row.index):
        by_index.setdefault(item.candidate.row.index, []).append(item)
    there = [item.candidate for item in judgements if item.candidate.row.index]
    elsewhere = tuple(item.requirement for one in there for item in one.chosen if not item.on_index)
    elsewhere += (*_toolkit_pins(judgements), *options.beside)
    if elsewhere:
        by_index.setdefault("", [])
    kept = tuple(one.row.pin for one in there if elsewhere)
    sets = [
        _set(context, index, items, pins if index else (*pins, *kept), elsewhere)
        for index, items in by_index.items()
    ]
    chosen = [item for one in judgements for item in one.candidate.chosen]
    sources = {item.requirement: item.source for item in chosen if item.source}
    given = (_with_files(item, sources) for item in sets)
    built_for = (*pins, *(item.candidate.requirement for item in judgements))
    own = tuple(part for index in by_index if index for part in ("--extra-index-url", index))
    built = (item for source in sources.values() for item in _source_sets(source, built_for, own))
    sets = [*(item for item in given if item.requirements), *built]
    bounds = tuple(part for name in options.constraints for part in ("-c", name))
    more = (*bounds, *(("--upgrade",) if options.upgrade else ()))
    return tuple(replace(item, options=(*item.options, *more)) for item in sets)


def _with_files(given: RequirementSet, sources: Mapping[str, SourceInstall]) -> RequirementSet:
    """Give the address of each built file; what needs a command of its own is left out."""
    own = [text for text, source in sources.items() if source.compiles or source.options]
    texts = [
        sources[text].requirement if text in sources else text
        for text in given.requirements
        if text not in own
    ]
    plain = [
        sources[text].name
        for text in given.requirements
        if text in sources and sources[text].requirement in texts
    ]
    without_wheels = tuple(
        name for name in plain if not any(text.startswith(f"{name} @") for text in texts)
    )
    return replace(
        given, requirements=tuple(texts), source_only=(*given.source_only, *without_wheels)
    )


def _source_sets(
    source: SourceInstall, kept: tuple[str, ...], indexes: tuple[str, ...]
) -> tuple[RequirementSet, ...]:
    """Install what a build needs, then what is built or listed on a page of its own.

    What it is built for stays.

    What is listed elsewhere may require more from the framework's own `indexes`: torchvision of the
    same CUDA.
    """
    if not (source.compiles or source.options):
        return ()
    needs = (RequirementSet(source.requires),) if source.requires else ()
    built = (source.name,) if source.compiles else ()
    wanted = RequirementSet(
        (source.requirement,),
        "",
        built,
        kept,
        options=(*source.options, *(() if source.compiles else indexes)),
        settings=source.settings,
    )
    return (*needs, wanted)


def _toolkit_pins(judgements: tuple[CandidateJudgement, ...]) -> Iterator[str]:
    """Keep the CUDA wheels that one release leaves open at the CUDA that another pins.

    pip would replace them.
    """
    rows = [item.candidate.cuda_row for item in judgements if item.candidate.is_gpu]
    for row in rows:
        if "cuda-toolkit" in map(name_of, row.cuda_wheels):
            for cuda in (other.cuda or "" for other in rows):
                if cuda.startswith(f"{row.cuda}.") and "." not in (row.cuda or "."):
                    yield f"cuda-toolkit=={cuda}.*"


def _set(
    context: Context,
    index: str,
    judgements: list[CandidateJudgement],
    pins: tuple[str, ...],
    elsewhere: tuple[str, ...],  # what no framework's own index has
) -> RequirementSet:
    texts = [item.candidate.requirement for item in judgements]
    constraints_ = [
        text for item in judgements for text in constraints(context, item.candidate, item.source)
    ]
    exceptions = [name for item in judgements for name in source_only(context, item.candidate)]
    here = [text for text in constraints_ if not index or text not in elsewhere]
    requirements = dict.fromkeys([*texts, *here, *(() if index else elsewhere)])
    return RequirementSet(tuple(requirements), index, tuple(dict.fromkeys(exceptions)), pins)


def _library_folders(
    environment: Environment, judgements: tuple[CandidateJudgement, ...]
) -> tuple[str, ...]:
    """List the folders of the environment that its activation must put on the path."""
    kinds = [item.source.kind for item in judgements if item.source.needs_hook]
    wheels = f"{_VENV_SITE.format(python=environment.python)}/nvidia/*/lib"
    folders = [wheels] if any(kind in (OWN, WHEELS) for kind in kinds) else []
    return (*folders, *(["lib"] if PACKAGES in kinds else []))


def _list_judgements(group: Sequence[Choice]) -> tuple[CandidateJudgement, ...]:
    return tuple(choice.best for choice in group if choice.best is not None)


def _find_macos(rows: list[FrameworkRelease]) -> str:
    """Return the macOS that every wheel runs on.

    macosx_14_0_arm64 -> 14.0; which Python has which tag is not held.
    """
    tags = (re.match(r"macosx_(\d+)_(\d+)_", tag) for row in rows for tag in row.tags)
    return max((f"{tag[1]}.{tag[2]}" for tag in tags if tag), key=Version, default="")


def _minimum_pip(context: Context, rows: list[FrameworkRelease]) -> str:
    """Return the pip that a release's wheels need, if a new environment may have less."""
    bundled = plan_data().bundled_pip.rows.get(python_minor(context), "0")
    needs = [need.pip for need in map(easiest_for_pip, rows) if need]
    lowest = max(needs, key=Version, default="0")
    return lowest if Version(lowest) > Version(bundled) else ""
