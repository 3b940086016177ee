"""Releases judged on one machine share every answer that does not depend on the release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from envcheck.matrix.load import load_matrix
from envcheck.model import ERROR, Absent, Facts, Finding
from envcheck.rules import Context, Target, engine
from envcheck.rules.context import Rule, once
from envcheck.rules.engine import Judgement, ReleaseJudge
from envcheck.rules.matrix_question import Question, RowJudge, find_releases
from envcheck.rules.targets import wanted_releases

RELEASES = ("torch==2.6.0", "torch==2.7.1", "tensorflow==2.15.0")
CPU = Context(Facts(gpus=Absent(("/sys/bus/pci/devices",))), load_matrix(), Target("cpu"))


def test_a_rule_that_reads_no_requirement_is_asked_once_of_a_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[str] = Counter()

    def of_machine(context: Context) -> Iterator[Finding]:
        asked[f"machine, {context.goal}"] += 1
        yield from ()

    def of_release(context: Context) -> Iterator[Finding]:
        asked[wanted_releases(context)[0].text] += 1
        yield from ()

    rules = [
        Rule((name,), ERROR, (), "any", check)
        for name, check in (("glibc-too-old", of_release), ("gpu-absent", of_machine))
    ]
    monkeypatch.setattr(engine, "RULES", rules)
    judge = ReleaseJudge(CPU)
    for text in RELEASES:
        assert judge.judge((text,)).report.checked == ("gpu-absent", "glibc-too-old")
    assert asked == {"machine, cpu": 1, **dict.fromkeys(RELEASES, 1)}


def test_an_answer_that_reads_the_requirements_through_another_is_not_shared() -> None:
    @once
    def name_first(context: Context) -> str:
        return wanted_releases(context)[0].text

    @once
    def describe(context: Context) -> str:
        return f"asked for {name_first(context)}"

    context = CPU.with_requirements(RELEASES[:1])
    other = context.with_requirements(RELEASES[1:2])
    assert [name_first(context), describe(context), describe(other)] == [
        "torch==2.6.0",
        "asked for torch==2.6.0",
        "asked for torch==2.7.1",
    ]


def test_a_question_asks_the_rules_only_about_builds_with_code_for_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[str] = []
    judge = ReleaseJudge.judge

    def count(self: ReleaseJudge, requirements: tuple[str, ...]) -> Judgement:
        judged.extend(requirements)
        return judge(self, requirements)

    monkeypatch.setattr(ReleaseJudge, "judge", count)
    question = Question(python="3.11", driver="570.86", capability="12.0", framework="torch")
    found = {
        f"torch=={item.release.build_version}"
        for item in find_releases(RowJudge(load_matrix(), question))
    }
    assert found
    assert found & set(judged)
    assert len(judged) < len(found)  # releases that are equal but for their names are judged once
    assert "torch==2.6.0" not in judged  # its newest code is for 9.0
    assert "torch==1.13.1+cu117" not in judged
