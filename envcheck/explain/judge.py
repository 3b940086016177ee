"""Conclude from what a log said, and from the machine's facts where they are given, to one root cause."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.explain.events import Event
from envcheck.explain.signatures import signatures_by_name
from envcheck.matrix.query import Matrix
from envcheck.model.facts import Source
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Evidence, Finding, Report
from envcheck.model.snapshot import Facts
from envcheck.rules.ranking import rank_findings


def judge_log(events: Sequence[Event], matrix: Matrix, facts: Facts | None) -> Report:
    """Name the root cause of what `events` report, with the lines that show it."""
    del matrix, facts  # the first slice looks at the messages alone
    known = signatures_by_name()
    findings = []
    for event in events:
        signature = known[event.signature]
        if signature.finding:
            verdict = COMPATIBLE if signature.role == "noise" else INCOMPATIBLE
            shown = Evidence("log", event.text, Source("file", f"{event.file}:{event.line}", event.text))
            findings.append(Finding(signature.finding, verdict, signature.severity, signature.means, (shown,)))
    ranked = rank_findings(findings)
    if any(finding.verdict == INCOMPATIBLE for finding in ranked):
        return Report(INCOMPATIBLE, "gpu", ranked[0].message, ranked, ())
    verdict = COMPATIBLE if ranked else UNDETERMINED
    return Report(verdict, "gpu", "Only noise." if ranked else "Nothing known in the log.", ranked, ())
