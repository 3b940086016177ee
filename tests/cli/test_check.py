"""`envcheck check` as CI runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fastjsonschema
import pytest

from envcheck.cli.group import run
from envcheck.host.data_files import read_packaged
from envcheck.model import SCHEMA_VERSION, Snapshot, UserError
from envcheck.render.json_contracts import render_snapshot
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
    is_file = "--dockerfile" in options or options[:1] == ("Dockerfile",)
    machine = () if is_file else ("--snapshot", "machine.json")
    argv = [sys.executable, "-m", "envcheck", "check", *machine, *options]
    root = str(Path(__file__).parent.parent.parent)
    env = {"PATH": "/bin", "PYTHONPATH": root}
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=project, env=env)


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
    assert done.stdout.startswith(
        "::error file=pyproject.toml,title=envcheck driver-too-old (the cause)::The project"
    )


def test_an_ignore_that_ended_is_told(project: Path) -> None:
    rows = 'ignore = [{id = "driver-too-old", reason = "ordered", until = 2020-01-01}]'
    add(project, 'min-driver = "600"\n' + rows)
    done = check(project)
    assert done.returncode == 1
    assert "the ignore of driver-too-old ended on 2020-01-01; it counts again." in done.stderr


def test_the_report_says_the_project_file_and_what_it_ignores(project: Path) -> None:
    rows = [f'{{id = "{name}", reason = "ordered", until = {year}-01-01}}' for name, year in
            (("driver-too-old", 2099), ("env-mixed", 2020))]  # fmt: skip
    add(project, f'min-driver = "600"\nignore = [{", ".join(rows)}]')
    done = check(project, "--format", "json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["project"] == {
        "file": "pyproject.toml",
        "ignored": ["driver-too-old"],
        "expired": ["env-mixed"],
    }
    schema = json.loads(read_packaged("schemas/report.schema.json"))
    fastjsonschema.validate(schema, document)
    assert (
        "note: driver-too-old: Ignored until 2099-01-01 (ordered): The project requires"
        in check(project).stdout
    )


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
    (project / "pyproject.toml").write_text(
        "[tool.envcheck]\nrequires = ['tensorflw']\n", encoding="utf-8"
    )
    done = check(project, "--snapshot", "nowhere.json")
    assert done.returncode == 2
    assert "Did you mean tensorflow?" in done.stderr


def test_no_project_file_is_a_usage_error(project: Path) -> None:
    (project / "pyproject.toml").unlink()
    done = check(project)
    assert done.returncode == 2
    assert "cannot read pyproject.toml" in done.stderr
    assert "--config" in done.stderr


def test_a_dockerfile_is_judged_without_the_machine(tmp_path: Path) -> None:
    text = (
        "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\nRUN pip install -r requirements.txt\n"
    )
    (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("tensorflow==2.10.1\n", encoding="utf-8")
    done = check(tmp_path, "--dockerfile", "Dockerfile", "--format", "github")
    assert done.returncode == 1, done.stderr
    assert (
        "::error file=requirements.txt,line=1,title=envcheck toolkit-wrong-version (the cause)::"
        in done.stdout
    )
    report = json.loads(check(tmp_path, "--dockerfile", "Dockerfile", "--format", "json").stdout)
    assert report["headline"] == (
        "Dockerfile: tensorflow 2.10.1 was built for CUDA 11.2; the image has CUDA 12.4"
        " (1 more problem)."
    )


def test_a_dockerfile_cannot_name_a_file_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("tensorflow-gpu==2.12\n", encoding="utf-8")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("-r ../secret.txt\ntorch==2.4.0\n", encoding="utf-8")
    (folder / "b.txt").symlink_to(tmp_path / "secret.txt")
    done = check(folder, "--dockerfile", "a.txt", "--format", "json")
    assert "tensorflow" not in done.stdout.replace("tensorflow, torch, jax", "")
    (folder / "Dockerfile").write_text(
        "FROM ubuntu:22.04\nRUN pip install -r b.txt\n", encoding="utf-8"
    )
    assert "was not found" in check(folder, "--dockerfile", "Dockerfile").stdout


def test_a_file_of_no_kind_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n", encoding="utf-8")
    done = check(tmp_path, "--dockerfile", "x")
    assert done.returncode == 2
    assert done.stderr == "envcheck: x has no FROM instruction: it is not a Dockerfile\n"


def test_what_is_expected_can_be_named_on_the_command_line(project: Path) -> None:
    """A remedy says `--expect cpu`: the command that prints it accepts it."""
    report = json.loads(check(project, "--expect", "cpu", "--format", "json").stdout)
    assert report["goal"] == "cpu"
    (project / "Dockerfile").write_text(
        "FROM ubuntu:22.04\nRUN pip install torch==2.6.0\n", encoding="utf-8"
    )
    for goal in ("cpu", "gpu"):
        done = check(project, "--dockerfile", "Dockerfile", "--expect", goal, "--format", "json")
        assert json.loads(done.stdout)["goal"] == goal


def test_several_files_are_judged_by_position(tmp_path: Path) -> None:
    """Each by itself, and the worst answer is the exit code."""
    good = "FROM pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime\n"
    (tmp_path / "Dockerfile").write_text(good, encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("tensorflow-gpu==2.12\n", encoding="utf-8")
    (tmp_path / "docs.txt").write_text("sphinx\n", encoding="utf-8")
    all_three = check(tmp_path, "Dockerfile", "requirements.txt", "docs.txt")
    assert all_three.returncode == 1
    starts = [line.split(" ")[0] for line in all_three.stdout.splitlines()]
    verdicts = ["COMPATIBLE", "INCOMPATIBLE", "UNDETERMINED"]
    assert [item for item in starts if item in verdicts] == verdicts
    assert check(tmp_path, "Dockerfile", "docs.txt").returncode == 3
    assert check(tmp_path, "Dockerfile").returncode == 0
    annotated = check(tmp_path, "Dockerfile", "requirements.txt", "--format", "github")
    assert "::error file=requirements.txt,line=1" in annotated.stdout
    refused = check(tmp_path, "Dockerfile", "docs.txt", "--json")
    assert refused.returncode == 2
    assert "--format json writes one document" in refused.stdout


def test_a_folder_is_judged_by_the_files_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"Name the project's file with --config\."):
        run(["check"])
    with pytest.raises(UserError, match=r"\. holds no file of a project: name the file\."):
        run(["check", "."])
    (tmp_path / "requirements.txt").write_text("torch==2.8.0\n")
    with pytest.raises(UserError, match=r"`envcheck check \.` checks what is there"):
        run(["check"])
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\nRUN pip install torch==2.1.0\n")
    assert run(["check", ".", "-q"]) == 1
    printed = capsys.readouterr().out
    assert "COMPATIBLE  requirements.txt has no problem" in printed
    assert "INCOMPATIBLE  Dockerfile: " in printed
