"""Judge a machine for a project: the rules, the project's own requirements, and what it ignores for now."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone

from packaging.version import Version

from envcheck.check.config import Config, ConfigError, parse_config
from envcheck.diagnosis import with_remedies, with_steps
from envcheck.diagnosis.planned import plan_to_meet
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Advise,
    Evidence,
    Facts,
    Finding,
    Fix,
    Remedy,
    Report,
    RequestError,
    Source,
    Unknown,
    at_least,
    dataclass,
)
from envcheck.model.fixes.driver import InstallDriver
from envcheck.model.fixes.hardware import (
    HideGpu,
)
from envcheck.model.fixes.packages import InstallRequirements
from envcheck.model.requirements import Requirement, name_of, read_requirement
from envcheck.model.specifiers import within
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import conclude, evaluate
from envcheck.rules.builds import Build, installed_builds
from envcheck.rules.context import Context, Target, UndecidedError
from envcheck.rules.gpus import gpu_name, judged_gpus
from envcheck.rules.judgement import judge_release
from envcheck.rules.requirements import marker_holds
from envcheck.rules.wanted_releases import check_requirements


@dataclass
class Missing:
    """What is known of the requirements that are not installed."""

    obstacles: tuple[str, ...] = ()  # the findings against what pip would choose for them
    remedy: Remedy | None = None  # what brings them all, where a plan does


def gate_findings(context: Context, config: Config, location: str, missing: Missing) -> list[Finding]:
    """Hold a machine against a project's demands; `where` is the file that makes them."""
    findings = list(_requirements(context, config, location, missing))
    if context.goal == "gpu":
        findings += _run_gate("driver.release", lambda: _driver(context, config, location))
        findings += _run_gate("gpus", lambda: _capability(context, config, location))
    return findings


def applies(context: Context, text: str) -> bool:
    """Tell whether a requirement is for this system and Python."""
    marker = read_requirement(text).marker
    return not marker or marker_holds(context, marker)


def is_installed(context: Context, text: str) -> bool:
    """Tell whether a requirement is met; one that cannot be told counts as met here, and is undetermined there."""
    requirement = read_requirement(text)
    is_unknown = isinstance(context.facts.python.frameworks, Unknown)
    return is_unknown or any(_meets(build, requirement, context) for build in installed_builds(context))


def _requirements(context: Context, config: Config, location: str, missing: Missing) -> Iterator[Finding]:
    for text in config.requires:
        if not applies(context, text):
            continue
        frameworks = context.facts.python.frameworks
        if not context.judges_environment:
            yield _nothing_to_judge(context, text)
        elif isinstance(frameworks, Unknown):
            yield _unknown_finding("python.frameworks", frameworks, f"whether {text} is installed")
        elif not is_installed(context, text):
            yield _not_installed(context, text, location, missing)


def _meets(build: Build, requirement: Requirement, context: Context) -> bool:
    name = requirement.name
    framework = context.matrix.framework_of(name)
    # tensorflow-cpu is what a project that requires tensorflow runs on where no GPU is asked for.
    is_match = build.distribution == name or (build.framework == framework == name)
    return is_match and requirement.admits(build.full_version, prereleases=True)


def _not_installed(context: Context, text: str, location: str, missing: Missing) -> Finding:
    framework = context.matrix.framework_of(name_of(text))
    installed = [build for build in installed_builds(context) if build.framework == framework]
    has = f"{' and '.join(build.label for build in installed)} is" if installed else "it is not"
    message = f"The project requires {text}; {has} installed in the inspected environment."
    seen_builds = context.seen("python.frameworks", shown=", ".join(build.label for build in installed) or "none of it")
    evidence = (_demand(f"requires = {text}", location), seen_builds)
    name = "dependency-conflict" if installed else "framework-missing"
    return Finding(
        name, INCOMPATIBLE, ERROR, message, evidence, fix=missing.remedy, cure=_installation(context, text, missing)
    )


