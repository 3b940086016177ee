"""`envcheck doctor` proves its verdict by real imports, where and when it may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envcheck import api
from envcheck.cli.group import run
from envcheck.model import UserError
from tests.probes.pythons import make_venv
from tests.probes.test_imports import write_package

pytestmark = pytest.mark.needs("posix")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an environment `env`, whose torch leaves a file where it is imported."""
    site = make_venv(tmp_path / "env")
    code = f"VERSION = '2.8.0'\nopen({str(tmp_path / 'ran')!r}, 'w').close()\n"
    write_package(site, "torch", "2.8.0", code)
    for name in ("ENVCHECK_IMPORT", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(api, "SYSTEM_CONFIG", str(tmp_path / "system.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def doctor(capfd: pytest.CaptureFixture[str], *options: str) -> str:
    capfd.readouterr()
    run(["doctor", "--expect", "cpu", *options])
    return capfd.readouterr().out


def imports_of(document: str) -> Any:
    return json.loads(document)["snapshot"]["facts"]["python"]["imports"]


def test_a_named_environment_is_imported_for_a_person(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "Imports     torch in 0." in doctor(capfd, "--env", "env")
    assert (folder / "ran").exists()


@pytest.mark.parametrize("form", ["json", "junit", "sarif", "github"])
def test_formats_for_programs_import_only_if_asked(
    folder: Path, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    doctor(capfd, "--env", "env", "--format", form)
    assert not (folder / "ran").exists()
    printed = doctor(capfd, "--env", "env", "--format", form, "--import")
    assert (folder / "ran").exists()
    if form == "json":
        assert imports_of(printed)["known"][0]["outcome"] == "passed"


def test_an_active_environment_is_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(folder / "env"))
    doctor(capfd)
    assert (folder / "ran").exists()


@pytest.mark.parametrize("options", [(), ("--import",)])
def test_one_that_was_found_here_is_not(
    folder: Path, options: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "env").rename(folder / ".venv")
    printed = doctor(capfd, *options)
    assert "Imports     not imported: found here; envcheck doctor --env .venv" in printed
    assert not (folder / "ran").exists()
    doctor(capfd, "--env", ".venv")
    assert (folder / "ran").exists()


def test_what_says_no_keeps_the_verdict_of_the_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    said = "Imports     not imported: --no-import, or a setting"
    assert said in doctor(capfd, "--env", "env", "--no-import")
    for name in ("pyproject.toml", "system.toml"):
        (folder / name).write_text("[tool.envcheck]\nimport = false\n")
        assert said in doctor(capfd, "--env", "env")
        (folder / name).write_text("[tool.envcheck]\nexpect = 'cpu'\n")
    monkeypatch.setenv("ENVCHECK_IMPORT", "0")
    assert said in doctor(capfd, "--env", "env")
    assert not (folder / "ran").exists()
    doctor(capfd, "--env", "env", "--import")
    assert (folder / "ran").exists()


def test_a_setting_that_cannot_be_read_is_an_error(folder: Path) -> None:
    (folder / "system.toml").write_text("[tool.envcheck\n")
    with pytest.raises(UserError, match=r"system\.toml: it is not TOML"):
        run(["doctor", "--env", "env"])
    assert not (folder / "ran").exists()


def test_a_death_decides_and_is_explained_by_its_traceback(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    module = next(folder.glob("env/lib/python*/site-packages/torch/__init__.py"))
    module.write_text("import ctypes\nctypes.CDLL('libcudart.so.12')\n")
    printed = doctor(capfd, "--env", "env")
    assert printed.startswith(
        "INCOMPATIBLE  torch 2.8.0 does not import: OSError: libcudart.so.12: cannot open shared"
    )
    assert "(the cause)" in printed
    assert "error: import-failed (the cause)" not in printed
    printed = doctor(capfd, "--env", "env", "-v")
    assert "seen: python.imports: torch 2.8.0: OSError: libcudart.so.12" in printed


def test_the_api_proves_if_asked_and_says_what_it_imports(folder: Path) -> None:
    assert not (folder / "ran").exists()
    heard: list[tuple[str, str, int, int]] = []
    static = api.doctor(env="env", expect="cpu")
    assert not (folder / "ran").exists()
    proven = api.doctor(
        env="env",
        expect="cpu",
        prove=True,
        on_import=lambda report, *told: heard.append((report.verdict, *told)),
    )
    assert heard == [(static.verdict, "torch", 0, 1)]
    assert [test.outcome for test in proven.snapshot.facts.python.imports.value or ()] == ["passed"]


def test_a_saved_proof_is_judged_as_it_was(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    module = next(folder.glob("env/lib/python*/site-packages/torch/__init__.py"))
    module.write_text("raise ImportError('nobody knows this')\n")
    live = doctor(capfd, "--env", "env", "--import", "--format", "json")
    (folder / "report.json").write_text(live)
    saved = doctor(capfd, "--snapshot", "report.json", "--format", "json")
    assert [(item["id"], item["message"]) for item in json.loads(saved)["findings"]] == [
        (item["id"], item["message"]) for item in json.loads(live)["findings"]
    ]
    assert json.loads(saved)["verdict"] == "incompatible"
