"""A command runs as if directly on the terminal, and its output is watched."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from envcheck.host.passthrough import CommandNotStartedError, CommandResult, run_command
from tests.patience import FOREVER
from tests.terminals import read_until

pytestmark = pytest.mark.needs("posix")


class Recorder:
    def __init__(self) -> None:
        self.blocks: dict[str, bytes] = {}

    def __call__(self, name: str, block: bytes) -> None:
        self.blocks[name] = self.blocks.get(name, b"") + block


def run(code: str, recorder: Recorder | None = None) -> CommandResult:
    return run_command([sys.executable, "-c", code], recorder or Recorder())


def test_both_streams_pass_through_and_are_watched(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    recorder = Recorder()
    result = run(
        "import os; os.write(1, bytes(range(256)) * 999); os.write(2, b'err'); raise SystemExit(5)",
        recorder,
    )
    assert (result.status, result.was_stopped, result.watch_error) == (5, False, "")
    out, err = capfdbinary.readouterr()
    assert (out, err) == (bytes(range(256)) * 999, b"err")
    assert recorder.blocks == {"stdout": out, "stderr": err}


def test_a_failing_watcher_does_not_stop_the_output(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    def fail(name: str, block: bytes) -> None:
        raise ValueError(name)

    result = run_command([sys.executable, "-c", "print('x' * 300_000)"], fail)
    assert (result.status, result.watch_error) == (0, "ValueError: stdout")
    assert capfdbinary.readouterr().out == b"x" * 300_000 + b"\n"


def test_the_status_of_a_signal_is_128_plus_its_number() -> None:
    assert run("import os; os.kill(os.getpid(), 9)").status == 137


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("no-such-command-here", 127, "command not found"),
        ("/etc/passwd/x", 127, "command not found"),
        ("/", 126, "Permission denied"),
        ("a\0b", 126, "null byte"),
    ],
)
def test_a_command_that_cannot_start_has_a_status(command: str, status: int, message: str) -> None:
    with pytest.raises(CommandNotStartedError, match=message) as error:
        run_command([command], Recorder())
    assert error.value.status == status


class SendsWhenReady(Recorder):
    """Sends this process a signal when the command prints that it is ready."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def __call__(self, name: str, block: bytes) -> None:
        super().__call__(name, block)
        if b"ready" in block:
            os.kill(os.getpid(), self.number)


WAITS = (
    "import signal, sys, time\nsignal.signal({0}, lambda *_: sys.exit(33))\n"
    "print('ready', flush=True)\n"
    "time.sleep(3600)"
)


@pytest.mark.parametrize(
    ("number", "was_stopped"),
    [
        (signal.SIGTERM, True),
        (signal.SIGHUP, True),
        (signal.SIGUSR1, False),
        (signal.SIGUSR2, False),
    ],
)
def test_signals_are_forwarded_and_the_old_handlers_restored(
    number: signal.Signals, was_stopped: bool
) -> None:
    before = signal.getsignal(number)
    result = run(WAITS.format(number.value), SendsWhenReady(number))
    assert (result.status, result.was_stopped) == (33, was_stopped)
    assert signal.getsignal(number) == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import time; print('ready', flush=True); time.sleep(0.3)"
        result = run(code, SendsWhenReady(signal.SIGHUP))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (result.status, result.was_stopped) == (0, False)


def test_a_background_process_does_not_delay_the_end() -> None:
    recorder = Recorder()
    argv = ["sh", "-c", f"sleep {FOREVER} & echo $!"]
    assert run_command(argv, recorder).status == 0  # else this test never ends
    os.kill(int(b"".join(recorder.blocks.values())), signal.SIGKILL)


@contextlib.contextmanager
def terminal_as_output() -> Iterator[int]:
    """Make standard output and error a terminal of 33 x 77; yield its other side."""
    import fcntl
    import pty
    import struct
    import termios

    outer, inner = pty.openpty()
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    copies = [os.dup(1), os.dup(2)]
    for target in (1, 2):
        os.dup2(inner, target)
    os.close(inner)
    try:
        yield outer
    finally:
        for target, copy in zip((1, 2), copies, strict=True):
            os.dup2(copy, target)
            os.close(copy)
        os.close(outer)


def test_a_terminal_is_replaced_by_a_terminal() -> None:
    recorder = Recorder()
    code = "import os; print(os.isatty(1), os.isatty(2), *os.get_terminal_size()); os.write(2, b'10%\\r20%\\n')"
    with terminal_as_output() as outer:
        result = run(code, recorder)
        shown = read_until(outer, b"20%\r\n")
    assert result.status == 0
    assert recorder.blocks == {"output": b"True True 77 33\n10%\r20%\n"}
    assert shown == b"True True 77 33\r\n10%\r20%\r\n"


def test_the_command_sees_a_new_terminal_size() -> None:
    import fcntl
    import struct
    import termios

    recorder = SendsWhenReady(signal.SIGWINCH)
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGWINCH, lambda *_: (os.write(1, b'%d %d\\n' % os.get_terminal_size()), sys.exit(0)))\n"
        "os.write(1, b'ready\\n')\ntime.sleep(3600)"
    )
    with terminal_as_output() as outer:
        fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 50, 0, 0))
        result = run(code, recorder)
    assert (result.status, result.was_stopped) == (0, False)
    assert recorder.blocks == {"output": b"ready\n50 20\n"}


def test_a_slow_reader_that_does_not_block() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    copies = os.dup(1)
    os.dup2(writer, 1)
    os.close(writer)
    got: list[bytes] = []

    def read() -> None:
        time.sleep(0.3)
        while block := os.read(reader, 65536):
            got.append(block)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        result = run("print('x' * 500_000)")
    finally:
        os.dup2(copies, 1)
        os.close(copies)
    thread.join()
    os.close(reader)
    assert result.status == 0
    assert b"".join(got) == b"x" * 500_000 + b"\n"
