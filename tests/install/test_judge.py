"""What of an environment is computed with after an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.cli.install import EnvironmentCheck, _run_smoke_test
from envcheck.cli.smoke import SmokeOptions
from envcheck.model import Plan, PlannedRelease
from envcheck.plan.existing_environment import InstalledFramework
from envcheck.smoke.session import Session


def test_only_what_was_planned_or_stays_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SmokeOptions] = []

    def computed(options: SmokeOptions) -> Session:
        asked.append(options)
        return Session("quick", ())

    monkeypatch.setattr("envcheck.cli.install.run_session", computed)
    release = PlannedRelease("tensorflow", "tensorflow-cpu", "2.12.1", "tensorflow-cpu==2.12.1", "cpu")
    stays = InstalledFramework("torch", "torch", "2.13.0+cpu", "", "torch==2.13.0+cpu", ())
    _run_smoke_test(
        EnvironmentCheck(Plan("cpu", (release,), ()), Path("env"), None, smoke=True, quiet=True, kept=(stays,))
    )
    assert asked[0].frameworks == ("tensorflow", "torch")
