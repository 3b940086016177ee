"""Output that a program prints just before it exits is never lost, even under load."""

from __future__ import annotations

import subprocess
import tempfile

import pytest

from envcheck.host.process import run_lines, run_program
from tests.patience import PATIENCE

LATE = ["sh", "-c", "sleep 0.3; echo answer"]
PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program exit just before this process polls it."""
    poll = subprocess.Popen.poll

    def late(process: subprocess.Popen[bytes]) -> int | None:
        process.wait(PATIENCE)
        return poll(process)

    monkeypatch.setattr(subprocess.Popen, "poll", late)


@pytest.mark.needs("posix")
def test_run_program_keeps_final_output() -> None:
    done = run_program(LATE, PATIENCE, PATH)
    assert done.value is not None
    assert done.value.stdout == "answer\n"


@pytest.mark.needs("posix")
def test_run_lines_keeps_final_output() -> None:
    lines: list[str] = []
    with tempfile.TemporaryFile() as log:
        run_lines(LATE, PATH, lines.append, log=log, seconds=PATIENCE)
    assert lines == ["answer"]
