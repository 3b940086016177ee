"""On a terminal nothing is wider than it; piped, each thing is one line that a program finds whole."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.fleet.results import HostResult, write_result
from envcheck.render.text import LOOKS
from tests.fleet.made import make
from tests.hosts.test_hosts import snapshot_of


class Terminal(io.StringIO):
    """Takes text as a terminal would."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make(Path("out"))
    write_result(folder, HostResult("a-host-whose-name-is-long." * 4, snapshot_of("no-driver")))


MARKS = {each for look in LOOKS.values() for each in look[:2]}
COMMANDS = {
    "report": ["fleet", "report", "out", "--golden", "gpu001", "--for", "torch==2.6.0"],
    "every host": ["fleet", "report", "out", "-v"],
    "diff": ["diff", "out/gpu001.json", "out/gpu003.json", "--for", "torch==2.6.0", "-v"],
    "doctor": ["doctor", "--snapshot", "out/gpu003.json", "--for", "torch==2.6.0"],
}


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_lines_fit_the_terminal_and_lose_nothing(
    command: str,
    width: int,
    machines: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(COMMANDS[command])
    plain = capsys.readouterr().out
    Path("out", "history.sqlite").unlink(missing_ok=True)  # a second report says since when
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    run([*COMMANDS[command], "--color", "never"])
    lines = terminal.getvalue().splitlines()
    assert [line for line in lines if len(line) > width and "$ " not in line] == []
    unmarked = [line[2:] if line[:2].rstrip() in MARKS else line for line in lines]
    assert "".join("".join(unmarked).split()) == "".join(plain.split())
    assert max(len(line) for line in plain.splitlines()) > 80


def test_names_are_not_broken_at_their_hyphens(
    machines: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    run(
        [
            "diff",
            "out/gpu001.json",
            "out/gpu003.json",
            "--for",
            "torch==2.6.0",
            "-v",
            "--color",
            "never",
        ]
    )
    assert "driver-too-old" in terminal.getvalue()
    assert [
        line for line in terminal.getvalue().splitlines() if line.endswith(("driver-", "too-"))
    ] == []
