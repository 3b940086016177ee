"""Ctrl-C inside code that swallows or replaces KeyboardInterrupt, and while a program starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.programs import is_gone
from tests.patience import PATIENCE

pytestmark = pytest.mark.needs("posix")
ROOT = Path(__file__).parents[2]
MESSAGE = "envcheck: Interrupted."

_MAIN = """
import os, signal, sys, time, weakref
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with SIGINT ignored
import envcheck.cli.group as group
from envcheck.cli import main
def press(): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.001)
{code}
group.run = command
sys.argv = ["envcheck", *sys.argv[1:]]
main()
"""


def run_interrupted(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", _MAIN.replace("{code}", code), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


# Code that replaces KeyboardInterrupt. The first: the signal comes when a wait has just released
# its lock; under load another thread runs then, and the lock is released twice.
DURING_WAIT = """
import threading
def command(arguments):
    event = threading.Event()
    event._cond._release_save = lambda: (event._cond._lock.release(), press())
    event.wait()
"""
DURING_SET_NAME = """
class Name:
    def __set_name__(self, owner, name): press()
def command(arguments): type("Made", (), {"name": Name()})
"""
AS_USER_ERROR = """
from envcheck.model import UserError
def command(arguments):
    try: press()
    except KeyboardInterrupt: raise UserError("no Python found") from None
"""
AS_OUTPUT_ERROR = """
def command(arguments):
    try: press()
    except KeyboardInterrupt: raise OSError(5, "Input/output error") from None
"""
# Python cannot raise from a callback: the interrupt is raised again.
DURING_CALLBACK = """
class Held: pass
def command(arguments):
    held = Held(); kept = weakref.ref(held, lambda _: press()); del held
    time.sleep(3600)
"""
TWICE = """
from envcheck.host import process
process.kill_running_programs = press  # again, while the first is handled
def command(arguments): press()
"""


CODES = {
    "in-a-wait": DURING_WAIT,
    "in-a-name": DURING_SET_NAME,
    "user-error": AS_USER_ERROR,
    "output-error": AS_OUTPUT_ERROR,
    "in-a-callback": DURING_CALLBACK,
    "twice": TWICE,
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_an_interrupt_in_any_code_ends_the_program(code: str) -> None:
    done = run_interrupted(code)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", MESSAGE)


def test_a_swallowed_interrupt_still_sets_the_exit_code() -> None:
    done = run_interrupted(
        "def command(arguments):\n    try: press()\n    except KeyboardInterrupt: print('done')\n    return 3"
    )
    assert (done.returncode, done.stdout) == (130, "done\n")


def test_a_cleared_interrupt_is_forgotten() -> None:
    code = """
from envcheck.host.interruption import clear_interrupt
def command(arguments):
    try: press()
    except KeyboardInterrupt: clear_interrupt()
    return 3
"""
    assert run_interrupted(code).returncode == 3


def test_sigint_stays_ignored_where_the_caller_ignores_it() -> None:
    done = run_interrupted(
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\ndef command(arguments): press(); return 0"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_other_errors_in_callbacks_are_still_reported() -> None:
    code = "class Bad:\n    def __del__(self): raise ValueError('bad')\ndef command(arguments): Bad(); return 0"
    assert "ValueError: bad" in run_interrupted(code).stderr


def test_an_interrupt_during_the_start_ends_the_program(tmp_path: Path) -> None:
    code = """
import subprocess
from envcheck.host.process import start_process
class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        open(sys.argv[1], "w").write(str(self.pid))
        press()
subprocess.Popen = Popen
def command(arguments):
    with start_process(["sleep", "3600"], os.environ): print("never")
"""
    done = run_interrupted(code, str(tmp_path / "pid"))
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", MESSAGE)
    assert is_gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_a_second_interrupt_ends_a_start_that_hangs() -> None:
    code = """
import subprocess
from envcheck.host.process import start_process
def hang(*arguments, **options): press(); press(); time.sleep(3600)
subprocess.Popen = hang
def command(arguments):
    with start_process(["true"], {}): pass
"""
    done = run_interrupted(code)
    assert (done.returncode, done.stderr.strip()) == (130, MESSAGE)


def test_a_blocked_reader_does_not_delay_the_exit() -> None:
    code = "def command(arguments):\n    print('x' * 9_000_000)\n    return 0"
    argv = [sys.executable, "-c", _MAIN.replace("{code}", code)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # its write blocks now
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == f"{MESSAGE}\n".encode()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_a_forked_worker_leaves_interrupts_to_its_parent() -> None:
    code = """
def command(arguments):
    child = os.fork()
    if child == 0:
        press(); os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    done = run_interrupted(code)
    assert (done.returncode, done.stderr) == (7, "")


def test_an_interrupted_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from envcheck.host.file_changes import write_atomically
real = os.replace
def replace(*names): press(); real(*names)
os.replace = replace
def command(arguments): write_atomically(Path(arguments[0]), "new")
"""
    (tmp_path / "file").write_text("old", encoding="utf-8")
    assert run_interrupted(code, str(tmp_path / "file")).returncode == 130
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [
        ("file", "old")
    ]


_HELD = """
import os, signal, subprocess, sys, time
from envcheck.host.interruption import allow_interrupts
from envcheck.host.process import hold_signals, run_lines
number = getattr(signal, sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with SIGINT ignored
class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        open(sys.argv[2], "w").write(str(self.pid))
        for _ in range(3): os.kill(os.getpid(), number)
subprocess.Popen = Popen
with hold_signals():
    os.kill(os.getpid(), number) if sys.argv[3] == "before" else None
    try: run_lines(["sleep", "3600"], os.environ, print, seconds=3600, patience=30)
    except KeyboardInterrupt: print("interrupted", flush=True)
    os.kill(os.getpid(), number)
    print("cleaned up", flush=True)
print("never")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("when", ["before", "while"])
def test_a_held_signal_ends_a_program_that_just_starts_and_nothing_else(
    tmp_path: Path, name: str, when: str
) -> None:
    argv = [sys.executable, "-c", _HELD, name, str(tmp_path / "pid"), when]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.stdout == "interrupted\ncleaned up\n"
    assert done.returncode == -getattr(signal, name)
    assert is_gone(int((tmp_path / "pid").read_text(encoding="utf-8")))
