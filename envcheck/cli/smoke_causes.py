"""Explain a failed smoke test: what its log points to, and what to do about it."""

from __future__ import annotations

from envcheck.diagnosis import with_steps
from envcheck.explain.judge import judge_log
from envcheck.explain.scan import scan
from envcheck.explain.signatures import load_signatures
from envcheck.matrix import load_matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Facts,
    Finding,
    HostFacts,
    Known,
    Report,
    Source,
    replace,
)
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context
from envcheck.rules.catalogue import rank_findings
from envcheck.smoke.session import UNEXPLAINED, Session, findings_of, headline_of, verdict_of


def find_causes(text: str) -> tuple[str, ...]:
    """Return the finding ids that a log points to, the root cause first; () if it names no root cause."""
    found = scan([("smoke test", [text.encode("utf-8", "replace")])], load_signatures())
    findings = judge_log(found.events, load_matrix(None), None).findings
    if not any(finding.primary for finding in findings):
        return ()
    causes = [finding for finding in findings if finding.severity != NOTE]
    return tuple(finding.id for finding in sorted(causes, key=lambda finding: not finding.primary))


def with_findings(session: Session, context: Context | None = None) -> Session:
    """Add the findings of what failed, with remedies for the machine as far as it is known."""
    situation = Situation(context or _unread_machine(session.system))
    findings = tuple(with_remedy(item, situation) for item in findings_of(session))
    changed: Session = replace(session, findings=findings)
    return changed


def _unread_machine(system: str) -> Context:
    known = Known(system, Source("command", "envcheck smoke"))
    return Context(Facts(host=HostFacts(os=known)), load_matrix(None))


def merge_session(report: Report, session: Session) -> Report:
    """Return a report with the outcome of a smoke test, its findings and one plan for everything."""
    verdict, found = verdict_of(session), list(session.findings)
    headline = f"Smoke test: {headline_of(session)}"
    if verdict == COMPATIBLE or report.verdict != COMPATIBLE:  # else the first sentence was refuted
        headline = f"{report.headline} {headline}"
    checked = (*report.checked, UNEXPLAINED)
    if not found and verdict not in {UNDETERMINED, INCOMPATIBLE}:
        return replace(report, headline=headline, checked=checked)
    found = found or [Finding(UNEXPLAINED, verdict, ERROR, f"Smoke test: {headline_of(session)}")]
    roots = [item.id for item in report.findings if item.primary and item.severity == ERROR]
    before = [replace(item, primary=False) for item in report.findings]
    ranked = rank_findings([*before, *(_with_cause(item, roots) for item in found)])
    worst = INCOMPATIBLE if INCOMPATIBLE in {report.verdict, verdict} else UNDETERMINED
    return with_steps(replace(report, verdict=worst, headline=headline, findings=ranked, checked=checked))


def _with_cause(finding: Finding, roots: list[str]) -> Finding:
    """Let a finding of the rules explain a failure that nothing else explains."""
    unexplained = finding.id == UNEXPLAINED and finding.verdict == INCOMPATIBLE
    return replace(finding, caused_by=roots[0]) if unexplained and roots else finding
