"""A slow report tells a person what it waits for, and nobody else."""

from __future__ import annotations

import time

import pytest

from envcheck.cli import inspect as progress


class Terminal:
    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self.said = ""

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> None:
        self.said += text

    def flush(self) -> None:
        pass


def said(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, waiting: list[str], seconds: float) -> str:
    stderr = Terminal(is_terminal)
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr(progress, "_PATIENCE", 0.05)
    monkeypatch.setattr("envcheck.host.process.list_running_programs", lambda: waiting)
    with progress.slow_programs():
        time.sleep(seconds)
    return stderr.said


def test_a_terminal_is_told_which_program_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, True, ["/usr/bin/nvidia-smi"], 0.3) == "Waiting for /usr/bin/nvidia-smi ...\n"


def test_nothing_is_said_where_nothing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, True, ["/usr/bin/nvidia-smi"], 0.0) == ""
    assert said(monkeypatch, True, [], 0.3) == ""


def test_a_log_file_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, False, ["/usr/bin/nvidia-smi"], 0.3) == ""
