"""A watched program: what it says, how it ends, what it may use, and that nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.host.usage import available_memory, parse_available, resident_memory
from envcheck.host.watched import Limits, Watched, run_watched
from tests.patience import PATIENCE, wait_for

pytestmark = pytest.mark.needs("linux")
AMPLE = Limits(PATIENCE, 2 << 30)
SAY = "import os, sys, time; said = os.fdopen(int(sys.argv[-1]), 'wb', 0); "


def watch(folder: Path, code: str, limits: Limits = AMPLE, heard: list[str] | None = None) -> Watched:
    lines = heard if heard is not None else []
    return run_watched([sys.executable, "-c", SAY + code], os.environ, str(folder / "log"), limits, lines.append)


def test_what_it_says_and_what_it_prints_are_kept_apart(tmp_path: Path) -> None:
    heard: list[str] = []
    found = watch(tmp_path, r"said.write(b'one\ntwo\nrest'); print('out'); print('err', file=sys.stderr)", heard=heard)
    assert (found.ended, found.code, found.said) == ("exited", 0, "one\ntwo\nrest")
    assert heard == ["one", "two"]  # the rest is no whole line
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]
    assert found.peak_memory


def test_lines_are_heard_while_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    code = f"said.write(b'early\\n')\nwhile not os.path.exists({str(file)!r}): time.sleep(0.01)"
    argv = [sys.executable, "-c", SAY + code]
    found = run_watched(argv, os.environ, str(tmp_path / "log"), AMPLE, lambda _: file.touch())
    assert (found.ended, found.code) == ("exited", 0)


@pytest.mark.parametrize(("code", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 11)", -11)])
def test_its_status_is_told(tmp_path: Path, code: str, status: int) -> None:
    assert watch(tmp_path, code).code == status


def test_time_is_limited_and_children_end_too(tmp_path: Path) -> None:
    code = f"import subprocess; subprocess.Popen(['sleep', '98761.{os.getpid()}']); "
    code += "said.write(b'x\\n'); time.sleep(98761)"
    found = watch(tmp_path, code, Limits(3.0))
    assert (found.ended, found.said) == ("time", "x\n")
    wait_for(lambda: f"sleep 98761.{os.getpid()}" not in listed(), "the end of the child")


def listed() -> str:
    return subprocess.check_output(["ps", "-eo", "args"], text=True)


def test_memory_is_limited_with_its_children(tmp_path: Path) -> None:
    child = "held = bytearray(200 << 20); import time; time.sleep(98763)"
    code = f"import subprocess; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(98763)"
    found = watch(tmp_path, code, Limits(PATIENCE, 150 << 20))
    assert found.ended == "memory"
    assert found.peak_memory
    assert found.peak_memory > 150 << 20


def test_address_space_is_not_limited(tmp_path: Path) -> None:
    reserve = "import mmap; space = mmap.mmap(-1, 64 << 30, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE); "
    assert watch(tmp_path, reserve + "said.write(b'ok')", Limits(PATIENCE, 200 << 20)).said == "ok"


def test_a_flood_is_cut_and_does_not_hold_the_limit_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envcheck.host.watched.SAID_LIMIT", 1 << 18)  # soon said, on a busy machine too
    found = watch(tmp_path, "\nwhile True: said.write(b'x' * 65536)", Limits(2.0))
    assert found.ended == "time"
    assert 1 << 18 <= len(found.said) <= (1 << 18) + (1 << 16)


def test_a_child_that_keeps_the_descriptor_does_not_hold_us_up(tmp_path: Path) -> None:
    code = "os.set_inheritable(said.fileno(), True); import subprocess;"
    code += "subprocess.Popen(['sleep', '98762'], close_fds=False); said.write(b'done')"
    found = watch(tmp_path, code)
    assert (found.ended, found.said) == ("exited", "done")


@pytest.mark.parametrize("argv", [["/no/such/program"], [os.devnull]])
def test_what_cannot_start_is_told(tmp_path: Path, argv: list[str]) -> None:
    found = run_watched(argv, {}, str(tmp_path / "log"), AMPLE, lambda _: None)
    assert found.ended == "not started"
    assert f"{argv[0]} could not be started" in found.detail


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    found = run_watched([sys.executable], {}, str(tmp_path / "no" / "log"), AMPLE, lambda _: None)
    assert found.ended == "not started"


def test_the_way_of_windows_works_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import envcheck.host.watched as module

    heard: list[str] = []
    with (tmp_path / "log").open("wb") as log:
        code = "import sys; said = open(sys.argv[-1], 'wb'); said.write(b'a\\nb'); said.close()"
        found = module._run_with_file([sys.executable, "-c", code], os.environ, log, AMPLE, heard.append)
    assert (found.ended, found.code, found.said, heard) == ("exited", 0, "a\nb", ["a"])


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    watch(tmp_path, "said.write(b'x')")
    run_watched(["/no/such/program"], {}, str(tmp_path / "log"), AMPLE, lambda _: None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_memory_of_this_machine_and_of_a_process() -> None:
    free = available_memory()
    assert free
    assert free > 1 << 26
    held = resident_memory(os.getpid())
    assert held
    assert 1 << 22 < held < 1 << 34
    assert resident_memory(1 << 30) is None
    assert parse_available("MemTotal: 5 kB\n") is None
    assert parse_available("MemTotal:       8 kB\nMemAvailable:   4 kB\n") == 4096
