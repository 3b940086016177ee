"""Job objects on Windows, with a fake kernel32 that records its calls; Wine runs them for real."""

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
    """A fake kernel32 that accepts and records every call."""

    def __init__(self, refuses: str = "") -> None:
        self.calls: list[str] = []
        for name in (
            "CreateJobObjectW",
            "SetInformationJobObject",
            "AssignProcessToJobObject",
            "TerminateJobObject",
        ):
            setattr(self, name, self._call(name, 0 if name == refuses else 1 << 40))
        self.CloseHandle = self._call("CloseHandle", 1)

    def _call(self, name: str, answer: int) -> Any:
        def call(*_: object) -> int:
            self.calls.append(name)
            return answer

        return call


@contextlib.contextmanager
def windows(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> Iterator[None]:
    monkeypatch.setattr(ctypes, "WinDLL", lambda *_, **__: kernel, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: 5, raising=False)
    monkeypatch.setattr(programs, "os", SimpleNamespace(name="nt", path=os.path))
    monkeypatch.setattr(
        programs, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": PopenWithHandle})
    )
    yield


class PopenWithHandle(subprocess.Popen[bytes]):
    """A process with the handle that Popen has on Windows."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        vars(self)["_handle"] = 7


def start_cat() -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    return programs.start_process(
        [sys.executable, "-c", "input()"], os.environ, stdin=subprocess.PIPE
    )


def test_the_limits_structure_has_the_size_of_windows() -> None:
    assert ctypes.sizeof(windows_jobs._Limits) == (
        144 if ctypes.sizeof(ctypes.c_void_p) == 8 else 112
    )
    assert windows_jobs._Limits.flags.offset == 16


def test_children_end_with_their_program(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    with windows(monkeypatch, kernel), start_cat() as process:
        assert kernel.calls == [
            "CreateJobObjectW",
            "SetInformationJobObject",
            "AssignProcessToJobObject",
        ]
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)
    assert kernel.calls[3:] == ["CloseHandle"]
    assert not programs._jobs


def test_killing_a_program_ends_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    with windows(monkeypatch, kernel), start_cat() as process:
        programs.kill_with_children(process)
        assert kernel.calls[-1] == "TerminateJobObject"
        process.kill()
    with windows(monkeypatch, Kernel("AssignProcessToJobObject")), start_cat() as process:
        programs.kill_with_children(process)  # not in a job: only the process itself ends
        assert process.wait(PATIENCE) == -9


@pytest.mark.parametrize(
    "refuses", ["CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject"]
)
def test_a_refusal_raises_and_closes_the_job(monkeypatch: pytest.MonkeyPatch, refuses: str) -> None:
    kernel = Kernel(refuses)
    with windows(monkeypatch, kernel), pytest.raises(OSError, match="cannot join"):
        Job(7)
    assert ("CloseHandle" in kernel.calls) is (refuses != "CreateJobObjectW")
