"""What to do about the packages around a framework: what it requires, and what was made for it."""

from __future__ import annotations

import re

from envcheck.actions import (
    ADD,
    Action,
    InstallCondaPackages,
    SetVariables,
    fit_to_project,
    is_requirement,
)
from envcheck.frameworks import identity
from envcheck.matrix.companions import companion_row
from envcheck.matrix.package_index import index_url
from envcheck.model import (
    Distribution,
    FrameworkRelease,
    Remedy,
    major,
    major_minor,
)
from envcheck.model.fixes import (
    InstallDependant,
    InstallRequiredRelease,
    InstallRequirements,
    InstallTogether,
    ReinstallParts,
    RestoreKeras2,
    RestoreRequirements,
)
from envcheck.model.versions import admits_others, can_be_met, matches, name_of
from envcheck.remedies.situation import PROGRAM_SHELL, Situation
from envcheck.rules.requirements import requirements_on


def install_requirements(situation: Situation, fix: InstallRequirements) -> Remedy:
    """Install them, in releases that the other installed packages admit, too."""
    rival, requirements = _fit_installed(situation, fix.requirements)
    if rival:
        return Remedy(rival)
    summary = f"Install {', '.join(requirements)}."
    if fix.advice:
        summary = f"{summary} {fix.advice}"
    return Remedy(summary, situation.install(*requirements, index=fix.index))


def install_together(situation: Situation, fix: InstallTogether) -> Remedy:
    """Give them to the tool that spoke, in one command."""
    requirements = tuple(filter(is_requirement, fix.requirements))
    steps: tuple[Action, ...] = situation.install(*requirements)
    if fix.tool == "conda":
        # python>=3.12,<3.13.0a0 is python=3.12 there, which admits 3.12.4
        specs = (re.sub(r"(?:[=>]=)([\d.]*\d).*", r"=\1", text) for text in requirements)
        steps = (InstallCondaPackages(tuple(specs), ()),)
    elif fix.tool in ADD:
        steps = tuple(fit_to_project(item, fix.tool) for item in steps)
    releases = " with ".join(requirements)
    return Remedy(f"Ask for {releases}: they fit each other. Nothing was installed.", steps)


def restore_requirements(situation: Situation, fix: RestoreRequirements) -> Remedy:
    """Install a distribution's requirements in releases that the others admit."""
    rival, requirements = _fit_installed(situation, (fix.owner, *fix.others))
    if rival:
        return Remedy(rival)
    owner, *others = requirements
    summary = f"Install {', '.join((*others, owner))}."
    if fix.is_missing:
        with_others = f", with {' and '.join(others)}" if others else ""
        summary = f"Reinstall {owner}{with_others}: pip then installs what is missing."
    return Remedy(summary, situation.install(*requirements))


def reinstall_parts(situation: Situation, fix: ReinstallParts) -> Remedy:
    """Reinstall the framework, which pins its parts."""
    summary = f"Reinstall {fix.requirement}: pip then installs the matching parts."
    return Remedy(summary, situation.install(fix.requirement))


