"""What reading logs came to: the verdict, the line that matters and the lines that do not."""

from __future__ import annotations

from envcheck.explain.events import Event
from envcheck.explain.scan import Scan
from envcheck.explain.signatures import signatures_by_name
from envcheck.model.findings import INCOMPATIBLE, Finding, Report
from envcheck.model.records import dataclass

NOISE = "benign-noise"


@dataclass(frozen=True)
class Reading:
    """Logs with the verdict on them."""

    report: Report
    scan: Scan
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what could not be read to its end
    with_machine: bool = False  # judged together with a machine's facts


def main_finding(report: Report) -> Finding | None:
    """Return the primary finding, else the first incompatibility."""
    found = [item for item in report.findings if item.primary]
    return next(iter(found or [item for item in report.findings if item.verdict == INCOMPATIBLE]), None)


def line_that_matters(reading: Reading) -> Event | None:
    """Return the message that the main finding rests on; None where it rests on the machine's facts alone."""
    finding = main_finding(reading.report)
    shown = _places(finding) if finding else ()
    by_place = {where(event): event for event in reversed(reading.scan.events)}
    return next((by_place[place] for place in shown if place in by_place), None)


def harmless_lines(reading: Reading) -> tuple[Event, ...]:
    """List the lines that mean nothing, each once: noise by nature, and what the judgement showed to be noise here."""
    findings = reading.report.findings
    said = {place for item in findings if item.id == NOISE for place in _places(item)}
    weighty = {place for item in findings if item.id != NOISE for place in _places(item)}
    known = signatures_by_name()
    kinds: dict[str, Event] = {}
    for event in reading.scan.events:
        noise = event.signature in known and known[event.signature].role == "noise"
        if where(event) not in weighty and (noise or where(event) in said):
            kinds.setdefault(where(event), event)
    return tuple(kinds.values())


def where(event: Event) -> str:
    """Name the place of a message as evidence names it: file:line."""
    return f"{event.file}:{event.line}"


def _places(finding: Finding) -> tuple[str, ...]:
    return tuple(item.source.where for item in finding.evidence if item.fact == "log" and item.source is not None)
