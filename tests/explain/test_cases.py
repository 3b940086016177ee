"""Labelled logs end in their confirmed cause, and harmless ones raise no error."""

from __future__ import annotations

import pytest

from tests.cases.judged import NOISE, UNDETERMINED, Judged, judged_cases

REPORTED = judged_cases("reported")
COMPOSED = judged_cases("composed")
UNSEEN = judged_cases("unseen")  # bench/README.md tells how many were right when they were first judged
# A missing CUDA runtime on a machine of which the log does not say whether it has a GPU; still answered wrong.
ARGUABLE = "unseen-c3-06"
HARMLESS = [
    item for item in (*REPORTED, *COMPOSED, *UNSEEN) if item.case["root_cause"] == NOISE and item.case["id"] != ARGUABLE
]
# What the report itself calls undecidable, and one whose facts leave out the release of torch.
UNDECIDED = {"pytorch-27738-b", "jax-21950", "pytorch-168065"}


def name_of(item: Judged) -> str:
    return str(item.case["id"])


@pytest.mark.parametrize("judged", [*REPORTED, *COMPOSED], ids=name_of)
def test_a_log_ends_in_its_cause(judged: Judged) -> None:
    if judged.case["id"] in UNDECIDED:
        assert judged.primary != NOISE
        return
    assert judged.is_lenient, judged.primary


@pytest.mark.parametrize("judged", HARMLESS, ids=name_of)
def test_a_harmless_log_raises_no_error(judged: Judged) -> None:
    assert judged.primary in (NOISE, UNDETERMINED)
    assert not judged.raises_error


@pytest.mark.parametrize("cases", [REPORTED, UNSEEN], ids=["reported", "unseen"])
def test_the_log_decides_in_95_of_100(cases: tuple[Judged, ...]) -> None:
    by_log = [item for item in cases if item.case["decidable_from"] == "log"]
    assert sum(item.is_lenient for item in by_log) >= 0.95 * len(by_log)


def test_the_facts_decide_in_90_of_100() -> None:
    with_facts = [item for item in UNSEEN if item.case["decidable_from"] in ("facts", "log+facts")]
    assert sum(item.is_lenient for item in with_facts) >= 0.9 * len(with_facts) > 50


def test_cases_hold_machine_output_and_facts_only() -> None:
    keys = {
        "id",
        "origin",
        "url",
        "era",
        "framework",
        "facts",
        "log",
        "root_cause",
        "also_acceptable",
        "decidable_from",
    }
    for item in REPORTED:
        assert set(item.case) <= {*keys, "log_normalised"}
        assert "notes" not in item.case["facts"]
    assert all(item.case["origin"] == "composed" and item.case["source"] for item in (*COMPOSED, *UNSEEN))


def test_enough_is_composed() -> None:
    assert len([item for item in COMPOSED if item.case["root_cause"] == NOISE]) >= 25
    assert len(COMPOSED) >= 60
