"""Releases judged on one machine share every answer that does not depend on the release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from envcheck.matrix.load import load_matrix
from envcheck.model import ERROR, Absent, Facts, Finding
from envcheck.rules import Context, Target, engine
from envcheck.rules.builds import wanted_releases
from envcheck.rules.context import Rule, once
from envcheck.rules.judgement import ReleaseJudge

RELEASES = ("torch==2.6.0", "torch==2.7.1", "tensorflow==2.15.0")
CPU = Context(Facts(gpus=Absent(("/sys/bus/pci/devices",))), load_matrix(), Target("cpu"))


def test_a_rule_that_reads_no_requirement_is_asked_once_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
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