def _fit_installed(situation: Situation, texts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Bound requirements by what installed packages require; say why where that leaves none."""
    fitted = []
    for text in texts:
        rival, requirement = _fit_others(situation, text)
        if rival:
            name = name_of(text)
            reason = f"{rival} needs another release of {name} than {text.removeprefix(name)}"
            return f"Use separate environments: {reason}.", ()
        fitted.append(requirement)
    return "", tuple(fitted)


def _fit_others(situation: Situation, text: str) -> tuple[str, str]:
    """Bound a requirement by what working packages require, and name who refuses it."""
    name = name_of(text)
    specifier = text.removeprefix(name)
    installed = situation.context.distributions.get(name)
    if installed is None or specifier[:1] not in ("<", ">", "=", "!", "~"):
        return "", text
    for owner, other in requirements_on(situation.context, name):
        if not matches(installed.version, other):
            continue  # it is broken already, by what is installed
        if not can_be_met(f"{specifier},{other}"):
            return owner.label, text
        extra = [clause for clause in other.split(",") if admits_others(specifier, clause)]
        specifier = ",".join((specifier, *extra))
    return "", name + specifier


def install_dependant(situation: Situation, fix: InstallDependant) -> Remedy | None:
    """Install it from the index that the framework's build came from."""
    name, framework = fix.name, fix.framework
    version, _, label = fix.release.partition("+")
    pin, index = f"{framework}=={version}", index_url(framework, label)
    known = _list_dependants(situation, framework, version, name)
    build = situation.matrix.build(framework, version, label, situation.context.platform)
    fits = [row for row in known if build is None or situation.matrix.is_of_one_cuda(row, build)]
    installed = situation.context.distributions.get(name)
    if fits:
        requirement = f"{fits[0].distribution}=={fits[0].version}"
        # pip takes another build of this very release for the one that is asked for.
        is_other = (
            installed and installed.public != fits[0].version and fits[0].distribution == name
        )
        replaced = () if is_other else situation.uninstall(name)
        steps = situation.install(
            pin, requirement, index=index if companion_row(name).on_index else ""
        )
        return Remedy(
            f"Install {requirement}, which was made for {framework} {version}.", (*replaced, *steps)
        )
    if known:
        there = (row for row in known if installed and row.version == installed.version)
        return _install_for_cuda_of(situation, framework, version, next(there, known[0]))
    kept = None
    if installed:
        kept = _keep_dependant(situation, framework, label, installed)
    if kept or situation.from_log:
        return kept
    summary = f"Install the release of {name} that was made for {framework} {version}."
    return Remedy(summary, situation.install(pin, name, index=index))


def _keep_dependant(
    situation: Situation, framework: str, label: str, installed: Distribution
) -> Remedy | None:
    """Install the framework's newest release that an installed companion was made for.

    Return None where none is known.
    """
    matrix, platform = situation.matrix, situation.context.platform
    pin = matrix.companion_pins(framework, installed.name).get(installed.public)
    minor = major_minor(situation.facts.python.version.value)
    if pin:
        rows = matrix.releases(framework, platform, lambda version: matches(version, pin))
    else:
        rows = ()
    row = next(
        (
            item
            for item in rows
            if item.distribution == framework and (not minor or minor in item.pythons)
        ),
        None,
    )
    if row is None:
        return None
    index = ""
    if matrix.build(framework, row.version, label, platform):
        index = index_url(framework, label)
    summary = f"Install {framework}=={row.version}, which {installed.label} was made for."
    return Remedy(summary, situation.install(f"{framework}=={row.version}", index=index))


def _list_dependants(
    situation: Situation, framework: str, version: str, name: str
) -> list[FrameworkRelease]:
    """List the companion releases that go with a framework's, newest first."""
    matrix = situation.matrix
    row = companion_row(name)
    platform = situation.context.platform
    minor = major_minor(situation.facts.python.version.value)
    found = [*matrix.companions_of(framework, version, platform, name)]
    if row.pinned_by:
        owners = matrix.companions_of(framework, version, platform, row.pinned_by)
    else:
        owners = ()
    for item in row.distributions if owners else ():
        pins = {owner.requires.get(item, "").removeprefix("==") for owner in owners}
        releases = matrix.companion_releases(item) if any(pins) else ()
        found += (
            each for each in releases if each.version in pins and each.platform in (platform, "any")
        )
    return [each for each in found if not minor or each.platform == "any" or minor in each.pythons]


def _install_for_cuda_of(
    situation: Situation, framework: str, version: str, companion: FrameworkRelease
) -> Remedy:
    """Install the framework's build for the CUDA that a companion's only build is for."""
    row = situation.matrix.release(framework, version, situation.context.platform)
    builds = situation.matrix.index_builds(row) if row else ()
    same = next(
        (each for each in builds if each.cuda and major(each.cuda) == major(companion.cuda)),
        None,
    )
    pin = f"{framework}=={version}"
    label = same.local if same else ""
    other = companion.pin
    summary = (
        f"Install {pin}{'+' if label else ''}{label} with {other}: that one is for CUDA"
        f" {companion.cuda}."
    )
    installed = situation.context.distributions.get(companion.distribution)
    is_there = installed is not None and installed.public == companion.version
    if label:
        steps = situation.install(f"{pin}+{label}", index=index_url(framework, label))
    else:
        steps = ()
    return Remedy(summary, (*steps, *(() if is_there else situation.install(other))))


def restore_keras2(situation: Situation, fix: RestoreKeras2) -> Remedy | None:
    """Install the tf-keras of the TensorFlow that is there, which brings Keras 2 back."""
    build = situation.build(fix.framework)
    row = build.release if build else None
    if row is None:
        return None
    found = situation.matrix.companions_of(
        row.framework, row.version, situation.context.platform, "tf-keras"
    )
    if not found:
        return None
    requirement = f"tf-keras=={found[0].version}"
    switch = SetVariables((("TF_USE_LEGACY_KERAS", "1"),), PROGRAM_SHELL)
    summary = (
        f"Code for Keras 2 needs {requirement} with {identity(row.framework).title} {row.version}."
    )
    return Remedy(summary, (*situation.install(requirement), switch))


def install_required_release(situation: Situation, fix: InstallRequiredRelease) -> Remedy | None:
    """Install it within the bounds of the framework's release; None where that has no upper one."""
    build = situation.build(fix.framework)
    row = build.release if build else None
    specifier = ""
    if row:
        specifier = row.requires.get(fix.name, "").replace(" ", "").replace("dev", ".dev0")
    requirement = f"{fix.name}{specifier}"
    if row is None or "<" not in specifier or not is_requirement(requirement):
        return None
    summary = f"Install the {fix.name} that {row.label} requires."
    return Remedy(summary, situation.install(requirement))
