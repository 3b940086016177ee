"""Open device files, read from a fake /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.host.system import read_processes
from envcheck.model.text import parse_fields
from tests.host.ordinary_user import as_ordinary_user

pytestmark = pytest.mark.needs("posix")

STATUS = "Name:\t{name}\nState:\t{state} (sleeping)\nPPid:\t900\nUid:\t1000\t1000\t1000\t1000\n"


def add(
    proc: Path,
    pid: int,
    *targets: str,
    name: str = "python3",
    state: str = "S",
    cgroup: str = "0::/\n",
) -> Path:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, target in enumerate(targets):
        (folder / "fd" / str(number)).symlink_to(target)
    (folder / "status").write_text(STATUS.format(name=name, state=state))
    (folder / "cgroup").write_text(cgroup)
    (folder / "cmdline").write_bytes(b"python3\0train.py\0")
    return folder


def test_processes_with_a_gpu_open_are_found_and_described(tmp_path: Path) -> None:
    container = "0::/system.slice/docker-" + "0123456789ab" + "c" * 52 + ".scope\n"
    add(tmp_path, 1, "/dev/null")
    add(
        tmp_path,
        50,
        "/dev/null",
        "socket:[7]",
        "/dev/nvidia1",
        "/dev/nvidiactl",
        "/dev/nvidia1",
        cgroup=container,
    )
    add(tmp_path, 51, "/dev/null")
    (tmp_path / "cpuinfo").write_text("x")
    scan = read_processes((), str(tmp_path))
    (found,) = scan.processes
    assert (found.pid, found.name, found.owner, found.state, found.parent) == (
        50,
        "python3",
        1000,
        "S",
        900,
    )
    assert found.devices == ("/dev/nvidia1", "/dev/nvidiactl")
    assert (found.container, found.command_line) == ("0123456789ab", "python3 train.py")
    assert (scan.unreadable, scan.hides_others, scan.isolated) == (0, False, False)


def test_a_killed_process_whose_thread_waits_in_the_driver_still_holds_the_gpu(
    tmp_path: Path,
) -> None:
    add(tmp_path / "55" / "task", 55, state="Z")
    add(tmp_path / "55" / "task", 56, "/dev/zero", "/dev/nvidia0 (deleted)", state="D")
    add(tmp_path, 55, state="Z")
    add(tmp_path, 57, state="Z")
    (found,) = read_processes((), str(tmp_path)).processes
    assert (found.pid, found.state, found.devices) == (55, "D", ("/dev/nvidia0",))


def test_requested_processes_are_described_and_missing_ones_left_out(tmp_path: Path) -> None:
    add(tmp_path, 60, name="python3", state="Z")
    (found,) = read_processes((60, 61), str(tmp_path)).processes
    assert (found.pid, found.state, found.devices) == (60, "Z", ())


def test_a_process_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    add(tmp_path, 70, "/dev/nvidia0")
    (tmp_path / "70" / "status").unlink()
    (tmp_path / "71").mkdir()
    assert read_processes((71,), str(tmp_path)).processes == ()


def test_pid_namespaces_and_hidden_processes_are_detected(tmp_path: Path) -> None:
    add(tmp_path, 80)
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to("pid:[4026532999]")
    scan = read_processes((), str(tmp_path))
    assert (scan.isolated, scan.hides_others) == (True, True)


def test_a_system_without_proc_has_no_processes(tmp_path: Path) -> None:
    scan = read_processes((1,), str(tmp_path / "none"))
    assert (scan.processes, scan.hides_others) == ((), False)


@pytest.mark.needs("linux")
@pytest.mark.needs("root")
def test_processes_with_unreadable_files_are_counted() -> None:
    assert as_ordinary_user(lambda: read_processes(()).unreadable) > 0


def test_a_status_without_fields_is_empty() -> None:
    assert parse_fields("garbage") == {}
