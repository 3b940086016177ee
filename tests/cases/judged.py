"""Read labelled logs and judge them as their `decidable_from` says: the log, the facts, or both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

from envcheck.explain import log as explain_log
from envcheck.explain.judge import judge_log
from envcheck.explain.scan import EventCollector, Scan, Scanner
from envcheck.explain.signatures import Conclusion, Event, conclusions_by_name, load_signatures
from envcheck.model import COMPATIBLE, ERROR, Facts, Report
from envcheck.rules.context import Target
from tests.cases.case_facts import facts_of, matrix, target_of

FOLDER = Path(__file__).parent
UNDETERMINED = "undetermined"
NOISE = "benign-noise"


# What a label of no id says, and the id that came for it later.
_CAME_LATER = {
    "serialized TensorRT engine": "engine-mismatch",
    "no headers": "build-tools-missing",
    "packaged without one of its libraries": "wheel-incomplete",
}


@dataclass(frozen=True)
class Judged:
    """One case with the report on it."""

    case: Mapping[str, Any]
    events: tuple[Event, ...]
    report: Report
    conclusions: frozenset[str] = frozenset()  # that were drawn, not only those that counted

    @property
    def primary(self) -> str:
        """Name the finding the report ends in; benign-noise where only that was found."""
        found = next((finding.id for finding in self.report.findings if finding.primary), "")
        noise = any(finding.id == NOISE for finding in self.report.findings)
        return found or (NOISE if noise and self.report.verdict == COMPATIBLE else UNDETERMINED)

    @property
    def is_strict(self) -> bool:
        """Tell whether the primary finding is the confirmed cause."""
        label = self.case["root_cause"]
        later = [name for words, name in _CAME_LATER.items() if words in label]
        return self.primary == label or self.primary in later

    @property
    def is_lenient(self) -> bool:
        """Tell whether it is the confirmed cause or one that the case accepts as well."""
        return self.is_strict or self.primary in self.case["also_acceptable"]

    @property
    def raises_error(self) -> bool:
        """Tell whether the report holds an error."""
        return any(finding.severity == ERROR for finding in self.report.findings)

    @property
    def deciding(self) -> tuple[str, ...]:
        """List the signatures behind the primary finding."""
        main = next((finding for finding in self.report.findings if finding.primary), None)
        places = {item.source.where for item in main.evidence if item.source} if main else set()
        return tuple(
            {event.signature for event in self.events if f"{event.file}:{event.line}" in places}
        )


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases of a JSONL file; `facts.notes` is never used."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            case = json.loads(line)
            case["facts"] = {
                name: value for name, value in case.get("facts", {}).items() if name != "notes"
            }
            yield case


class _Noted(dict[str, Conclusion]):
    """Conclusions that note which were drawn."""

    def __init__(self, rows: Mapping[str, Conclusion]) -> None:
        super().__init__(rows)
        self.asked: set[str] = set()

    def rows(self) -> _Noted:
        return self

    def __getitem__(self, name: str) -> Conclusion:
        self.asked.add(name)
        return super().__getitem__(name)


def judge(case: Mapping[str, Any]) -> Judged:
    """Judge one case by what decides it."""
    log = case["log"]
    if case["decidable_from"] == "log":
        return judge_text(
            log, case=case, target=Target(case["expect"]) if "expect" in case else None
        )
    return judge_text(log, facts_of(case["facts"]), case, target_of(case["facts"]))


def judge_text(
    log: str,
    facts: Facts | None = None,
    case: Mapping[str, Any] | None = None,
    target: Target | None = None,
) -> Judged:
    """Judge a log as `explain` does; `target` is what the reporter was after, as the facts tell it."""
    found, drawn = scan_text(log), _Noted(conclusions_by_name())
    with mock.patch.object(explain_log, "conclusions_by_name", partial(_Noted.rows, drawn)):
        report = judge_log(found.events, matrix(), facts, target=target, ending=found.ending)
    return Judged(case or {}, found.events, report, frozenset(drawn.asked))


def scan_text(log: str) -> Scan:
    """Find the messages of a log, which is a fifth of what judging it takes."""
    scanner = _scanner()
    scanner.collector, scanner.lines, scanner._streams = (
        EventCollector(load_signatures()),
        0,
        0,
    )  # nothing of the case before it
    stream = scanner.stream("log")
    stream.feed(log.encode())
    stream.finish()
    return scanner.result()


@cache
def _scanner() -> Scanner:
    """Build the automaton once: that takes longer than any case."""
    return Scanner(load_signatures())


@cache
def judged_cases(name: str) -> tuple[Judged, ...]:
    """Judge the project's own cases of one file, once."""
    return tuple(judge(case) for case in read_cases(FOLDER / f"{name}.jsonl"))
