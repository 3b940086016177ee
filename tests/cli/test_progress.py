"""A slow report tells a person what it waits for, and nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from envcheck.cli import common as progress


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


class Timer:
    """A timer whose time is up when the test says so."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        assert seconds > 0
        self.work = work
        self.runs = False
        TIMERS.append(self)

    def start(self) -> None:
        self.runs = True

    def cancel(self) -> None:
        self.runs = False


TIMERS: list[Timer] = []


def said(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, waiting: list[str], *, is_slow: bool = True) -> str:
    TIMERS.clear()
    stderr = Terminal(is_terminal)
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr("envcheck.cli.common.threading.Timer", Timer)
    monkeypatch.setattr("envcheck.cli.common.list_running_programs", lambda: waiting)
    with progress.slow_programs():
        for timer in TIMERS:
            if is_slow and timer.runs:
                timer.work()
    assert not any(timer.runs for timer in TIMERS)
    return stderr.said


def test_a_terminal_is_told_which_program_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, True, ["/usr/bin/nvidia-smi"]) == "Waiting for /usr/bin/nvidia-smi ...\n"


def test_nothing_is_said_where_nothing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, True, ["/usr/bin/nvidia-smi"], is_slow=False) == ""
    assert said(monkeypatch, True, []) == ""


def test_a_log_file_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, False, ["/usr/bin/nvidia-smi"]) == ""
    assert TIMERS == []
