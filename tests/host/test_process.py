"""Programs that hang, flood, crash or cannot start: an answer in any case, and nothing is left running."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envcheck.host import process
from envcheck.host.local import LocalHost
from envcheck.host.process import run_program
from envcheck.host.protocol import Completed
from envcheck.model import Absent, Fact, Unknown
from tests.host.programs import is_gone, wait_for_pid, write_script
from tests.known import known, unknown, where
from tests.patience import FOREVER, PATIENCE

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("linux")
GIVES_UP = 2.0  # seconds: enough for a script that writes its number first, on a busy machine too


def run(path: str, timeout: float = PATIENCE) -> Fact[Completed]:
    return run_program([path], timeout, os.environ)


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    answer = run(write_script(tmp_path / "tool", "echo one; echo two >&2; exit 255"))
    assert known(answer) == Completed(255, "one\n", "two\n")
    assert (where(answer).kind, where(answer).excerpt) == ("command", "one")


def test_a_signal_is_a_negative_exit_code(tmp_path: Path) -> None:
    answer = run(write_script(tmp_path / "tool", "kill -SEGV $$"))
    assert known(answer).returncode == -11


def test_undecodable_output_is_replaced(tmp_path: Path) -> None:
    answer = run(write_script(tmp_path / "tool", r"printf 'a\377\000b\n'"))
    assert known(answer).stdout == "a\ufffd\0b\n"


def test_standard_input_is_empty(tmp_path: Path) -> None:
    answer = run(write_script(tmp_path / "tool", "cat; echo done"))
    assert known(answer).stdout == "done\n"


def test_a_program_starts_though_the_working_folder_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as pyenv's shims, it refuses to start in a deleted folder
    tool = write_script(tmp_path / "tool", "/bin/pwd")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    (tmp_path / "folder").rmdir()
    assert known(run(tool)) == Completed(0, "/\n", "")


def test_a_hanging_program_ends_with_its_children(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "tool",
        f"sleep {FOREVER} & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/own; wait",
    )
    answer = run(script, timeout=GIVES_UP)
    assert (unknown(answer).why, unknown(answer).detail) == (
        "timeout",
        f"{script} did not finish within {GIVES_UP} s",
    )
    assert is_gone(wait_for_pid(tmp_path / "own"))
    assert is_gone(wait_for_pid(tmp_path / "child"))


def test_a_child_that_keeps_the_pipe_open_does_not_delay_the_answer(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "tool", f"sleep {FOREVER} & echo $! > {tmp_path}/child; echo ready"
    )
    answer = run(script, timeout=FOREVER)  # which it would take
    assert known(answer).stdout == "ready\n"
    assert is_gone(wait_for_pid(tmp_path / "child"))


def test_a_program_that_only_closes_its_output_is_killed(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "tool", f"echo $$ > {tmp_path}/own; exec sleep {FOREVER} >&- 2>&-"
    )
    answer = run(script, timeout=GIVES_UP)
    assert unknown(answer).why == "timeout"
    assert is_gone(wait_for_pid(tmp_path / "own"))


def test_endless_output_is_cut_off(tmp_path: Path) -> None:
    script = write_script(tmp_path / "tool", f"echo $$ > {tmp_path}/own; exec yes")
    answer = run(script)
    assert (unknown(answer).why, unknown(answer).detail) == (
        "unparsable",
        f"{script} printed more than 4 MiB",
    )
    assert is_gone(wait_for_pid(tmp_path / "own"))


def test_a_program_that_cannot_start_is_explained(tmp_path: Path) -> None:
    plain = write_script(tmp_path / "plain", "echo", mode=0o644)
    orphan = tmp_path / "orphan"
    orphan.write_text("#!/nowhere/python\n", encoding="utf-8")
    orphan.chmod(0o755)
    no_header = tmp_path / "no_header"
    no_header.write_bytes(b"\0\1\2")
    no_header.chmod(0o755)
    os.mkfifo(str(tmp_path / "fifo"), 0o755)
    reasons = {
        name: run(str(tmp_path / name))
        for name in ("plain", "orphan", "no_header", "fifo", "gone", "plain/x")
    }
    reasons["folder"] = run(str(tmp_path))
    reasons["nul"] = run(f"{tmp_path}/a\0b")
    kinds = {
        name: fact.why if isinstance(fact, Unknown) else type(fact).__name__
        for name, fact in reasons.items()
    }
    assert kinds == {
        "plain": "denied",
        "orphan": "failed",
        "no_header": "failed",
        "fifo": "denied",
        "gone": "Absent",
        "plain/x": "Absent",
        "folder": "denied",
        "nul": "failed",
    }
    assert reasons["gone"] == Absent((str(tmp_path / "gone"),))
    assert plain in str(reasons["plain"])


def test_ten_hanging_tools_at_once_use_up_one_budget(tmp_path: Path) -> None:
    host = LocalHost(budget=GIVES_UP)
    scripts = [
        write_script(
            tmp_path / f"tool{index}", f"echo $$ > {tmp_path}/pid{index}; exec sleep {FOREVER}"
        )
        for index in range(10)
    ]
    answers: list[Fact[Completed]] = []
    threads = [
        threading.Thread(target=lambda path: answers.append(host.run([path])), args=(path,))
        for path in scripts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [getattr(answer, "why", None) for answer in answers] == ["timeout"] * 10
    assert all(is_gone(wait_for_pid(tmp_path / f"pid{index}")) for index in range(10))


def test_kill_running_programs_kills_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_is_shutting_down", threading.Event())
    script = write_script(tmp_path / "tool", f"echo $$ > {tmp_path}/pid; exec sleep {FOREVER}")
    answers: list[Fact[Completed]] = []
    thread = threading.Thread(target=lambda: answers.append(run(script)))
    thread.start()
    pid = wait_for_pid(tmp_path / "pid")
    process.kill_running_programs()
    thread.join()
    assert is_gone(pid)
    assert known(answers[0]).returncode == -9
    assert unknown(run(script)).detail == "interrupted"


def test_reading_with_threads_ends(tmp_path: Path) -> None:
    def drain(body: str, seconds: float) -> list[bytes]:
        argv = [write_script(tmp_path / "tool", body)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
            streams = process._read_streams_with_threads(started, time.monotonic() + seconds)
            started.kill()
        return streams

    assert drain("echo one; echo two >&2", PATIENCE) == [b"one\n", b"two\n"]
    assert drain(f"exec sleep {FOREVER}", 0.1) == [b"", b""]


INTERRUPTED = """
import os, sys, threading, time
from envcheck.host.process import kill_running_programs, run_program
threading.Thread(target=run_program, args=([sys.argv[1]], 3600.0, os.environ), daemon=True).start()
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
time.sleep(0.1)
kill_running_programs()
print(run_program([sys.argv[1]], 60.0, os.environ).detail)
"""


def test_an_interrupt_kills_programs_and_starts_no_other(tmp_path: Path) -> None:
    script = write_script(tmp_path / "tool", f"echo $$ >> {tmp_path}/pid; exec sleep {FOREVER}")
    argv = [sys.executable, "-c", INTERRUPTED, script, str(tmp_path / "pid")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"interrupted\n"
    assert is_gone(wait_for_pid(tmp_path / "pid"))  # one pid: the second was never started
