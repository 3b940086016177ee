"""A report of one fault is read at a glance: what is wrong, what to type, and the machine."""

from __future__ import annotations

import pytest

from envcheck.diagnosis import diagnose
from envcheck.model import NOTE
from envcheck.render.report import describe_report
from envcheck.render.text import render_text
from tests.hosts.test_hosts import NAMES, context_of, snapshot_of

GOAL, LONGEST = 20, 28  # lines


@pytest.fixture(scope="module")
def lengths() -> dict[str, int]:
    """Count the lines of each recorded machine that has one fault and nothing else."""
    found = {}
    for name in NAMES:
        report = diagnose(context_of(name))
        wrong = [item for item in report.findings if item.severity != NOTE and not item.caused_by]
        if len(wrong) == 1:
            text = render_text(describe_report(report, snapshot_of(name)))
            found[name] = text.count("\n")
    return found


def test_no_report_of_one_fault_is_long(lengths: dict[str, int]) -> None:
    assert len(lengths) > 50
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_most_reports_of_one_fault_reach_the_goal(lengths: dict[str, int]) -> None:
    short = [name for name, lines in lengths.items() if lines <= GOAL]
    assert len(short) >= 0.7 * len(lengths)
