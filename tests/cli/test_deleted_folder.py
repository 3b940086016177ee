"""The working folder was deleted: a command works all the same, or says in a sentence that it needs one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.cli import mcp
from envcheck.model import UserError
from tests.cli.test_doctor import ROOT

pytestmark = pytest.mark.needs("posix")
GONE = "the working folder no longer exists"
DESCRIBED = "--python 3.11 --driver 550.54 --gpu L4 --platform linux_x86_64"


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder that was deleted."""
    folder = tmp_path / "folder"
    folder.mkdir()
    delete = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(folder)]
    command = [*delete, sys.executable, "-m", "envcheck", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert not folder.exists()
    assert "nternal error" not in done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize(
    "line",
    [
        "doctor --expect cpu",
        "plan torch",
        f"plan torch {DESCRIBED}",
        "check --config {config}",
        "check --config {config} --dockerfile {file}",
        "explain {log}",
        "gpus",
        "matrix show torch",
        "snapshot -o {made}",
        "smoke --framework driver",
        "completion bash",
        "run -- true",
        "--help",
    ],
)
def test_what_needs_no_folder_works(line: str, tmp_path: Path) -> None:
    files = {
        "config": "envcheck.toml",
        "file": "Dockerfile",
        "log": "train.log",
        "made": "made.json",
    }
    names = {name: tmp_path / file for name, file in files.items()}
    names["file"].write_text(
        "FROM python:3.11\nCOPY r.txt .\nRUN pip install -r r.txt\n", encoding="utf-8"
    )
    (tmp_path / "r.txt").write_text("torch==2.4.0\n", encoding="utf-8")
    names["config"].write_text("[tool.envcheck]\nrequires = ['torch']\n", encoding="utf-8")
    names["log"].write_text("epoch 1\n", encoding="utf-8")
    done = run(tmp_path, *line.format(**names).split())
    assert done.returncode in (0, 1, 3), done.stderr
    assert GONE not in done.stderr
    assert names["made"].exists() == ("snapshot" in line)
    assert ("torch 2.4.0" in done.stdout) == ("--dockerfile" in line)


@pytest.mark.parametrize(
    "line",
    [
        "check",
        "check --dockerfile Dockerfile",
        "diff a.json b.json",
        "doctor --env ./env",
        "explain train.log",
        "install torch --dry-run --as-root",
        "install torch --dry-run --as-root --env env",
        "install torch --dry-run --as-root --env {env}",
        "snapshot -o made.json",
    ],
)
def test_what_needs_the_folder_says_so(line: str, tmp_path: Path) -> None:
    done = run(tmp_path, *line.format(env=tmp_path / "env").split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("envcheck: ")
    assert GONE in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_agent_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    (tmp_path / "folder").rmdir()
    assert mcp.answer("matrix", requirement="cuda==12.4")["verdict"] == "compatible"
    assert (
        mcp.answer(
            "plan", requirements=["torch"], python="3.11", platform="linux_x86_64", expect="cpu"
        )["verdict"]
        == "compatible"
    )
    with pytest.raises(UserError, match=GONE):
        mcp.answer("check", file="Dockerfile")
