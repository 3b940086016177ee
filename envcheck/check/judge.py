"""Judge a machine for a project: the rules, the project's own requirements, and what it ignores for now."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envcheck.check.blueprint import Line
from envcheck.check.config import Config, Ignored
from envcheck.diagnosis import with_remedies, with_steps
from envcheck.diagnosis.planned import plan_to_meet
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Evidence,
    Finding,
    Known,
    Problem,
    Remedy,
    Report,
    Source,
    Unknown,
    at_least,
    dataclass,
)
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import conclude, evaluate
from envcheck.rules.builds import Build, installed_builds
from envcheck.rules.context import Context, UndecidedError
from envcheck.rules.gpus import gpu_name, judged_gpus
from envcheck.rules.judgement import judge_release
from envcheck.rules.requirements import marker_holds


@dataclass(frozen=True)
class Missing:
    """What is known of the requirements that are not installed."""

    blocked: tuple[str, ...] = ()  # the findings against what pip would choose for them
    planned: Remedy | None = None  # what brings them all, where a plan does


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
    return Finding(
        name, INCOMPATIBLE, ERROR, message, evidence, fix=missing.planned, problem=_installation(context, text, missing)
    )


def _installation(context: Context, text: str, missing: Missing) -> Problem:
    requirement, wanted = Requirement(text), without_marker(text)
    known = context.matrix.versions(context.matrix.framework_of(canonicalize_name(requirement.name)) or "")
    asked = SpecifierSet(re.sub(r"\+[\w.]+", "", str(requirement.specifier)))  # the matrix counts builds as one release
    if known and not any(asked.contains(version, prereleases=True) for version in known):
        none = f"envcheck knows none that {wanted} admits; the newest is {known[0]}."
        return Problem(advice=f"Require a release that there is: {none}")
    if missing.blocked:
        against = f"what pip would choose does not work here ({', '.join(missing.blocked)})"
        return Problem(advice=f"Let `envcheck plan '{wanted}'` choose a release that this machine runs: {against}.")
    return Problem(requirements=(wanted,))


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
        problem = Problem(driver=config.min_driver)
        yield Finding("driver-too-old", INCOMPATIBLE, ERROR, message, evidence, problem=problem)


def _capability(context: Context, config: Config, where: str) -> Iterator[Finding]:
    floor = config.min_compute_capability
    if not floor:
        return
    for gpu, capability, _ in judged_gpus(context):
        if Version(capability) >= Version(floor):
            continue
        message = f"The project requires compute capability {floor} or higher; {gpu_name(gpu)} has {capability}."
        evidence = (_demand(f"min-compute-capability = {floor}", where), context.seen("gpus", gpu.compute_capability))
        problem = Problem(("left-out",))
        yield Finding("gpu-arch-too-old", INCOMPATIBLE, ERROR, message, evidence, problem=problem)


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


def find_module_clashes(wanted: list[Line], context: Context) -> list[Finding]:
    """Find the requirements of which one overwrites the other's files; `wanted` are of frameworks."""
    owners: dict[str, dict[str, Line]] = {}
    for line in wanted:
        name = canonicalize_name(Requirement(line.text).name)
        module = context.matrix.module_of(name)
        if module and module != "jax_plugins" and _surely_applies(line, context):  # a namespace that plugins share
            owners.setdefault(module, {}).setdefault(name, line)
    return [_clash(module, named) for module, named in owners.items() if len(named) > 1]


def _surely_applies(line: Line, context: Context) -> bool:
    try:
        return applies(context, line.text)
    except UndecidedError:
        return False


def _clash(module: str, named: dict[str, Line]) -> Finding:
    seen = tuple(Evidence("requirement", line.text, Source("file", line.where, line.text)) for line in named.values())
    message = (
        f"{' and '.join(named)} both bring the module {module}: their files overwrite each other, and which build "
        "remains depends on the order of installation."
    )
    return Finding("framework-duplicate-dists", INCOMPATIBLE, ERROR, message, seen, problem=Problem(("files",)))


NOTHING = "framework-missing"
IGNORED = "tool.envcheck.ignore"


