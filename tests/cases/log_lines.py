"""Write data/evidence/log_lines.json: the lines of logs that state each finding, as people search for them.

    python -m tests.cases.log_lines

A finding's lines come from the logs of this folder. First those that decided a log whose confirmed cause the finding
is, the most frequent first; then one of each message whose signature names the finding. Of the lines that differ in
numbers and paths alone, the shortest is shown.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from envcheck.explain.signatures import load_signatures
from envcheck.model.quoting import quote
from envcheck.rules.catalogue import catalogue
from tests.cases.judged import NOISE, Judged, judged_cases

FILE = Path(__file__).parents[2] / "data/evidence/log_lines.json"
_CORPUS = ("reported", "composed")
_LONGEST = 160  # characters of a line that are shown
_DECIDING = 12  # lines of a finding that decided a log
_ROLES = {"cause", "symptom"}
_VARYING = re.compile(r"\S*[/\\]\S*|\d+|\W+")


def _skeleton(text: str) -> str:
    """Return what lines have in common that differ in numbers and paths alone."""
    return _VARYING.sub(" ", text).strip().lower()


def _deciding_lines(case: Judged) -> Iterator[str]:
    """Yield the lines that a report on a log gives for its cause."""
    main = next((finding for finding in case.report.findings if finding.primary), None)
    places = {item.source.where for item in main.evidence if item.source} if main else set()
    for event in case.events:
        if event.signature in _messages() and f"{event.file}:{event.line}" in places:
            yield event.text


@cache
def _messages() -> frozenset[str]:
    """Name the signatures of what a program says, not of what a person typed."""
    return frozenset(each.name for each in load_signatures() if each.role in _ROLES)


@cache
def _lines_by_signature() -> dict[str, str]:
    """Map each signature to its shortest line in the first file that has one."""
    found: dict[str, str] = {}
    for name in _CORPUS:
        of_file: dict[str, str] = {}
        for case in judged_cases(name):
            for event in case.events:
                known = of_file.get(event.signature)
                if known is None or len(event.text) < len(known):
                    of_file[event.signature] = event.text
        found = of_file | found
    return found


def _state(finding: str) -> Iterator[str]:
    """Yield a line of each message whose signature names a finding."""
    roles = _ROLES | {"noise"} if finding == NOISE else _ROLES
    lines = _lines_by_signature()
    for each in load_signatures():
        if each.finding == finding and each.role in roles and each.name in lines:
            yield lines[each.name]


def _decide(finding: str) -> Iterator[str]:
    """Yield the most frequent lines that decided logs of a finding."""
    counts: Counter[str] = Counter()
    shortest: dict[str, str] = {}
    for name in _CORPUS:
        for case in judged_cases(name):
            if case.case["root_cause"] != finding or not case.is_strict:
                continue
            for text in dict.fromkeys(_deciding_lines(case)):
                same = _skeleton(text)
                counts[same] += 1
                shortest[same] = min(shortest.get(same, text), text, key=len)
    for same, _ in counts.most_common(_DECIDING):
        yield shortest[same]


def list_lines() -> dict[str, list[str]]:
    """List the lines that state each finding."""
    found: dict[str, list[str]] = {}
    for finding in catalogue():
        shown: dict[str, str] = {}
        for text in (*_decide(finding), *_state(finding)):
            line = textwrap.shorten(quote(text), _LONGEST, placeholder=" …")
            shown.setdefault(_skeleton(line), line)
        found[finding] = list(shown.values())
    return found


def main() -> None:
    """Write the file."""
    content = {
        "schema": "envcheck/log-lines/1",
        "about": "Written by `python -m tests.cases.log_lines` from the logs of tests/cases.",
        "lines": list_lines(),
    }
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
