"""Judge a machine for a project: the rules, the project's gates, and what it ignores for now."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from envcheck.check.config import Config, Ignored
from envcheck.check.gates import gate_findings
from envcheck.model.findings import ERROR, NOTE, UNDETERMINED, Evidence, Finding, Report
from envcheck.rules import Context, conclude, evaluate


def judge_project(context: Context, config: Config, where: str, today: date) -> Report:
    """Return the report a project is gated on; an ignored finding is told as a note and does not count."""
    judged = evaluate(context)
    findings = [*judged.findings, *gate_findings(context, config, where)]
    standing = [_once(findings, finding) for finding in findings]
    kept = [_ignored(finding, config, today) for finding in standing if finding is not None]
    return conclude(context, kept, judged.checked)


def expired(config: Config, today: date) -> tuple[Ignored, ...]:
    """List the entries whose date has passed: what they name counts again."""
    return tuple(item for item in config.ignored if item.until < today)


def _once(findings: list[Finding], finding: Finding) -> Finding | None:
    """Drop the rules' note of what the project's gate tells as an error, and links that ranking makes anew."""
    told = [other for other in findings if other.id == finding.id and other is not finding]
    if finding.severity == NOTE and any(other.severity == ERROR for other in told):
        return None
    return finding


def _ignored(finding: Finding, config: Config, today: date) -> Finding:
    for item in config.ignored:
        if item.id in (finding.id, finding.caused_by) and item.until >= today:
            told = Evidence("tool.envcheck.ignore", f"until {item.until}: {item.reason}")
            message = f"Ignored until {item.until} ({item.reason}): {finding.message}"
            verdict = finding.verdict if finding.verdict == UNDETERMINED else "compatible"
            return replace(finding, verdict=verdict, severity=NOTE, message=message, evidence=(told, *finding.evidence))
    return finding
