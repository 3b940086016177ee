"""What a project demands beyond what works: its releases installed, its floors reached."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envcheck.check.config import Config
from envcheck.model.facts import Known, Source, Unknown
from envcheck.model.findings import ERROR, INCOMPATIBLE, UNDETERMINED, Evidence, Finding, Fix
from envcheck.model.records import dataclass
from envcheck.rules.builds import Build, installed_builds
from envcheck.rules.context import Context, UndecidedError
from envcheck.rules.driver_release import at_least
from envcheck.rules.fixes_python import install_steps, is_requirement
from envcheck.rules.fixes_system import install_driver
from envcheck.rules.gpu_facts import gpu_name, judged_gpus
from envcheck.rules.markers import marker_holds


@dataclass(frozen=True)
class Missing:
    """What is known of the requirements that are not installed."""

    blocked: tuple[str, ...] = ()  # the findings against what pip would choose for them
    planned: Fix | None = None  # what brings them all, where a plan does


def gate_findings(context: Context, config: Config, where: str, missing: Missing) -> list[Finding]:
    """Hold a machine against a project's demands; `where` is the file that makes them."""
    findings = list(_requirements(context, config, where, missing))
    if context.goal == "gpu":
        findings += _guarded("driver.release", lambda: _driver(context, config, where))
        findings += _guarded("gpus", lambda: _capability(context, config, where))
    return findings


def applies(context: Context, text: str) -> bool:
    """Tell whether a requirement is for this system and Python."""
    marker = Requirement(text).marker
    return marker is None or marker_holds(context, str(marker))


def is_installed(context: Context, text: str) -> bool:
    """Tell whether a requirement is met; one that cannot be told counts as met here, and is undetermined there."""
    requirement = Requirement(text)
    unread = isinstance(context.facts.python.frameworks, Unknown)
    return unread or any(_meets(build, requirement, context) for build in installed_builds(context))


def without_marker(text: str) -> str:
    """Return a requirement as it is where it applies."""
    requirement = Requirement(text)
    requirement.marker = None
    return str(requirement)


def _requirements(context: Context, config: Config, where: str, missing: Missing) -> Iterator[Finding]:
    for text in config.requires:
        if not applies(context, text):
            continue
        found = context.facts.python.frameworks
        if isinstance(found, Unknown):
            yield _unread("python.frameworks", found, f"whether {text} is installed")
        elif not is_installed(context, text):
            yield _not_installed(context, text, where, missing)


def _meets(build: Build, requirement: Requirement, context: Context) -> bool:
    name = canonicalize_name(requirement.name)
    usual = context.matrix.framework_of(name)
    # tensorflow-cpu is what a project that requires tensorflow runs on where no GPU is asked for.
    same = build.distribution == name or (build.framework == usual == name)
    return same and requirement.specifier.contains(Version(build.version), prereleases=True)


def _not_installed(context: Context, text: str, where: str, missing: Missing) -> Finding:
    framework = context.matrix.framework_of(canonicalize_name(Requirement(text).name))
    others = [build for build in installed_builds(context) if build.framework == framework]
    has = f"{' and '.join(build.label for build in others)} is" if others else "it is not"
    message = f"The project requires {text}; {has} installed in the inspected environment."
    seen = context.seen("python.frameworks", shown=", ".join(build.label for build in others) or "none of it")
    evidence = (_demand(f"requires = {text}", where), seen)
    name = "dependency-conflict" if others else "framework-missing"
    return Finding(name, INCOMPATIBLE, ERROR, message, evidence, _installation(context, text, missing))


def _installation(context: Context, text: str, missing: Missing) -> Fix:
    requirement, wanted = Requirement(text), without_marker(text)
    known = context.matrix.versions(context.matrix.framework_of(canonicalize_name(requirement.name)) or "")
    asked = SpecifierSet(re.sub(r"\+[\w.]+", "", str(requirement.specifier)))  # the matrix counts builds as one release
    if known and not any(asked.contains(version, prereleases=True) for version in known):
        return Fix(
            f"Require a release that there is: envcheck knows none that {wanted} admits; the newest is {known[0]}."
        )
    if missing.planned is not None:
        return missing.planned
    if missing.blocked:
        against = f"what pip would choose does not work here ({', '.join(missing.blocked)})"
        return Fix(f"Let `envcheck plan '{wanted}'` choose a release that this machine runs: {against}.")
    return Fix(f"Install {wanted}.", install_steps(context, wanted) if is_requirement(wanted) else ())


def _driver(context: Context, config: Config, where: str) -> Iterator[Finding]:
    release = context.need(context.facts.driver.release, "driver.release")
    if not config.min_driver:
        return
    if release is None:
        if isinstance(context.facts.driver.cuda_driver_version, Known):  # Jetson's comes with the system, unnumbered
            raise UndecidedError("driver.release", Unknown("failed", "this machine's driver has no release number"))
        return  # no driver at all is another finding
    reached = at_least(release, config.min_driver)
    if reached is None:
        raise UndecidedError("driver.release", Unknown("unparsable", f"the driver is only known as {release}"))
    if not reached:
        message = f"The project requires driver >= {config.min_driver}; this machine runs {release}."
        evidence = (_demand(f"min-driver = {config.min_driver}", where), context.seen("driver.release"))
        yield Finding(
            "driver-too-old", INCOMPATIBLE, ERROR, message, evidence, install_driver(context, config.min_driver)
        )


def _capability(context: Context, config: Config, where: str) -> Iterator[Finding]:
    floor = config.min_compute_capability
    if not floor:
        return
    for gpu, capability, _ in judged_gpus(context):
        if Version(capability) >= Version(floor):
            continue
        message = f"The project requires compute capability {floor} or higher; {gpu_name(gpu)} has {capability}."
        evidence = (_demand(f"min-compute-capability = {floor}", where), context.seen("gpus", gpu.compute_capability))
        fix = Fix("Use another GPU, or hide this one with CUDA_VISIBLE_DEVICES.")
        yield Finding("gpu-arch-too-old", INCOMPATIBLE, ERROR, message, evidence, fix)


def _demand(shown: str, where: str) -> Evidence:
    return Evidence("tool.envcheck", shown, Source("file", where, shown))


def _guarded(name: str, gate: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Run a gate; a fact it cannot do without that could not be read makes it undetermined."""
    try:
        return list(gate())
    except UndecidedError as undecided:
        return [_unread(undecided.name or name, undecided.unknown, "what the project demands of it")]


def _unread(name: str, unknown: Unknown, what: str) -> Finding:
    message = f"Could not read {name}: {unknown.detail} ({unknown.why}). Not decided for that reason: {what}."
    return Finding("probe-failed", UNDETERMINED, ERROR, message, (Evidence(name, f"{unknown.why}: {unknown.detail}"),))
