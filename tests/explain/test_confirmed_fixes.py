"""The fix that a report's thread confirms is among what is printed first."""

from __future__ import annotations

from tests.cases.answers import FIRST, answers, grade
from tests.cases.judged import Judged, judged_cases


def graded() -> dict[str, str]:
    return {item.case["id"]: grade(item, answers()[item.case["id"]]) for item in reports()}


def reports() -> tuple[Judged, ...]:
    return judged_cases("reported")


def test_every_report_has_its_confirmed_fix() -> None:
    assert set(answers()) == {item.case["id"] for item in reports()}


def test_the_confirmed_fix_is_printed_first_in_most_reports() -> None:
    places = graded()
    assert sum(place == FIRST for place in places.values()) >= SHARE * len(places)


SHARE = 0.85
