"""What a program prints just before it ends is never lost, however busy the machine is."""

from __future__ import annotations

import subprocess
import tempfile

import pytest

from envcheck.host.process import run_program
from envcheck.host.steps import run_streaming
from envcheck.model import Known
from tests.patience import PATIENCE

LATE = ["sh", "-c", "sleep 0.3; echo answer"]
PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program end while this process is about to look whether it has."""
    poll = subprocess.Popen.poll

    def late(process: subprocess.Popen[bytes]) -> int | None:
        process.wait(PATIENCE)
        return poll(process)

    monkeypatch.setattr(subprocess.Popen, "poll", late)


@pytest.mark.needs("posix")
def test_of_a_program_that_is_run() -> None:
    done = run_program(LATE, PATIENCE, PATH)
    assert isinstance(done, Known)
    assert done.value.stdout == "answer\n"


@pytest.mark.needs("posix")
def test_of_a_program_that_is_listened_to() -> None:
    heard: list[str] = []
    with tempfile.TemporaryFile() as log:
        run_streaming(LATE, PATH, heard.append, log=log, seconds=PATIENCE)
    assert heard == ["answer"]
