"""The environments a plan consists of: which requirements go in together, from which index, by which installer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import Version

from envcheck.model import Known, replace
from envcheck.model.actions import CONDA, PIP
from envcheck.model.plans import Environment, PlannedRelease, RequirementSet
from envcheck.model.releases import FrameworkRelease
from envcheck.plan.candidates import OWN, PACKAGES, WHEELS, constraints, is_resolved, python_minor, source_only
from envcheck.plan.choose import Choice, Judgement
from envcheck.plan.plan_data import conda_builds_data, plan_data
from envcheck.plan.requests import Wish
from envcheck.plan.steps import with_remedies
from envcheck.rules.context import Context, Target
from envcheck.rules.targets import is_free_threaded
from envcheck.rules.wheel_tags import easiest_for_pip, wheel_glibc

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
        version=candidate.row.version + (f"+{candidate.local}" if candidate.local else ""),
        requirement=candidate.requirement,
        build="gpu" if candidate.is_gpu else "cpu",
        cuda=candidate.cuda,
        cudnn=row.cudnn if candidate.is_gpu and not candidate.local else None,
        index=candidate.index,
        environment=made.folder,
        constraints=constraints(context, candidate, judged.source),
        rejected=choice.rejected,
        warnings=with_remedies(warnings, asked),
        doubts=with_remedies(judged.doubts, asked),
        citations=row.citations,
    )
    if made.sets or not made.packages:
        return planned
    from envcheck.plan.conda_builds import described  # for conda's plans alone

    return described(context, choice, planned)


def environment_of(context: Context, group: Sequence[Choice], wish: Wish) -> Environment:
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
    native = _native(context, made, group) if is_native else None
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


def _native(context: Context, made: Environment, group: Sequence[Choice]) -> Environment | None:
    """Take the frameworks themselves from conda; None where it has no build of one of them."""
    from envcheck.plan.conda_builds import conda_builds  # for conda's plans alone

    builds = conda_builds(context, group)
    specs = dict.fromkeys(spec for build in builds for spec in (*build.specs, *build.beside))
    native: Environment = replace(
        made,
        packages=(f"python={made.python}", *specs),
        channels=conda_builds_data().channels,
        variables=_variables(context, CONDA, _judged(group)),
    )
    return native if builds else None


def _variables(context: Context, installer: str, judged: tuple[Judgement, ...]) -> dict[str, str]:
    """State the driver's CUDA to conda, whose own look may be at a machine without one."""
    if installer != CONDA or not any(item.candidate.is_gpu for item in judged):
        return {}
    version = context.facts.driver.cuda_driver_version
    if isinstance(version, Known):
        return {"CONDA_OVERRIDE_CUDA": version.value}
    release = context.facts.driver.release
    branch = context.matrix.driver_branch(release.value) if isinstance(release, Known) else None
    return {"CONDA_OVERRIDE_CUDA": branch.cuda} if branch else {}


def _sets(context: Context, judged: tuple[Judgement, ...], kept: tuple[str, ...]) -> tuple[RequirementSet, ...]:
    """Group the requirements by index; what comes from an index of its own comes first, whole."""
    by_index: dict[str, list[Judgement]] = {}
    for item in sorted(judged, key=lambda item: not item.candidate.index):
        by_index.setdefault(item.candidate.index, []).append(item)
    return tuple(_set(context, index, items, kept) for index, items in by_index.items())


def _set(context: Context, index: str, judged: list[Judgement], kept: tuple[str, ...]) -> RequirementSet:
    texts = [item.candidate.requirement for item in judged]
    beside = [text for item in judged for text in constraints(context, item.candidate, item.source)]
    exceptions = [name for item in judged for name in source_only(context, item.candidate)]
    return RequirementSet(tuple(dict.fromkeys([*texts, *beside])), index, tuple(dict.fromkeys(exceptions)), kept)


def _library_folders(made: Environment, judged: tuple[Judgement, ...]) -> tuple[str, ...]:
    """List the folders, below the environment, that its activation must put on the loader's path."""
    hooked = [item.source.kind for item in judged if item.source.needs_hook]
    wheels = f"{_VENV_SITE.format(python=made.python)}/nvidia/*/lib"
    folders = [wheels] if any(kind in (OWN, WHEELS) for kind in hooked) else []
    return (*folders, *(["lib"] if PACKAGES in hooked else []))


def _judged(group: Sequence[Choice]) -> tuple[Judgement, ...]:
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
