"""Explain a failed smoke test.

What its words, its log and the machine's facts point to, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envcheck.diagnosis import with_steps
from envcheck.explain.judge import judge_log, list_refuted
from envcheck.explain.scan import scan
from envcheck.explain.signatures import Event, load_signatures
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
    Snapshot,
    Source,
    UserError,
    replace,
)
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target
from envcheck.rules.catalogue import catalogue, rank_findings
from envcheck.smoke.findings import UNEXPLAINED, findings_of, headline_of, verdict_of
from envcheck.smoke.session import Session

_OF_A_GPU = ("hardware", "driver")  # layers that a computation on the CPU does without


def read_context(read: Callable[[str], Snapshot], python: str, expect: str, system: str) -> Context:
    """Collect the facts of this machine with the tested Python; only its system if that fails."""
    try:
        facts = read(python).facts
    except UserError:
        facts = Facts(host=HostFacts(os=Known(system, Source("command", "envcheck smoke"))))
    return Context(facts, load_matrix(None), Target(expect))


def scan_text(source: str, text: str) -> Sequence[Event]:
    """Read what a program printed as a log."""
    return scan([(source, [text.encode("utf-8", "replace")])], load_signatures()).events


class CauseFinder:
    """Finds what explains the failures of a machine."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def find(self, words: str, log: str, *, on_gpu: bool) -> Finding | None:
        """Return what explains a failure.

        By the framework's own words, else by its log, else by the facts.

        Memory is not taken from the log: where it was short, the words of what failed say so, while
        TensorFlow 2.21 warns of a cuDNN status that otherwise means it whenever cuDNN cannot be
        opened.
        """
        context = self._context
        for text, unlikely in ((words, ""), (log, "gpu-memory-exhausted"), ("", "")):
            events = scan_text("smoke test", text)
            alone = judge_log(events, context.matrix, None).findings
            if any(item.primary and item.id != unlikely for item in alone):
                break
        ignored = (unlikely, *list_refuted(context.facts))
        for item in judge_log(events, context.matrix, context.facts, context.target).findings:
            if item.id not in ignored and _may_explain(item, on_gpu=on_gpu):
                return item
        return None

    def with_findings(self, session: Session) -> Session:
        """Add a finding with its remedy for each failure."""
        situation = Situation(self._context)
        findings = tuple(with_remedy(item, situation) for item in findings_of(session))
        return replace(session, findings=findings)


def _may_explain(finding: Finding, *, on_gpu: bool) -> bool:
    """Return whether a finding can be the cause.

    One that the log does not show must be an error of a layer in use.
    """
    if finding.verdict != INCOMPATIBLE or finding.severity == NOTE:
        return False
    if any(item.fact == "log" for item in finding.evidence):
        return True
    return finding.severity == ERROR and (on_gpu or catalogue()[finding.id].layer not in _OF_A_GPU)


def merge_session(report: Report, session: Session) -> Report:
    """Return a report with the outcome of a smoke test.

    One verdict, and one finding for each cause.
    """
    verdict, checked = verdict_of(session), (*report.checked, UNEXPLAINED)
    if not session.runs and verdict == UNDETERMINED and report.judged.environment is None:
        untested = (
            "No framework was tested: name an environment that has one with --env or --python."
        )
        return replace(report, headline=f"{report.headline} {untested}")
    if verdict == COMPATIBLE:
        return replace(report, headline=_passed_headline(report, session), checked=checked)
    headline = f"Smoke test: {headline_of(session)}"
    if report.verdict != COMPATIBLE:  # else the first sentence was refuted
        headline = f"{report.headline} {headline}"
    found = list(session.findings) or [
        Finding(UNEXPLAINED, verdict, ERROR, f"Smoke test: {headline_of(session)}")
    ]
    worst = UNDETERMINED
    if INCOMPATIBLE in {report.verdict, verdict}:
        worst = INCOMPATIBLE
    ranked = _join_findings(list(report.findings), found)
    return with_steps(
        replace(report, verdict=worst, headline=headline, findings=ranked, checked=checked)
    )


def _passed_headline(report: Report, session: Session) -> str:
    headline = f"{report.headline} Smoke test: {headline_of(session)}"
    if report.verdict == COMPATIBLE:
        return headline
    return f"{headline} It does not test what is named below."


def _join_findings(known: list[Finding], found: list[Finding]) -> tuple[Finding, ...]:
    """Rank the findings of the rules and of the smoke test; what both found becomes one finding."""
    for item in found:
        at = next((place for place, other in enumerate(known) if _is_same(other, item)), None)
        if at is None:
            known.append(item)
        else:
            evidence = tuple(dict.fromkeys((*item.evidence, *known[at].evidence)))
            known[at] = replace(known[at], severity=ERROR, evidence=evidence)
    return rank_findings(known)


def _is_same(rule: Finding, smoke: Finding) -> bool:
    is_cause = rule.verdict == INCOMPATIBLE and rule.severity != NOTE
    return is_cause and rule.id == smoke.id and rule.cure == smoke.cure
