"""`envcheck explain` and `run` within the test's own process: what needs no terminal, signal or pipe of its own."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck import api
from envcheck.cli import explain as follow
from envcheck.cli import run as run_module
from envcheck.cli.group import run
from envcheck.host import log_files
from envcheck.model import UserError

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NOISE = "TF-TRT Warning: Could not find TensorRT"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(f"{NOISE}\n{MISMATCH}\n", encoding="utf-8")
    return path


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(
        log_files, "read_descriptor", lambda _descriptor, _notes: iter([text.encode()])
    )


def test_a_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(log)]) == 1
    assert f"The line that matters: {log}:2" in capsys.readouterr().out


def test_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--format", "json", str(log), str(log)]) == 1
    assert json.loads(capsys.readouterr().out)["read"]["lines"] == 4


@pytest.mark.parametrize(("text", "code"), [(NOISE, 0), (MISMATCH, 1), ("epoch 1", 3)])
def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, code: int
) -> None:
    given(monkeypatch, text)
    assert run(["explain"]) == code


def test_a_terminal_is_asked_to_paste(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    given(monkeypatch, MISMATCH)
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert run(["explain"]) == 1
    assert "Ctrl-D" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["/nowhere/train.log"],
        ["--follow", "/nowhere/train.log"],
        ["--follow", "a", "b"],
        ["--here", "--snapshot", "x"],
        ["--matrix", "/nowhere", "-"],
    ],
)
def test_what_cannot_be_done(arguments: list[str]) -> None:
    with pytest.raises(UserError):
        run(["explain", *arguments])


def test_here_and_a_saved_machine(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "machine.json"
    assert run(["snapshot", "-o", str(machine)]) == 0
    run(["explain", "--here", "--format", "json", str(log)])
    assert json.loads(capsys.readouterr().out)["judged"] == "log and machine"
    run(["explain", "--snapshot", str(machine), "-v", str(log)])
    assert "judged with the machine's facts" in capsys.readouterr().out


def growing(*blocks: str) -> Any:
    def follow_log(_path: str) -> Iterator[bytes]:
        yield from (block.encode() for block in blocks)
        raise KeyboardInterrupt

    return follow_log


def test_following_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[str] = []
    real = follow._CausePrinter.update

    def tell(self: Any, scanner: Any) -> None:
        real(self, scanner)
        found.append(capsys.readouterr().out)

    monkeypatch.setattr(follow._CausePrinter, "update", tell)
    monkeypatch.setattr(
        log_files,
        "follow_log",
        growing("epoch 1\n", "", f"{MISMATCH}\n", f"{NOISE}\n", f"{MISMATCH}\n"),
    )
    assert run(["explain", "--follow", "train.log"]) == 130
    assert [bool(said) for said in found] == [False, False, True, False, False]
    assert found[2].startswith("The line that matters: train.log:2")
    assert "INCOMPATIBLE" in capsys.readouterr().out


def test_following_in_json_is_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, MISMATCH)
    assert run(["explain", "--follow", "--format", "json"]) == 1
    assert capsys.readouterr().out.count("\n") == 1


def failing(text: str, code: int) -> list[str]:
    return [sys.executable, "-c", f"import sys; print({text!r}, file=sys.stderr); sys.exit({code})"]


def test_run_explains_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--", *failing(MISMATCH, 7)]) == 7
    out, err = capfd.readouterr()
    assert out == ""
    assert "envcheck: the command ended with 7." in err
    assert "The line that matters: stderr:1" in err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "x\n"),
        (7, "x\nenvcheck: the command ended with 7; its output holds nothing known."),
        (141, "x\n"),
    ],
)
def test_run_says_nothing_where_there_is_nothing_to_say(
    capfd: pytest.CaptureFixture[str], code: int, said: str
) -> None:
    assert run(["run", *failing("x", code)]) == code
    assert capfd.readouterr().err.startswith(said)


def test_run_without_a_command() -> None:
    with pytest.raises(UserError, match="name the command"):
        run(["run"])


def test_run_of_what_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--", "no-such-command-here"]) == 127
    assert "command not found" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("full"), "could not be explained: full"),
        (KeyboardInterrupt(), "envcheck: interrupted."),
    ],
)
def test_the_status_stays_the_commands_whatever_becomes_of_the_explanation(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: BaseException,
    said: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(api, "log_judge", fail)
    assert run(["run", *failing(MISMATCH, 9)]) == 9
    assert said in capfd.readouterr().err


def test_output_that_could_not_be_watched_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(run_module._OutputScanner, "__call__", fail)
    assert run(["run", *failing(MISMATCH, 9)]) == 9
    assert "not read to its end (ValueError: broken)" in capfd.readouterr().err


def test_a_python_that_cannot_be_inspected_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from envcheck.cli import common as inspect

    asked: list[str] = []

    def live_snapshot(python: str, _env: str) -> Any:
        asked.append(python)
        if python:
            raise UserError("none found there")
        return "snapshot"

    fake = tmp_path / "python3"
    fake.write_text("")
    monkeypatch.setattr(inspect, "live_snapshot", live_snapshot)
    assert run_module._read_machine((os.fspath(fake), "train.py")) == "snapshot"  # type: ignore[comparison-overlap]
    assert asked == [os.fspath(fake), ""]
