"""What of an environment is computed with after an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck import api
from envcheck.install import judgement
from envcheck.install.judgement import PlannedEnvironment
from envcheck.model import Environment, Plan, PlannedRelease, replace
from envcheck.plan.build import InstalledFramework
from tests.hosts.test_hosts import snapshot_of


def test_only_what_was_planned_or_stays_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[str, ...], str]] = []

    def compute(folder: str, frameworks: tuple[str, ...], goal: str) -> str:
        asked.append((folder, frameworks, goal))
        return "the sum is wrong"

    release = PlannedRelease(
        "tensorflow", "tensorflow-cpu", "2.12.1", "tensorflow-cpu==2.12.1", "cpu"
    )
    stays = InstalledFramework("torch", "torch", "2.13.0+cpu", "", "torch==2.13.0+cpu", ())
    made = Environment("env", "pip", "3.11", "linux_x86_64")
    monkeypatch.setattr(judgement, "_list_missing", lambda *_: [])
    doctor = replace(api.make_doctor("cpu"), read=lambda *_: snapshot_of("no-gpu-cpu-work"))
    wanted = PlannedEnvironment(
        Path("env"), Plan("cpu", (release,), (), environments=(made,)), doctor, kept=(stays,)
    )
    assert replace(wanted, smoke=compute).judge() == "the sum is wrong"
    assert asked == [("env", ("tensorflow", "torch"), "cpu")]
