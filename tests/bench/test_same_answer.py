"""The bench that puts one situation to machine, snapshot, file and log: it runs, and its tables are whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench import same_answer, situation_machine, situation_texts, situations
from envcheck import model
from envcheck.model.fixes import InstallDriver

COUNT = 10


def test_machine_and_snapshot_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = same_answer.run(COUNT, 1, tmp_path)
    assert figures.counts["machine", "put"] == COUNT
    assert figures.counts["snapshot", "put"] == figures.counts["snapshot", "agree"] == COUNT
    assert figures.counts["snapshot", "same commands"] == COUNT
    assert not [key for key in figures.classes if key[0] in {"snapshot", "command"}]
    for witness in same_answer.WITNESSES:
        parts = (figures.counts[witness, part] for part in ("agree", "left open", "disagree"))
        assert sum(parts) == figures.counts[witness, "put"]
    assert set(figures.examples) == set(figures.classes)
    figures.print()
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert [line.split("|")[1].strip() for line in lines[2:5]] == list(same_answer.WITNESSES)
    assert {line.count("|") for line in lines[:5]} == {9}
    assert len(lines) == 7 + len(figures.classes)


def test_a_situation_is_drawn_again_alike() -> None:
    for number in range(COUNT):
        first, second = (situations.draw(number, random.Random(number)) for _ in range(2))
        assert situation_machine.machine(first) == situation_machine.machine(second)
        assert situation_texts.write_file(first) == situation_texts.write_file(second)
        assert situation_texts.write_log(first) == situation_texts.write_log(second)


def answer(verdict: str, *ids: str, cure: model.Fix | str = "") -> same_answer.Answer:
    return same_answer.Answer(verdict, frozenset(ids), cure, ())


@pytest.mark.parametrize(
    ("witness", "is_stated", "states_all", "kind"),
    [
        (answer("incompatible", "a", "b", cure=model.Advise("x")), True, True, ""),
        (answer("incompatible", "a"), True, False, ""),
        (answer("incompatible", "a"), True, True, "other ids"),
        (answer("incompatible", "c"), False, False, "other ids, without what decides"),
        (answer("compatible"), True, False, "other verdict"),
        (answer("compatible"), False, False, "other verdict, without what decides"),
        (answer("undetermined"), False, False, ""),
        (answer("undetermined"), True, False, "undetermined though stated"),
        (
            answer("incompatible", "a", "b", cure=model.Advise("y")),
            True,
            True,
            "other typed remedy",
        ),
        (
            answer("incompatible", "a", "b", cure="x"),
            True,
            True,
            "other remedy, not typed on both sides",
        ),
    ],
)
def test_kinds(witness: same_answer.Answer, is_stated: bool, states_all: bool, kind: str) -> None:
    machine = answer("incompatible", "a", "b", cure=model.Advise("x"))
    put = same_answer.compare(machine, witness, is_stated=is_stated, states_all=states_all)
    assert put.disagreement == kind


@pytest.mark.parametrize(
    ("cure", "states_all", "kind"),
    [
        (InstallDriver(framework="torch"), False, ""),
        (InstallDriver(framework="torch"), True, "other typed remedy"),
        (InstallDriver("470", framework="torch"), False, "other typed remedy"),
    ],
)
def test_values_that_are_not_stated_may_be_left_open(
    cure: model.Fix, states_all: bool, kind: str
) -> None:
    machine, witness = (
        answer("incompatible", "a", cure=item)
        for item in (InstallDriver("525", framework="torch"), cure)
    )
    assert (
        same_answer.compare(machine, witness, is_stated=True, states_all=states_all).disagreement
        == kind
    )


@pytest.mark.parametrize(("is_stated", "kind"), [(False, ""), (True, "other ids")])
def test_a_cause_that_fits_as_well_is_left_open(is_stated: bool, kind: str) -> None:
    machine, witness = (answer("incompatible", name, cure=model.Advise("x")) for name in ("a", "b"))
    witness = model.replace(witness, also=frozenset({"a"}))
    put = same_answer.compare(machine, witness, is_stated=is_stated, states_all=False)
    assert (put.disagreement, put.is_open) == (kind, not kind)
