"""The most reported incompatibilities of the packages on top of a framework: one root cause, and the remedy that mends.

The headings of tests/cases/stack.txt state what was expected before the log was first judged: `ROW | CAUSE … | REMEDY`.
REMEDY are patterns of which each must fit the first remedy, joined by &&; after ~ they must fit any of its ways.
"""

from __future__ import annotations

import re

import pytest

from envcheck.actions import action_line
from envcheck.model import Alternative, Remedy
from tests.cases.judged import FOLDER, judge_text

PARTS = [part.partition("\n") for part in (FOLDER / "stack.txt").read_text(encoding="utf-8").split("##### ")[1:]]


def lines(way: Remedy | Alternative) -> str:
    return "\n".join([way.summary, *map(action_line, way.actions)])


def test_each_of_the_thirty_has_several_forms() -> None:
    rows = [re.match(r"\d+", heading)[0] for heading, _, _ in PARTS]  # type: ignore[index]
    assert {row: rows.count(row) >= 3 for row in rows} == {str(number): True for number in range(1, 31)}


@pytest.mark.parametrize(("heading", "log"), [(heading, log) for heading, _, log in PARTS], ids=lambda text: text[:3])
def test_a_log_has_its_cause_and_a_remedy_that_mends(heading: str, log: str) -> None:
    _, causes, said = heading.split(" | ", 2)
    judged = judge_text(log)
    assert judged.primary in causes.split()
    fix = next(finding for finding in judged.report.findings if finding.primary).fix
    assert fix is not None
    shown = "\n".join([lines(fix), *(map(lines, fix.alternatives) if said.startswith("~") else ())])
    assert [pattern for pattern in said.lstrip("~").split(" && ") if not re.search(pattern, shown)] == []
