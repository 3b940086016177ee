"""`envcheck check` as CI runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.model.snapshot import SCHEMA_VERSION, Snapshot
from envcheck.render.json_report import render_snapshot
from envcheck.rules import Target
from tests.scenarios.machine import Machine, context_of, torch

TABLE = """[tool.envcheck]
requires = ["torch>=2.5"]
expect = "gpu"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder, with a composed machine that fulfils its demands."""
    facts = context_of(Machine(), torch(), target=Target()).facts
    snapshot = Snapshot(SCHEMA_VERSION, "0", "host", "2026-01-01T00:00:00Z", facts)
    (tmp_path / "machine.json").write_text(render_snapshot(snapshot), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(TABLE, encoding="utf-8")
    return tmp_path


def check(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "check", "--snapshot", "machine.json", *options]
    root = str(Path(__file__).parent.parent.parent)
    env = {"PATH": "/bin", "PYTHONPATH": root}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30, cwd=project, env=env)


def add(project: Path, line: str) -> None:
    (project / "pyproject.toml").write_text(TABLE + line + "\n", encoding="utf-8")


def test_a_project_whose_demands_hold(project: Path) -> None:
    done = check(project)
    assert done.returncode == 0, done.stdout
    assert "COMPATIBLE" in done.stdout
    assert done.stderr == ""


def test_a_demand_that_does_not_hold_names_the_file(project: Path) -> None:
    add(project, 'min-driver = "600"')
    done = check(project, "--format", "github")
    assert done.returncode == 1
    assert done.stdout.startswith("::error file=pyproject.toml,title=envcheck driver-too-old (the cause)::The project")


def test_an_ignore_that_ended_is_told(project: Path) -> None:
    rows = 'ignore = [{id = "driver-too-old", reason = "ordered", until = 2020-01-01}]'
    add(project, 'min-driver = "600"\n' + rows)
    done = check(project)
    assert done.returncode == 1
    assert "the ignore of driver-too-old ended on 2020-01-01; it counts again." in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("min-drive = '600'", "did you mean 'min-driver'?"),
        ("requires = []", "not TOML"),
    ],
)
def test_a_mistake_in_the_table_is_a_usage_error(project: Path, line: str, said: str) -> None:
    add(project, line)
    done = check(project, "--format", "json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert document["schema"] == "envcheck/error/1"
    assert document["error"].startswith("pyproject.toml: ")
    assert said in document["error"]


def test_requirements_are_checked_before_the_machine_is_read(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.envcheck]\nrequires = ['tensorflw']\n", encoding="utf-8")
    done = check(project, "--snapshot", "nowhere.json")
    assert done.returncode == 2
    assert "Did you mean tensorflow?" in done.stderr


def test_no_project_file_is_a_usage_error(project: Path) -> None:
    (project / "pyproject.toml").unlink()
    done = check(project)
    assert done.returncode == 2
    assert "cannot read pyproject.toml" in done.stderr
    assert "--config" in done.stderr
