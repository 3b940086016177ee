"""Labelled logs end in their confirmed cause, and harmless ones raise no error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.judged import FOLDER, NOISE, UNDETERMINED, judge, read_cases

REPORTED = list(read_cases(FOLDER / "reported.jsonl"))
COMPOSED = list(read_cases(FOLDER / "composed.jsonl"))
# What the report itself calls undecidable, and one whose facts leave out the release of torch.
UNDECIDED = {"pytorch-27738-b", "jax-21950", "pytorch-168065"}


@pytest.mark.parametrize("case", [*REPORTED, *COMPOSED], ids=lambda case: str(case["id"]))
def test_a_log_ends_in_its_cause(case: dict[str, Any]) -> None:
    judged = judge(case)
    if case["id"] in UNDECIDED:
        assert judged.primary != NOISE
        return
    assert judged.is_lenient, judged.primary


@pytest.mark.parametrize("case", [c for c in [*REPORTED, *COMPOSED] if c["root_cause"] == NOISE], ids=lambda c: c["id"])
def test_a_harmless_log_raises_no_error(case: dict[str, Any]) -> None:
    judged = judge(case)
    assert judged.primary in (NOISE, UNDETERMINED)
    assert not judged.raises_error


def test_the_log_decides_in_95_of_100() -> None:
    by_log = [judge(case) for case in REPORTED if case["decidable_from"] == "log"]
    assert sum(item.is_lenient for item in by_log) >= 0.95 * len(by_log)


def test_cases_hold_machine_output_and_facts_only() -> None:
    for case in REPORTED:
        assert set(case) <= {"id", "origin", "url", "era", "framework", "facts", "log", "root_cause",
                             "also_acceptable", "decidable_from", "log_normalised"}  # fmt: skip
        assert "notes" not in case["facts"]
    assert all(case["origin"] == "composed" and case["source"] for case in COMPOSED)


def test_enough_is_composed() -> None:
    assert len([case for case in COMPOSED if case["root_cause"] == NOISE]) >= 25
    assert len(COMPOSED) >= 60
