"""A baseline leaves out what was found before, word for word, and never what stops an import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck import api
from envcheck.cli.group import run
from envcheck.model import Report, UserError
from envcheck.render.json_contracts import render_snapshot
from tests.hosts.test_hosts import snapshot_of


def saved(folder: Path, machine: str) -> str:
    file = folder / f"{machine}.json"
    file.write_text(render_snapshot(snapshot_of(machine)), encoding="utf-8")
    return str(file)


def judged(machine: str, baseline: Path) -> Report:
    return api.doctor(snapshot=machine, baseline=baseline).report


def written(folder: Path, machine: str) -> Path:
    file = folder / "baseline.toml"
    assert run(["doctor", "--snapshot", machine, "--write-baseline", str(file)]) == 0
    return file


def test_what_a_baseline_holds_is_counted_in_the_headline_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = saved(tmp_path, "torch-cpu-beside-gpu")
    assert run(["doctor", "--snapshot", machine]) == 1
    file = written(tmp_path, machine)
    printed = capsys.readouterr()
    assert f"{file} holds 1 of the findings." in printed.err
    assert "INCOMPATIBLE" in printed.out  # nothing is hidden when it is written
    assert '"framework-cpu-build: torch 2.8.0+cpu is a CPU-only build' in file.read_text("utf-8")
    assert run(["doctor", "--snapshot", machine, "--baseline", str(file)]) == 0
    printed = capsys.readouterr()
    assert "1 finding is ignored." in printed.out.splitlines()[0]
    assert "Type this" not in printed.out
    assert judged(machine, file).steps == ()


def test_a_finding_that_says_something_else_is_new(tmp_path: Path) -> None:
    machine = saved(tmp_path, "torch-cpu-beside-gpu")
    file = written(tmp_path, machine)
    file.write_text(file.read_text("utf-8").replace("2.8.0", "2.7.0"), encoding="utf-8")
    report = judged(machine, file)
    assert (report.verdict, report.findings[0].id) == ("incompatible", "framework-cpu-build")
    assert "ignored" not in report.headline


@pytest.mark.needs("posix")
def test_what_stops_an_import_is_in_no_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = saved(tmp_path, "jax-with-an-invalid-variable")
    file = written(tmp_path, machine)
    assert f"environment-variable is not in {file}: it stops an import." in capsys.readouterr().err
    row = json.dumps(f"environment-variable: {judged(machine, file).findings[0].message}")
    file.write_text(f"[tool.envcheck]\nignore = [{row}]\n", encoding="utf-8")
    assert judged(machine, file).verdict == "incompatible"


def test_a_baseline_is_written_of_all_that_is_found() -> None:
    with pytest.raises(UserError, match="leave out --baseline"):
        run(["doctor", "--baseline", "a.toml", "--write-baseline", "b.toml"])


@pytest.mark.parametrize("text", ["", "[tool.envcheck]\nignore = ['no-such-id: x']\n", "\0"])
def test_a_file_that_is_no_baseline_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "baseline.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"baseline\.toml: "):
        judged(saved(tmp_path, "no-gpu-auto"), file)
