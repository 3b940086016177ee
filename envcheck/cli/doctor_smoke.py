"""`envcheck doctor --smoke`: what the report says, proved or refuted by computing."""

from __future__ import annotations

from dataclasses import replace

from envcheck.cli.smoke_options import SmokeOptions
from envcheck.cli.smoke_session import run_session
from envcheck.model.findings import ERROR, INCOMPATIBLE, UNDETERMINED, Finding, Report
from envcheck.rules.ranking import rank_findings
from envcheck.smoke.devices import Session
from envcheck.smoke.verdict import UNEXPLAINED, findings_of, headline_of, verdict_of


def with_smoke(report: Report, wanted: SmokeOptions) -> tuple[Report, Session, bool]:
    """Run a quick smoke test; return the report with what it found, the test, and whether it failed."""
    session = run_session(wanted)
    return _judged(report, session), session, verdict_of(session) == INCOMPATIBLE


def _judged(report: Report, session: Session) -> Report:
    verdict = verdict_of(session)
    found = findings_of(session)
    if verdict != UNDETERMINED and not found and verdict != INCOMPATIBLE:
        headline = f"{report.headline} Smoke test: {headline_of(session)}"
        return replace(report, headline=headline, checked=(*report.checked, UNEXPLAINED))
    if not found:
        message = f"Smoke test: {headline_of(session)}"
        found = [Finding(UNEXPLAINED, verdict, ERROR, message)]
    return _merged(report, found, verdict, headline_of(session))


def _merged(report: Report, found: list[Finding], verdict: str, headline: str) -> Report:
    roots = [item.id for item in report.findings if item.primary and item.severity == ERROR]
    before = [replace(item, primary=False) for item in report.findings]
    ranked = rank_findings([*before, *(_caused(item, roots) for item in found)])
    worst = INCOMPATIBLE if INCOMPATIBLE in {report.verdict, verdict} else UNDETERMINED
    said = f"{report.headline} Smoke test: {headline}"
    return replace(report, verdict=worst, headline=said, findings=ranked, checked=(*report.checked, UNEXPLAINED))


def _caused(finding: Finding, roots: list[str]) -> Finding:
    """Let what the rules found explain a failure that nothing else explains."""
    unexplained = finding.id == UNEXPLAINED and finding.verdict == INCOMPATIBLE
    return replace(finding, caused_by=roots[0]) if unexplained and roots else finding
