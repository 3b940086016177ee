"""A report of one fault is read at a glance: what is wrong, what to type, and the machine."""

from __future__ import annotations

from statistics import median

import pytest

from envcheck.diagnosis import diagnose
from envcheck.model import NOTE
from envcheck.render.document import Document
from envcheck.render.report import describe_report
from envcheck.render.text import lay_out, list_lines, render_text
from tests.hosts.test_hosts import NAMES, context_of, snapshot_of

GOAL = 20  # lines
COLUMNS, DRAWN = 80, 36  # of a terminal, and the lines that the longest takes there


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    """Describe each recorded machine that has one fault and nothing else."""
    found = {}
    for name in NAMES:
        report = diagnose(context_of(name))
        wrong = [item for item in report.findings if item.severity != NOTE and not item.caused_by]
        if len(wrong) == 1:
            found[name] = describe_report(report, snapshot_of(name))
    return found


@pytest.fixture(scope="module")
def lengths(documents: dict[str, Document]) -> dict[str, int]:
    """Count the lines that a pipe gets."""
    return {name: render_text(each).count("\n") for name, each in documents.items()}


def test_no_report_of_one_fault_is_long(lengths: dict[str, int]) -> None:
    assert len(lengths) > 50
    assert {name: lines for name, lines in lengths.items() if lines > GOAL} == {}


def test_a_narrow_terminal_shows_a_report_of_one_fault_on_one_screen_and_a_half(
    documents: dict[str, Document],
) -> None:
    drawn = {
        name: [*lay_out(list_lines(each), COLUMNS, color=False, is_ascii=False)]
        for name, each in documents.items()
    }
    lines = {name: len(rows) for name, rows in drawn.items()}
    assert {name: count for name, count in lines.items() if count > DRAWN} == {}
    assert median(lines.values()) <= GOAL + 2
    wide = {row for rows in drawn.values() for row, _ in rows if len(row) > COLUMNS}
    assert [row for row in wide if "$ " not in row and " " in row.strip()] == []
