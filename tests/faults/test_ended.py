"""The program ended by signals, without threads, or started in a folder with misleading modules."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.doctor import command, envcheck, environment
from tests.host.programs import is_gone, write_script
from tests.patience import FOREVER, PATIENCE, patient_command, wait_for

pytestmark = pytest.mark.needs("linux")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_time_limit_leaves_no_program_behind(tmp_path: Path, number: signal.Signals) -> None:
    for name in ("nvidia-smi", "nvcc", "gcc", "g++", "clang"):
        write_script(tmp_path / name, f"echo $$ >> {tmp_path}/pids; exec sleep {FOREVER}")
    changes = environment({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    # under nohup the tests' own SIGHUP is ignored, and handed on
    inherited = signal.signal(number, signal.SIG_DFL)
    started = subprocess.Popen(
        patient_command("doctor"), env=changes, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    signal.signal(number, inherited)
    wait_for((tmp_path / "pids").exists, "the first program")
    time.sleep(0.3)
    started.send_signal(number)
    _, stderr = started.communicate(timeout=PATIENCE)
    assert started.returncode == -number
    assert stderr == b""
    time.sleep(0.1)
    pids = (tmp_path / "pids").read_text(encoding="utf-8").split()
    assert pids
    assert [pid for pid in pids if not is_gone(int(pid))] == []


def test_a_hangup_stays_ignored_where_the_caller_ignores_it(tmp_path: Path) -> None:
    write_script(tmp_path / "gcc", f"echo $$ >> {tmp_path}/pids; exec sleep {FOREVER}")
    argv = ["nohup", *command("doctor", "--format", "json")]
    changes = environment({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    started = subprocess.Popen(argv, env=changes, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for((tmp_path / "pids").exists, "the first program")
    started.send_signal(signal.SIGHUP)
    stdout, _ = started.communicate(timeout=PATIENCE)
    assert stdout.startswith(b"{")
    assert started.returncode in (0, 1, 3)


def test_without_threads_the_probes_run_one_by_one() -> None:
    code = (
        "import sys, threading\n"
        'def refuse(self): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = refuse\n"
        "sys.argv = ['envcheck', 'doctor']\n"
        "from envcheck.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1, 3), done.stderr
    assert "failed:" not in done.stdout


def test_the_current_folder_is_not_searched_for_modules(tmp_path: Path) -> None:
    for name in ("json", "textwrap", "click", "rich", "threading", "pynvml", "subprocess"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8"
        )
    for form in ("text", "json"):
        run = envcheck("doctor", "--format", form, cwd=tmp_path, gives_up=True)
        assert run.code in (0, 1, 3)
    assert not (tmp_path / "ran").exists()


def test_control_characters_of_arguments_do_not_reach_the_terminal() -> None:
    run = envcheck("doctor", "--env", "no\x1b]0;such\x07\nplace")
    assert run.code == 2
    assert "\x1b" not in run.stderr
    assert run.stderr.count("\n") == 1
