"""A program with limits: its report, its end, its limits, and that it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.host.limits import LimitedRun, Limits, run_with_limits
from envcheck.host.system import parse_available_memory, read_available_memory, read_resident_memory
from tests.patience import PATIENCE, wait_for

pytestmark = pytest.mark.needs("linux")
LARGE = Limits(PATIENCE, 2 << 30)
REPORT = "import os, sys, time; report = open(sys.argv[-1], 'wb', 0); "


def run(
    folder: Path, code: str, bounds: Limits = LARGE, lines: list[str] | None = None
) -> LimitedRun:
    received = lines if lines is not None else []
    return run_with_limits(
        [sys.executable, "-c", REPORT + code],
        os.environ,
        str(folder / "log"),
        bounds,
        received.append,
    )


def test_report_and_output_are_separate(tmp_path: Path) -> None:
    lines: list[str] = []
    found = run(
        tmp_path,
        r"report.write(b'one\ntwo\nrest'); print('out'); print('err', file=sys.stderr)",
        lines=lines,
    )
    assert (found.ended, found.code, found.report) == ("exited", 0, "one\ntwo\nrest")
    assert lines == ["one", "two"]  # the rest is not a whole line
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]
    assert found.peak_memory


def test_lines_arrive_while_the_program_runs(tmp_path: Path) -> None:
    received = tmp_path / "received"
    code = (
        f"report.write(b'early\\n')\nwhile not os.path.exists({str(received)!r}): time.sleep(0.01)"
    )
    argv = [sys.executable, "-c", REPORT + code]
    found = run_with_limits(
        argv, os.environ, str(tmp_path / "log"), LARGE, lambda _: received.touch()
    )
    assert (found.ended, found.code) == ("exited", 0)


@pytest.mark.parametrize(
    ("code", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 11)", -11)]
)
def test_the_exit_status_is_returned(tmp_path: Path, code: str, status: int) -> None:
    assert run(tmp_path, code).code == status


def test_time_is_limited_and_children_end_too(tmp_path: Path) -> None:
    code = f"import subprocess; subprocess.Popen(['sleep', '98761.{os.getpid()}']); "
    code += "report.write(b'x\\n'); time.sleep(98761)"
    found = run(tmp_path, code, Limits(3.0))
    assert (found.ended, found.report) == ("time", "x\n")
    wait_for(lambda: f"sleep 98761.{os.getpid()}" not in list_processes(), "the end of the child")


@pytest.mark.parametrize("start", ["setsid", "setsid -f"])
@pytest.mark.parametrize("bounds", [Limits(3.0), LARGE])
def test_children_in_sessions_of_their_own_end_too(
    tmp_path: Path, start: str, bounds: Limits
) -> None:
    sleep = f"sleep 98762.{os.getpid()}"
    code = f"import subprocess; subprocess.Popen('{start} {sleep}', shell=True); time.sleep(1); report.write(b'x'); "
    found = run(tmp_path, code + ("time.sleep(98761)" if bounds is not LARGE else ""), bounds)
    assert (found.ended, found.report) == ("exited" if bounds is LARGE else "time", "x")
    wait_for(lambda: sleep not in list_processes(), "the end of the child")


def test_children_of_others_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "98763"], start_new_session=True) as earlier:
        assert run(tmp_path, "").ended == "exited"
        assert earlier.poll() is None
        earlier.kill()


def list_processes() -> str:
    return subprocess.check_output(["ps", "-eo", "args"], text=True)


def test_memory_is_limited_with_its_children(tmp_path: Path) -> None:
    child = "held = bytearray(200 << 20); import time; time.sleep(98763)"
    code = (
        f"import subprocess; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(98763)"
    )
    found = run(tmp_path, code, Limits(PATIENCE, 150 << 20))
    assert found.ended == "memory"
    assert found.peak_memory
    assert found.peak_memory > 150 << 20


def test_address_space_is_not_limited(tmp_path: Path) -> None:
    reserve = "import mmap; space = mmap.mmap(-1, 64 << 30, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE); "
    assert (
        run(tmp_path, reserve + "report.write(b'ok')", Limits(PATIENCE, 200 << 20)).report == "ok"
    )


def test_a_flood_is_truncated_and_ends_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envcheck.host.limits.REPORT_LIMIT", 1 << 18)
    bounds = Limits(PATIENCE, output=1 << 20)
    found = run(tmp_path, "\nwhile True: report.write(b'x' * 65536)", bounds)
    assert found.ended == "output"
    assert 1 << 18 <= len(found.report) <= (1 << 18) + (1 << 16)


def test_a_child_that_keeps_the_descriptor_does_not_delay_the_end(tmp_path: Path) -> None:
    code = "os.set_inheritable(report.fileno(), True); import subprocess;"
    code += "subprocess.Popen(['sleep', '98762'], close_fds=False); report.write(b'done')"
    found = run(tmp_path, code)
    assert (found.ended, found.report) == ("exited", "done")


@pytest.mark.parametrize("argv", [["/no/such/program"], [os.devnull]])
def test_a_failed_start_is_reported(tmp_path: Path, argv: list[str]) -> None:
    found = run_with_limits(argv, {}, str(tmp_path / "log"), LARGE, lambda _: None)
    assert found.ended == "not started"
    assert f"{argv[0]} could not be started" in found.detail


def test_an_unwritable_log_is_reported(tmp_path: Path) -> None:
    found = run_with_limits(
        [sys.executable], {}, str(tmp_path / "no" / "log"), LARGE, lambda _: None
    )
    assert found.ended == "not started"


def test_an_error_of_the_callback_is_raised(tmp_path: Path) -> None:
    def fail(_: str) -> None:
        raise BrokenPipeError

    argv = [sys.executable, "-c", REPORT + r"report.write(b'a\n'); time.sleep(60)"]
    with pytest.raises(BrokenPipeError):
        run_with_limits(argv, os.environ, str(tmp_path / "log"), LARGE, fail)


def test_no_descriptor_and_no_report_is_left(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    run(tmp_path, "report.write(b'x')")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    run_with_limits(["/no/such/program"], {}, str(tmp_path / "log"), LARGE, lambda _: None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_available_and_resident_memory() -> None:
    free = read_available_memory()
    assert free
    assert free > 1 << 26
    held = read_resident_memory(os.getpid())
    assert held
    assert 1 << 22 < held < 1 << 34
    assert read_resident_memory(1 << 30) is None
    assert parse_available_memory("MemTotal: 5 kB\n") is None
    assert parse_available_memory("MemTotal:       8 kB\nMemAvailable:   4 kB\n") == 4096