def _installation(context: Context, text: str, missing: Missing) -> Fix:
    requirement = read_requirement(text)
    plain, public = requirement.plain, re.sub(r"\+[\w.]+", "", requirement.specifier)
    versions = context.matrix.versions(context.matrix.framework_of(requirement.name) or "")
    if versions and not any(within(version, public) for version in versions):  # which counts builds as one release
        none = f"envcheck knows no release that {plain} allows; the newest is {versions[0]}."
        return Advise(f"Require a release that exists: {none}")
    if missing.obstacles:
        against = f"the release that pip would choose does not work here ({', '.join(missing.obstacles)})"
        return Advise(f"Let `envcheck plan '{plain}'` choose a release for this machine: {against}.")
    return InstallRequirements((plain,))


def _driver(context: Context, config: Config, location: str) -> Iterator[Finding]:
    release = context.need(context.facts.driver.release, "driver.release")
    if not config.min_driver:
        return
    if release is None:
        if context.facts.driver.cuda_driver_version.value is not None:  # Jetson's comes with the system, unnumbered
            raise UndecidedError("driver.release", Unknown("failed", "this machine's driver has no release number"))
        return  # no driver at all is another finding
    is_reached = at_least(release, config.min_driver)
    if is_reached is None:
        raise UndecidedError("driver.release", Unknown("unparsable", f"the driver is only known as {release}"))
    if not is_reached:
        message = f"The project requires driver >= {config.min_driver}; this machine runs {release}."
        evidence = (_demand(f"min-driver = {config.min_driver}", location), context.seen("driver.release"))
        cure = InstallDriver(config.min_driver)
        yield Finding("driver-too-old", INCOMPATIBLE, ERROR, message, evidence, cure=cure)


def _capability(context: Context, config: Config, location: str) -> Iterator[Finding]:
    floor = config.min_compute_capability
    if not floor:
        return
    for gpu, capability, _ in judged_gpus(context):
        if Version(capability) >= Version(floor):
            continue
        message = f"The project requires compute capability {floor} or higher; {gpu_name(gpu)} has {capability}."
        evidence = (
            _demand(f"min-compute-capability = {floor}", location),
            context.seen("gpus", gpu.compute_capability),
        )
        yield Finding("gpu-arch-too-old", INCOMPATIBLE, ERROR, message, evidence, cure=HideGpu())


def _demand(text: str, location: str) -> Evidence:
    return Evidence("tool.envcheck", text, Source("file", location, text))


