"""Programs held together on Windows: a stand-in for its kernel says what was asked of it. Run for real under Wine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from envcheck.host import process as programs
from envcheck.host import windows as windows_jobs
from envcheck.host.windows import Job
from tests.patience import PATIENCE


class Kernel:
    """A stand-in for kernel32: answers every call, and remembers it."""

    def __init__(self, refuses: str = "") -> None:
        self.asked: list[str] = []
        for name in ("CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject", "TerminateJobObject"):
            setattr(self, name, self._call(name, 0 if name == refuses else 1 << 40))
        self.CloseHandle = self._call("CloseHandle", 1)

    def _call(self, name: str, answer: int) -> Any:
        def call(*_: object) -> int:
            self.asked.append(name)
            return answer

        return call


@contextlib.contextmanager
def windows(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> Iterator[None]:
    monkeypatch.setattr(ctypes, "WinDLL", lambda *_, **__: kernel, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: 5, raising=False)
    monkeypatch.setattr(programs, "os", SimpleNamespace(name="nt", path=os.path))
    yield


def started() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    vars(process)["_handle"] = 7
    return process


def test_the_limits_are_as_large_as_windows_takes_them() -> None:
    assert ctypes.sizeof(windows_jobs._Limits) == (144 if ctypes.sizeof(ctypes.c_void_p) == 8 else 112)
    assert windows_jobs._Limits.flags.offset == 16


def test_what_a_program_left_behind_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    with windows(monkeypatch, kernel), programs.tracked(started) as process:
        assert kernel.asked == ["CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject"]
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)
    assert kernel.asked[3:] == ["CloseHandle"]
    assert not programs._jobs


def test_a_program_that_is_ended_ends_with_all_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    with windows(monkeypatch, kernel), programs.tracked(started) as process:
        programs.end_group(process)
        assert kernel.asked[-1] == "TerminateJobObject"
        process.kill()
    with windows(monkeypatch, Kernel("AssignProcessToJobObject")), programs.tracked(started) as process:
        programs.end_group(process)  # it could not be held: it alone is ended
        assert process.wait(PATIENCE) == -9


@pytest.mark.parametrize("refuses", ["CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject"])
def test_a_refusal_is_told_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, refuses: str) -> None:
    kernel = Kernel(refuses)
    with windows(monkeypatch, kernel), pytest.raises(OSError, match="cannot be held"):
        Job(7)
    assert ("CloseHandle" in kernel.asked) is (refuses != "CreateJobObjectW")
