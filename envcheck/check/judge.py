"""Judge a machine for a project: the rules, the project's gates, and what it ignores for now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

from envcheck.check.config import Config, Ignored
from envcheck.check.gates import Missing, applies, gate_findings, is_installed, without_marker
from envcheck.model.findings import COMPATIBLE, ERROR, INCOMPATIBLE, NOTE, UNDETERMINED, Evidence, Finding, Fix, Report
from envcheck.model.records import dataclass
from envcheck.rules import Context, conclude, evaluate

NOTHING = "framework-missing"
IGNORED = "tool.envcheck.ignore"


@dataclass(frozen=True)
class Planner:
    """Who makes plans: `mend` for what a report found, `bring` for requirements, with what speaks against them."""

    mend: Callable[[Report, Context], Report]
    bring: Callable[[Context, tuple[str, ...], tuple[str, ...]], Fix | None]


_NO_PLANNER = Planner(lambda report, _: report, lambda *_: None)


def judge_project(context: Context, config: Config, where: str, today: date, planner: Planner = _NO_PLANNER) -> Report:
    """Return the report a project is gated on; an ignored finding is told as a note and does not count."""
    wanted = [text for text in config.requires if applies(context, text)]
    missing = [text for text in wanted if not is_installed(context, text)]
    there = tuple(text for text in wanted if text not in missing)
    # What pip would choose for a missing requirement is not what the project asks for: any release it admits may do.
    installed = Context(context.facts, context.matrix, replace(context.target, requirements=there))
    judged = planner.mend(evaluate(installed), installed)
    gated = gate_findings(context, config, where, _missing(context, missing, judged, planner))
    findings = [*_told_otherwise(judged.findings, config, gated), *gated]
    standing = [_once(findings, finding) for finding in findings]
    kept = [finding for finding in standing if finding is not None]
    return conclude(installed, [ignored_for_now(finding, kept, config, today) for finding in kept], judged.checked)


def _missing(context: Context, texts: list[str], judged: Report, planner: Planner) -> Missing:
    if not texts:
        return Missing()
    blocked = _would_not_work(context, judged)
    return Missing(blocked, planner.bring(context, tuple(map(without_marker, texts)), blocked))


def _would_not_work(context: Context, judged: Report) -> tuple[str, ...]:
    """Name what stands against the releases that pip would choose for the requirements."""
    known = {finding.id for finding in judged.findings}
    would = evaluate(context).findings
    return tuple(
        dict.fromkeys(
            finding.id
            for finding in would
            if finding.severity == ERROR and finding.verdict == INCOMPATIBLE and finding.id not in known
        )
    )


def _told_otherwise(findings: Sequence[Finding], config: Config, gated: list[Finding]) -> list[Finding]:
    """Leave "no framework at all" to the gate that names the requirement, or make it a note where none applies."""
    if not config.requires:
        return list(findings)
    if any(finding.id in {NOTHING, "probe-failed"} for finding in gated):
        return [finding for finding in findings if finding.id != NOTHING]
    return [_note(finding) if finding.id == NOTHING else finding for finding in findings]


def _note(finding: Finding) -> Finding:
    said = "No requirement of the project is for this system, and no framework is installed."
    return replace(finding, verdict=COMPATIBLE, severity=NOTE, message=said, fix=None)


def expired(config: Config, today: date) -> tuple[Ignored, ...]:
    """List the entries whose date has passed: what they name counts again."""
    return tuple(item for item in config.ignored if item.until < today)


def _once(findings: list[Finding], finding: Finding) -> Finding | None:
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
            return replace(finding, verdict=verdict, severity=NOTE, message=message, evidence=evidence, fix=None)
    return finding


def _causes(finding: Finding, findings: Sequence[Finding]) -> list[str]:
    """Name a finding and what it follows from, however far."""
    followed = {item.id: item.caused_by for item in findings if item.caused_by}
    names = [finding.id, *([finding.caused_by] if finding.caused_by else [])]
    while (cause := followed.get(names[-1])) and cause not in names:
        names.append(cause)
    return names
