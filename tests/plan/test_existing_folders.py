"""A plan for a new environment, where its folder is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck import api
from envcheck.cli.group import run
from envcheck.plan.steps import use_free_folders
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import A100, machine, planned


def test_of_two_environments_the_note_names_the_one_that_is_there() -> None:
    plan = planned("tensorflow==2.20.*", "torch==2.13.0", on=A100)
    taken = plan.environments[1].folder
    moved = use_free_folders(plan, {taken, f"{taken}/pyvenv.cfg"}.__contains__)
    assert f"`envcheck install {plan.releases[1].requirement} --env {taken}`" in moved.notes[-1]
    assert [made.folder for made in moved.environments] == [
        plan.environments[0].folder,
        f"{taken}-2",
    ]


@pytest.mark.parametrize("installer", ["pip", "uv", "conda"])
def test_a_folder_that_is_there_is_left_alone(installer: str) -> None:
    plan = planned(
        "tensorflow==2.12.*", on=machine("3.10", "535.104.05", "7.0"), installer=installer
    )
    folder = plan.environments[0].folder
    mark = "conda-meta" if installer == "conda" else "pyvenv.cfg"
    there = {folder, f"{folder}-2", f"{folder}/{mark}"}
    moved = use_free_folders(plan, there.__contains__)
    elsewhere = planned(
        "tensorflow==2.12.*",
        on=machine("3.10", "535.104.05", "7.0"),
        installer=installer,
        folder=f"{folder}-3",
    )
    assert (moved.steps, moved.environments) == (elsewhere.steps, elsewhere.environments)
    note = f"{folder} exists and stays as it is: these steps make {folder}-3."
    assert moved.notes[-1].startswith(f"{note} `envcheck install ")
    without = use_free_folders(plan, {folder, f"{folder}-2"}.__contains__)
    assert without.notes[-1] == note  # nothing there can be updated
    assert use_free_folders(plan, "y".__eq__) == plan


def test_the_command_looks_where_the_environment_is_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "read_machine", lambda *_, **__: snapshot_of("no-gpu-cpu-work"))
    for there, named in ((False, ()), (True, ()), (True, ("--env", ".venv"))):
        run(["plan", "torch<2.14", "--expect", "cpu", "-v", *named])
        printed = capsys.readouterr().out
        assert ("note: .venv exists" in printed) == there
        assert (" -m venv .venv\n" in printed) != there
        (tmp_path / ".venv").mkdir(exist_ok=True)


@pytest.mark.needs("posix")
def test_the_plan_names_a_python_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, shims = tmp_path / "versions" / "3.7.16" / "bin", tmp_path / "shims"
    for path, text in ((kept / "python", "echo 3.7"), (shims / "python3.7", "exit 127")):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{shims}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    assert run(["plan", "tensorflow-cpu==2.11.0", "--python", "3.7", "--gpu", "none"]) == 0
    assert f"$ {kept / 'python'} -m venv .venv\n" in capsys.readouterr().out