def _run_gate(name: str, gate: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Run a gate; a fact it cannot do without that could not be read makes it undetermined."""
    try:
        return list(gate())
    except UndecidedError as undecided:
        return [
            _unknown_finding(undecided.name or name, undecided.unknown, "whether it meets the project's requirements")
        ]


def _nothing_to_judge(context: Context, text: str) -> Finding:
    message = (
        f"The project requires {text}, and there is no Python environment to judge: none is active or belongs to this "
        "folder. Activate the project's environment, or name it with --env."
    )
    return Finding("probe-failed", UNDETERMINED, ERROR, message, (context.seen("python.executable"),))


def _unknown_finding(name: str, unknown: Unknown, question: str) -> Finding:
    message = f"Could not read {name}: {unknown.detail} ({unknown.why}). This leaves undecided {question}."
    return Finding("probe-failed", UNDETERMINED, ERROR, message, (Evidence(name, f"{unknown.why}: {unknown.detail}"),))


@dataclass
class Gate:
    """What a project requires today, and the matrix that judges it."""

    config: Config
    matrix: Matrix
    path: str
    today: date

    def judge(self, facts: Facts, inspected: tuple[str, ...], exists: Callable[[str], bool] | None = None) -> Report:
        """Judge a machine for the project; `exists` tells which folders are there, on the machine that is judged."""
        context = Context(facts, self.matrix, Target(self.config.expect, self.config.requires))
        return judge_project(context, self.config, self.path, self.today, inspected=inspected, exists=exists)

    def ignored(self) -> tuple[str, ...]:
        """List the finding ids that the project ignores today."""
        return tuple(item.id for item in self.config.ignored if item.until >= self.today)

    def expired(self) -> tuple[tuple[str, date], ...]:
        """List the finding ids that count again, each with the last day on which it was ignored."""
        return tuple((item.id, item.until) for item in self.config.ignored if item.until < self.today)


def load_gate(text: str | None, path: str, matrix: Matrix) -> Gate:
    """Read the configuration of a project; None: it has none. Raises ConfigError."""
    try:
        config = Config() if text is None else parse_config(text)
        check_requirements(config.requires, matrix)
    except (ConfigError, RequestError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return Gate(config, matrix, path, datetime.now(timezone.utc).date())


NOTHING = "framework-missing"
IGNORED = "tool.envcheck.ignore"


def judge_project(
    context: Context,
    config: Config,
    location: str,
    today: date,
    *,
    inspected: tuple[str, ...] = (),
    exists: Callable[[str], bool] | None = None,
) -> Report:
    """Return the report a project is gated on; an ignored finding is told as a note and does not count.

    `inspected` are the options that say what was looked at. `exists` tells which folders are there, on the machine
    that is judged.
    """
    requirements = [text for text in config.requires if applies(context, text)]
    missing = [text for text in requirements if not is_installed(context, text)]
    present = tuple(text for text in requirements if text not in missing)
    # What pip would choose for a missing requirement is not what the project asks for: any release it admits may do.
    installed = Context(context.facts, context.matrix, replace(context.target, requirements=present))
    situation = Situation(installed)
    report_on_installed = with_remedies(evaluate(installed), situation, strictly=True)
    gate = gate_findings(context, config, location, _missing(context, missing, report_on_installed))
    findings = [
        *_without_missing_framework(report_on_installed.findings, config, gate),
        *(with_remedy(item, situation) for item in gate),
    ]
    unique = [_without_duplicate(findings, finding) for finding in findings]
    active = [finding for finding in unique if finding is not None]
    final = [apply_ignores(finding, active, config, today) for finding in active]
    report = conclude(installed, final, report_on_installed.checked)
    return with_steps(replace(report, inspected=inspected), exists=exists)


def _missing(context: Context, texts: list[str], report: Report) -> Missing:
    if not texts:
        return Missing()
    obstacles = _obstacles(context, report)
    return Missing(obstacles, plan_to_meet(context, tuple(read_requirement(text).plain for text in texts), obstacles))


def _obstacles(context: Context, report: Report) -> tuple[str, ...]:
    """Name what stands against the releases that pip would choose for the requirements."""
    ids = {finding.id for finding in report.findings}
    errors = judge_release(context).errors
    return tuple(dict.fromkeys(finding.id for finding in errors if finding.id not in ids))


def _without_missing_framework(findings: Sequence[Finding], config: Config, gate: list[Finding]) -> list[Finding]:
    """Leave "no framework at all" to the gate that names the requirement, or make it a note where none applies."""
    if not config.requires:
        return list(findings)
    if any(finding.id in {NOTHING, "probe-failed"} for finding in gate):
        return [finding for finding in findings if finding.id != NOTHING]
    return [_note(finding) if finding.id == NOTHING else finding for finding in findings]


def _note(finding: Finding) -> Finding:
    message = "No project requirement applies to this system, and no framework is installed."
    return replace(finding, verdict=COMPATIBLE, severity=NOTE, message=message, fix=None, cure=None)


def _without_duplicate(findings: list[Finding], finding: Finding) -> Finding | None:
    """Drop the rules' note of what the project's gate tells as an error, and links that ranking makes anew."""
    duplicates = [duplicate for duplicate in findings if duplicate.id == finding.id and duplicate is not finding]
    if finding.severity == NOTE and any(duplicate.severity == ERROR for duplicate in duplicates):
        return None
    return finding


def apply_ignores(finding: Finding, findings: Sequence[Finding], config: Config, today: date) -> Finding:
    """Make a finding that is ignored today, or follows from one, a note that says so."""
    causes = _causes(finding, findings)
    for item in config.ignored:
        if item.id in causes and item.until >= today:
            reason = Evidence(IGNORED, f"until {item.until}: {item.reason}")
            message = f"Ignored until {item.until} ({item.reason}): {finding.message}"
            verdict = finding.verdict if finding.verdict == UNDETERMINED else COMPATIBLE
            evidence = (reason, *finding.evidence)
            note = replace(finding, verdict=verdict, severity=NOTE, message=message, evidence=evidence)
            return replace(note, fix=None, cure=None)
    return finding


def _causes(finding: Finding, findings: Sequence[Finding]) -> list[str]:
    """Name a finding and what it follows from, however far."""
    causes = {item.id: item.caused_by for item in findings if item.caused_by}
    names = [finding.id, *([finding.caused_by] if finding.caused_by else [])]
    while (cause := causes.get(names[-1])) and cause not in names:
        names.append(cause)
    return names
