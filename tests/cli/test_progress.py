"""A slow report tells a person what it waits for, and nobody else."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing

import pytest

from envcheck.cli import common as progress


class Terminal(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


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


def said(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, waiting: list[str], *, is_slow: bool = True
) -> str:
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
    return stderr.getvalue()


@pytest.fixture(autouse=True)
def somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")


def test_a_terminal_is_told_which_program_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        said(monkeypatch, True, ["/usr/bin/nvidia-smi"])
        == "\r\x1b[KWaiting for /usr/bin/nvidia-smi ... (0 s)\r\x1b[K"
    )


def test_nothing_is_said_where_nothing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, True, ["/usr/bin/nvidia-smi"], is_slow=False) == ""
    assert said(monkeypatch, True, []) == ""


def test_a_log_file_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, False, ["/usr/bin/nvidia-smi"]) == ""
    assert TIMERS == []


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool = True, quiet: bool = False) -> str:
    """Return what a terminal receives of one part of four and a line above."""
    stderr = Terminal(is_terminal)
    monkeypatch.setattr("sys.stderr", stderr)
    with closing(progress.ProgressLine(quiet=quiet, total=4)) as line:
        line.show("copying " + "a" * 90, 1)
        line.print("copied \x1b[31ma")
    return stderr.getvalue()


def test_the_bar_is_the_last_line_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = "\r\x1b[K###----------- 1/4 copying " + "a" * 26 + " (0 s)"
    assert shown(monkeypatch) == f"{bar}\r\x1b[Kcopied \ufffd[31ma\n{bar}\r\x1b[K"


def test_no_bar_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (10, 20, 40, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        rows = shown(monkeypatch).replace("\r\x1b[K", "\n").split("\n")
        assert max(len(row) for row in rows if "copied" not in row) < columns


@pytest.mark.parametrize("variables", [{"CI": "true"}, {"TERM": "dumb"}])
def test_no_bar_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    assert "1/4" not in shown(monkeypatch, is_terminal=False)
    assert "1/4" not in shown(monkeypatch, quiet=True)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert "1/4" not in shown(monkeypatch)
