"""`check` proposes what the planner chooses, and nothing that the project does not admit."""

from __future__ import annotations

from datetime import date

from envcheck.check.config import Config
from envcheck.check.judge import judge_project
from envcheck.diagnosis import diagnose
from envcheck.model import Facts, Report
from envcheck.rules import Context, Target
from tests.diagnosis.test_planned import with_python
from tests.hosts.test_hosts import matrix, snapshot_of
from tests.rules.factory_machine import NONE
from tests.typed import argv, judged

TODAY = date(2026, 11, 21)


def gated(facts: Facts, *requires: str) -> Report:
    config = Config(requires, "gpu")
    context = Context(facts, matrix(), Target(config.expect, config.requires))
    return judge_project(context, config, "pyproject.toml", TODAY)


def commands(report: Report) -> list[str]:
    fix = report.findings[0].fix
    return [" ".join(argv(command)[1:]) for command in fix.actions] if fix else []


def test_what_is_wrong_is_mended_as_the_doctor_mends_it() -> None:
    facts = snapshot_of("torch-cpu-beside-gpu").facts
    context = Context(facts, matrix(), Target("gpu"))
    report, told = gated(facts, "torch>=2.5"), diagnose(context)
    assert report.findings[0].fix == told.findings[0].fix
    assert commands(report)[-1] == "-m pip install --only-binary=:all: torch==2.8.0"


def test_no_release_is_proposed_that_the_project_does_not_admit() -> None:
    facts = snapshot_of("reported-torch-1.3-driver-410").facts
    (free, *_), (strict, *_) = (
        gated(facts, "torch>=1.0").findings,
        gated(facts, "torch>=1.3").findings,
    )
    assert free.id == strict.id == "driver-too-old"
    assert free.fix is not None
    assert "Install torch==1.2.0 and its dependencies" in free.fix.summary
    context = Context(facts, matrix(), Target("gpu"))
    assert strict.fix == judged(context).findings[0].fix, (
        "no plan: the remedy of the machine itself"
    )


def test_what_is_missing_is_planned_for_together() -> None:
    facts = with_python("torch-cpu-beside-gpu", frameworks=NONE, distributions=NONE)
    report = gated(facts, "torch>=2.5", "jax>=0.4 ; python_version > '3'")
    first, second = (item.fix for item in report.findings if item.id == "framework-missing")
    assert first == second
    assert first is not None
    assert "as `envcheck plan 'torch>=2.5' 'jax>=0.4'` selects" in first.summary
    assert any("torch==" in word for command in first.actions for word in argv(command))
