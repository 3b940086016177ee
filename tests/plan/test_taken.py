"""A plan for a new environment, where its folder is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.cli import inspect
from envcheck.cli.group import run
from envcheck.model import Command, Fix, replace
from envcheck.plan.taken import beside_what_is_there, told_of_what_is_there
from tests.hosts.test_hosts import judged, snapshot_of
from tests.plan.machines import A100, machine, planned


@pytest.mark.parametrize("installer", ["pip", "uv", "conda"])
def test_what_was_there_before_is_not_removed(installer: str) -> None:
    plan = planned("tensorflow==2.12.*", on=machine("3.10", "535.104.05", "7.0"), installer=installer, folder="x")
    kept = beside_what_is_there(plan, "x".__eq__)
    assert "rm" in {word for step in plan.steps for word in step.undo}
    assert all(step.undo != ("rm", "-rf", "--", "x") and (step.undo or step.lasting) for step in kept.steps)
    assert [step.undo for step in kept.steps[1:]] == [step.undo for step in plan.steps[1:]]
    (note,) = set(kept.notes) - set(plan.notes)
    assert note.startswith("x is there, ")
    assert ("conda puts" in note) == (installer == "conda")
    assert "`envcheck install 'tensorflow==2.12.*' --env x`" in note
    assert beside_what_is_there(plan, "y".__eq__) == plan


def test_of_two_environments_the_one_that_is_there_is_told_of() -> None:
    plan = planned("tensorflow==2.20.*", "torch==2.13.0", on=A100)
    taken = plan.environments[1].folder
    kept = beside_what_is_there(plan, taken.__eq__)
    assert f"`envcheck install {plan.releases[1].requirement} --env {taken}`" in kept.notes[-1]
    assert [step.environment for step in kept.steps if step.undo[:2] == ("rm", "-rf")] == [plan.environments[0].folder]


def test_the_command_looks_where_the_environment_is_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(inspect, "live_snapshot", lambda *_, **__: snapshot_of("no-gpu-cpu-work"))
    for there in (False, True):
        run(["plan", "torch<2.14", "--expect", "cpu", "-v"])
        assert ("note: .venv is there" in capsys.readouterr().out) == there
        (tmp_path / ".venv").mkdir(exist_ok=True)


@pytest.mark.parametrize(
    "argv",
    [
        ("python3.12", "-m", "venv", ".venv"),
        ("conda", "create", "-y", "-p", ".venv", "--override-channels", "-c", "conda-forge", "python=3.12"),
    ],
)
def test_a_doctors_fix_tells_of_the_folder_that_is_there(argv: tuple[str, ...]) -> None:
    fix = Fix("Install it.", (Command(argv), Command((".venv/bin/python", "-m", "pip", "install", "jax"))))
    report = judged("torch-cpu-beside-gpu")
    report = replace(report, findings=tuple(replace(item, fix=fix) for item in report.findings))
    told = told_of_what_is_there(report, ".venv".__eq__)
    assert told.findings[0].fix == replace(
        fix, summary="Install it. .venv is there already: put another folder in its place."
    )
    assert told_of_what_is_there(report, ".other".__eq__) == report