def judge_project(context: Context, config: Config, where: str, today: date, inspected: tuple[str, ...] = ()) -> Report:
    """Return the report a project is gated on; an ignored finding is told as a note and does not count.

    `inspected` are the options that say what was looked at.
    """
    wanted = [text for text in config.requires if applies(context, text)]
    missing = [text for text in wanted if not is_installed(context, text)]
    there = tuple(text for text in wanted if text not in missing)
    # What pip would choose for a missing requirement is not what the project asks for: any release it admits may do.
    installed = Context(context.facts, context.matrix, replace(context.target, requirements=there))
    situation = Situation(installed)
    judged = with_remedies(evaluate(installed), situation, strictly=True)
    gated = gate_findings(context, config, where, _missing(context, missing, judged))
    findings = [
        *_without_missing_framework(judged.findings, config, gated),
        *(with_remedy(item, situation) for item in gated),
    ]
    standing = [_without_duplicate(findings, finding) for finding in findings]
    kept = [finding for finding in standing if finding is not None]
    counted = [ignored_for_now(finding, kept, config, today) for finding in kept]
    report = conclude(installed, counted, judged.checked)
    return with_steps(replace(report, inspected=inspected))


def _missing(context: Context, texts: list[str], judged: Report) -> Missing:
    if not texts:
        return Missing()
    blocked = _would_not_work(context, judged)
    return Missing(blocked, plan_to_meet(context, tuple(map(without_marker, texts)), blocked))


def _would_not_work(context: Context, judged: Report) -> tuple[str, ...]:
    """Name what stands against the releases that pip would choose for the requirements."""
    known = {finding.id for finding in judged.findings}
    errors = judge_release(context).errors
    return tuple(dict.fromkeys(finding.id for finding in errors if finding.id not in known))


def _without_missing_framework(findings: Sequence[Finding], config: Config, gated: list[Finding]) -> list[Finding]:
    """Leave "no framework at all" to the gate that names the requirement, or make it a note where none applies."""
    if not config.requires:
        return list(findings)
    if any(finding.id in {NOTHING, "probe-failed"} for finding in gated):
        return [finding for finding in findings if finding.id != NOTHING]
    return [_note(finding) if finding.id == NOTHING else finding for finding in findings]


def _note(finding: Finding) -> Finding:
    said = "No requirement of the project is for this system, and no framework is installed."
    return replace(finding, verdict=COMPATIBLE, severity=NOTE, message=said, fix=None, problem=None)


def expired(config: Config, today: date) -> tuple[Ignored, ...]:
    """List the entries whose date has passed: what they name counts again."""
    return tuple(item for item in config.ignored if item.until < today)


def _without_duplicate(findings: list[Finding], finding: Finding) -> Finding | None:
    """Drop the rules' note of what the project's gate tells as an error, and links that ranking makes anew."""
    told = [other for other in findings if other.id == finding.id and other is not finding]
    if finding.severity == NOTE and any(other.severity == ERROR for other in told):
        return None
    return finding


def ignored_for_now(finding: Finding, findings: Sequence[Finding], config: Config, today: date) -> Finding:
    """Make a finding that is ignored today, or follows from one, a note that says so."""
    causes = _causes(finding, findings)
    for item in config.ignored:
        if item.id in causes and item.until >= today:
            told = Evidence(IGNORED, f"until {item.until}: {item.reason}")
            message = f"Ignored until {item.until} ({item.reason}): {finding.message}"
            verdict = finding.verdict if finding.verdict == UNDETERMINED else COMPATIBLE
            evidence = (told, *finding.evidence)
            note = replace(finding, verdict=verdict, severity=NOTE, message=message, evidence=evidence)
            return replace(note, fix=None, problem=None)
    return finding


def _causes(finding: Finding, findings: Sequence[Finding]) -> list[str]:
    """Name a finding and what it follows from, however far."""
    followed = {item.id: item.caused_by for item in findings if item.caused_by}
    names = [finding.id, *([finding.caused_by] if finding.caused_by else [])]
    while (cause := followed.get(names[-1])) and cause not in names:
        names.append(cause)
    return names
