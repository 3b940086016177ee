"""What is printed to be typed starts this program again, however it was installed and started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.actions import program, shell_line, type_here
from envcheck.actions.program import program_words

ENVCHECK = Path(sys.executable).parent / "envcheck"


@pytest.fixture(autouse=True)
def _ask_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "program_words", program_words.__wrapped__)
    monkeypatch.setattr("envcheck.actions.shells.program_words", program_words.__wrapped__)
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    monkeypatch.setenv("HOME", "/no/home")


def started(monkeypatch: pytest.MonkeyPatch, path: Path | str, on_path: Path | None = None) -> str:
    monkeypatch.setattr(sys, "argv", [str(path), "doctor"])
    monkeypatch.setenv("PATH", str(on_path.parent) if on_path else "/nowhere")
    return type_here("envcheck", "fix", "--env", "my env")


def linked(folder: Path, target: Path) -> Path:
    (folder / "envcheck").symlink_to(target)
    return folder / "envcheck"


def script(folder: Path) -> Path:
    path = folder / ".envcheck" / "bin" / "envcheck"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_where_path_leads_to_it_its_name_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path)
    assert started(monkeypatch, path, linked(tmp_path, path)) == "envcheck fix --env 'my env'"


def test_the_readmes_environment_is_typed_from_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = script(tmp_path)
    assert started(monkeypatch, path) == "~/.envcheck/bin/envcheck fix --env 'my env'"


def test_another_envcheck_on_path_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other, path = script(tmp_path / "other"), script(tmp_path)
    assert started(monkeypatch, path, other) == f"{path} fix --env 'my env'"


def test_what_uv_put_on_path_for_one_run_is_not_there_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path)
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    assert started(monkeypatch, path, path) == f"{path} fix --env 'my env'"


def test_a_program_that_imports_it_names_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert started(monkeypatch, "/srv/train.py") == (
        f"{sys.executable} -m envcheck fix --env 'my env'"
    )
    assert started(monkeypatch, "/srv/train.py", linked(tmp_path, ENVCHECK)).startswith("envcheck")


def test_the_single_file_is_started_by_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = tmp_path / "envcheck.pyz"
    single.write_bytes(b"PK")
    monkeypatch.setattr(program, "__file__", str(single / "envcheck" / "actions" / "program.py"))
    assert started(monkeypatch, single) == f"{sys.executable} {single} fix --env 'my env'"


def test_a_command_for_another_system_is_not_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/e/envcheck"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert shell_line(("envcheck", "fix"), "windows") == "envcheck fix"


@pytest.mark.needs("sh")
def test_what_is_printed_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    line = started(monkeypatch, "/srv/train.py").replace("fix --env 'my env'", "--version")
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("envcheck")) == (0, True)


def test_uv_is_the_one_beside_this_program_where_path_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envcheck.actions.shells.uv_word", program.uv_word.__wrapped__)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "own" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert type_here("uv", "venv") == "uv venv"
    for folder in (tmp_path / "own" / "bin", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
        (folder / "uv").write_text("#!/bin/sh\n")
        (folder / "uv").chmod(0o755)
    assert type_here("uv", "venv") == "~/own/bin/uv venv"
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    assert type_here("uv", "venv") == "uv venv"
