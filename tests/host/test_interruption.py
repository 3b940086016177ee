"""Ctrl-C inside code that loses it or makes another error of it, and between a start and its being known."""

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
TOLD = "envcheck: Interrupted."

_MAIN = """
import os, signal, sys, time, weakref
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored
import envcheck.cli.group as group
from envcheck.cli import main
def press(): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.001)
{code}
group.run = command
sys.argv = ["envcheck", *sys.argv[1:]]
main()
"""


def interrupted(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", _MAIN.replace("{code}", code), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


# What takes the place of KeyboardInterrupt. The first: it comes when a wait has just let go of its lock, where under
# load another thread takes over; the lock is let go of twice then.
IN_A_WAIT = """
import threading
def command(arguments):
    event = threading.Event()
    event._cond._release_save = lambda: (event._cond._lock.release(), press())
    event.wait()
"""
IN_A_NAME = """
class Name:
    def __set_name__(self, owner, name): press()
def command(arguments): type("Made", (), {"name": Name()})
"""
USERS = """
from envcheck.cli.exits import UserError
def command(arguments):
    try: press()
    except KeyboardInterrupt: raise UserError("no Python there") from None
"""
OUTPUT = """
def command(arguments):
    try: press()
    except KeyboardInterrupt: raise OSError(5, "Input/output error") from None
"""
# From a callback Python can raise nothing: the interruption comes again.
IN_A_CALLBACK = """
class Held: pass
def command(arguments):
    held = Held(); kept = weakref.ref(held, lambda _: press()); del held
    time.sleep(3600)
"""
TWICE = """
from envcheck.host import process
process.end_running = press  # once more, while the first is being answered
def command(arguments): press()
"""


CODES = {
    "in-a-wait": IN_A_WAIT,
    "in-a-name": IN_A_NAME,
    "user-error": USERS,
    "output-error": OUTPUT,
    "in-a-callback": IN_A_CALLBACK,
    "twice": TWICE,
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_whatever_code_it_comes_in_it_is_an_interruption(code: str) -> None:
    done = interrupted(code)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", TOLD)


def test_one_that_was_swallowed_still_gives_the_exit_code() -> None:
    done = interrupted(
        "def command(arguments):\n    try: press()\n    except KeyboardInterrupt: print('done')\n    return 3"
    )
    assert (done.returncode, done.stdout) == (130, "done\n")


def test_what_was_answered_is_forgotten() -> None:
    code = """
from envcheck.host.interruption import answered
def command(arguments):
    try: press()
    except KeyboardInterrupt: answered()
    return 3
"""
    assert interrupted(code).returncode == 3


def test_it_stays_ignored_where_the_caller_ignores_it() -> None:
    done = interrupted("signal.signal(signal.SIGINT, signal.SIG_IGN)\ndef command(arguments): press(); return 0")
    assert (done.returncode, done.stderr) == (0, "")


def test_other_errors_in_callbacks_are_told_as_ever() -> None:
    code = "class Bad:\n    def __del__(self): raise ValueError('told')\ndef command(arguments): Bad(); return 0"
    assert "ValueError: told" in interrupted(code).stderr


def test_a_program_that_has_just_started_is_ended(tmp_path: Path) -> None:
    code = """
import subprocess
from envcheck.host.process import tracked
def start():
    started = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    open(sys.argv[1], "w").write(str(started.pid))
    press()
    return started
def command(arguments):
    with tracked(start): print("never")
"""
    done = interrupted(code, str(tmp_path / "pid"))
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", TOLD)
    assert is_gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_the_second_one_ends_a_start_that_hangs() -> None:
    code = """
from envcheck.host.process import tracked
def start(): press(); press(); time.sleep(3600)
def command(arguments):
    with tracked(start): pass
"""
    done = interrupted(code)
    assert (done.returncode, done.stderr.strip()) == (130, TOLD)


def test_a_reader_that_does_not_read_on_does_not_keep_it() -> None:
    code = "def command(arguments):\n    print('x' * 9_000_000)\n    return 0"
    argv = [sys.executable, "-c", _MAIN.replace("{code}", code)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # it writes, and waits
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == f"{TOLD}\n".encode()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_a_forked_worker_leaves_it_to_its_parent() -> None:
    code = """
def command(arguments):
    child = os.fork()
    if child == 0:
        press(); os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    done = interrupted(code)
    assert (done.returncode, done.stderr) == (7, "")


def test_a_write_that_is_interrupted_leaves_nothing_beside_the_old_file(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from envcheck.host.file_changes import write_atomically
real = os.replace
def replace(*names): press(); real(*names)
os.replace = replace
def command(arguments): write_atomically(Path(arguments[0]), "new")
"""
    (tmp_path / "file").write_text("old", encoding="utf-8")
    assert interrupted(code, str(tmp_path / "file")).returncode == 130
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [("file", "old")]
