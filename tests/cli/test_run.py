"""`envcheck run`: nothing is changed of a command but that its failure is explained."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.run import _python_of
from envcheck.host.passthrough import CommandResult, convert_exit_status
from tests.cli.test_doctor import ROOT
from tests.patience import FOREVER, PATIENCE, wait_for
from tests.terminals import read_until

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
ENVCHECK = [sys.executable, "-m", "envcheck", "run"]
BYTES = bytes(range(256)) * 1200 + b"no line end"


def run(*command: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    more = {"capture_output": True, "cwd": ROOT, **more}
    return subprocess.run([*ENVCHECK, *command], check=False, **more)


def python(
    code: str, *, options: tuple[str, ...] = ("--",), **more: Any
) -> subprocess.CompletedProcess[bytes]:
    return run(*options, sys.executable, "-c", code, **more)


def test_success_adds_nothing() -> None:
    done = python(f"print({MISMATCH!r})")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == MISMATCH.encode() + os.linesep.encode()


def test_output_passes_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(BYTES)
    code = (
        f"import sys; data = open({str(path)!r}, 'rb').read(); sys.stdout.buffer.write(data); "
        "sys.stdout.buffer.flush(); sys.stderr.buffer.write(data[::-1])"
    )
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, BYTES, BYTES[::-1])


def test_standard_input_is_the_commands() -> None:
    done = run("--", "cat", input=BYTES)
    assert (done.returncode, done.stdout) == (0, BYTES)


def test_both_streams_into_one_pipe_keep_their_order() -> None:
    code = "import os\nfor n in range(300): os.write(1 + n % 2, b'%d\\n' % n)"
    done = python(code, capture_output=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout == b"".join(b"%d\n" % number for number in range(300))


def test_a_failure_is_explained_on_stderr_with_the_commands_status() -> None:
    done = python(f"import sys; print('out'); sys.exit({MISMATCH!r})", options=("--",))
    assert done.returncode == 1
    assert done.stdout == b"out" + os.linesep.encode()
    said = done.stderr.decode()
    assert said.startswith(MISMATCH)
    assert "envcheck: the command ended with 1." in said
    assert "The line that matters: stderr:1" in said
    assert "driver-library-mismatch" in said


def test_a_failure_nobody_knows_takes_one_line() -> None:
    done = python("import sys; sys.exit(7)")
    assert done.returncode == 7
    assert done.stderr.decode().splitlines() == [
        "envcheck: the command ended with 7; its output holds nothing known. `envcheck doctor` judges this machine."
    ]


def test_an_exception_without_a_known_cause_is_named() -> None:
    done = python("print('epoch 1'); {}['loss']", options=("-q", "--"))
    assert done.returncode == 1
    assert "program-error" in done.stderr.decode()  # the program's own, not the environment
    done = python("raise RuntimeError('odd')", options=("-q", "--"))
    assert done.returncode == 1
    said = "the last error is: RuntimeError: odd; no cause is known."
    assert done.stderr.decode().splitlines()[-1] == f"envcheck: the command ended with 1; {said}"


def test_options_of_the_command_stay_its_own() -> None:
    done = run(
        "-q",
        sys.executable,
        "-c",
        "import sys; print(sys.argv[1:]); sys.exit(9)",
        "--quiet",
        "--",
        "-v",
    )
    assert done.returncode == 9
    assert done.stdout.strip() == b"['--quiet', '--', '-v']"
    assert (
        done.stderr.strip()
        == b"envcheck: the command ended with 9; its output holds nothing known."
    )


@pytest.mark.needs("posix")
def test_a_signal_is_128_and_its_number() -> None:
    assert run("--", "sh", "-c", "kill -KILL $$").returncode == 137
    assert run("--", "sh", "-c", "kill -SEGV $$").returncode == 139


@pytest.mark.needs("posix")
def test_a_command_that_was_killed_is_explained_by_that() -> None:
    done = run("--", "sh", "-c", "echo epoch 1; kill -KILL $$")
    assert (done.returncode, done.stdout) == (137, b"epoch 1\n")
    assert "The line that matters: exit status:1\n  > Killed\n" in done.stderr.decode()
    assert "os-limit" in done.stderr.decode()


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (255, 255, ""),
        (0xC0000005, -0x3FFFFFFB, "0xC0000005"),  # Windows: access violation
        (0xC000001D, -0x3FFFFFE3, "0xC000001D"),
        pytest.param(-9, 137, "Killed", marks=pytest.mark.needs("posix")),
        pytest.param(-4, 132, "Illegal instruction", marks=pytest.mark.needs("posix")),
        # a shell's word for its child
        pytest.param(139, 139, "Segmentation fault", marks=pytest.mark.needs("posix")),
    ],
)
def test_what_the_end_of_a_command_says(code: int, status: int, words: str) -> None:
    outcome = CommandResult(convert_exit_status(code), (), "")
    assert (outcome.status, outcome.crash_name) == (status, words)
    assert (outcome.status & 0xFFFFFFFF) == (code & 0xFFFFFFFF) or code < 0


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["no-such-command-here"], 127, "no-such-command-here: command not found"),
        (["/nowhere/python"], 127, "/nowhere/python: command not found"),
        ([str(ROOT)], 126, "Permission denied"),
        ([], 2, "name the command"),
    ],
)
def test_what_cannot_be_started_is_a_sentence(command: list[str], status: int, said: str) -> None:
    done = run("--", *command)
    assert (done.returncode, done.stdout) == (status, b"")
    assert said in done.stderr.decode()


@pytest.mark.needs("posix")
def test_a_script_without_its_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("#!/nowhere/python\n")
    path.chmod(0o755)
    done = run("--", str(path))
    assert done.returncode == 127
    assert b"its interpreter or loader is missing" in done.stderr


@pytest.mark.needs("posix")
@pytest.mark.parametrize(
    "loop", [f"sleep {FOREVER}", "while true; do echo more; done"], ids=["silent", "busy"]
)
def test_a_process_left_behind_is_not_waited_for(tmp_path: Path, loop: str) -> None:
    with (tmp_path / "output").open("wb") as output:
        done = run(
            "--",
            "sh",
            "-c",
            f"({loop}) & echo $! >&2; exit 3",
            capture_output=False,
            stdout=output,
            stderr=output,
        )
    number = re.search(rb"^\d+$", (tmp_path / "output").read_bytes(), re.MULTILINE)
    assert number is not None
    os.kill(int(number[0]), signal.SIGKILL)  # else this test never ends
    assert done.returncode == 3


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Make a pipe with a name; a process that reads it waits until the test writes."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def leaving(gate: Path, *, status: int = 0) -> tuple[str, ...]:
    """Write a command that leaves a process in the background, which writes once the gate opens."""
    late = f"exec 9>&-; read line <'{gate}'; echo late; echo error >&2; touch '{gate}.done'"
    return ("--", "sh", "-c", f"({late}) & echo early; exit {status}")


@pytest.mark.needs("posix")
def test_a_process_left_behind_writes_on_into_pipes(gate: Path) -> None:
    held = gate.with_name("held")
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    command = ["sh", "-c", 'exec 9>"$0"; exec "$@"', str(held), *ENVCHECK, *leaving(gate, status=7)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, start_new_session=True
    ) as process:
        assert process.wait(PATIENCE) == 7
        assert os.read(reader, 1) == b""  # nothing that stays holds what the caller opened
        # Ctrl-C on what is left: a shell's background process ignores it
        os.killpg(process.pid, signal.SIGINT)
        gate.write_text("\n")
        said, errors = process.communicate(timeout=PATIENCE)
    os.close(reader)
    assert said == b"early\nlate\n"
    assert errors.startswith(b"envcheck: the command ended with 7; ")
    assert errors.endswith(b"\nerror\n")
    assert Path(f"{gate}.done").exists()


@pytest.mark.needs("posix")
def test_a_process_left_behind_writes_on_into_files(gate: Path, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as output, (tmp_path / "err").open("wb") as errors:
        done = run(*leaving(gate), capture_output=False, stdout=output, stderr=errors)
    assert done.returncode == 0
    assert (tmp_path / "out").read_bytes() == b"early\n"
    gate.write_text("\n")
    # in two pieces, which may come one after the other
    written = [tmp_path / "out", tmp_path / "err"]
    wait_for(
        lambda: [path.read_bytes() for path in written] == [b"early\nlate\n", b"error\n"],
        "the output at the end",
    )


@pytest.mark.needs("posix")
def test_a_process_left_behind_writes_on_to_a_terminal(gate: Path) -> None:
    import pty

    outer, inner = pty.openpty()
    with subprocess.Popen(
        [*ENVCHECK, *leaving(gate)], stdin=inner, stdout=inner, stderr=inner, cwd=ROOT
    ) as process:
        assert process.wait(PATIENCE) == 0
    gate.write_text("\n")
    # What follows at once was not shown in one of seven whole runs of the suite, for a reason that
    # is not known yet.
    assert read_until(outer, b"late\r\n").startswith(b"early\r\nlate\r\n")
    os.close(inner)
    os.close(outer)


@pytest.mark.needs("posix")
def test_a_slow_reader_gets_all_output() -> None:
    with subprocess.Popen(
        [*ENVCHECK, "--", "head", "-c", "150000", "/dev/zero"], stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        time.sleep(2)  # longer than a background process is read
        assert process.stdout.read() == bytes(150_000)
    assert process.returncode == 0


@pytest.mark.needs("posix")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({number.value}, lambda *_: sys.exit(33))\n"
        "print('ready', flush=True)\n"
        # Python 3.14 may begin to sleep with a signal not yet looked at
        "for _ in range(36000): time.sleep(0.1)"
    )
    with subprocess.Popen(
        [*ENVCHECK, "--", sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 33
    told_to_end = number != signal.SIGUSR1
    assert (errors == b"") == told_to_end  # who ends a command needs no explanation of its end


@pytest.mark.needs("posix")
def test_a_reader_that_leaves_ends_the_command() -> None:
    command = f"{sys.executable} -m envcheck run -- yes | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=ROOT, check=False)
    assert (done.stdout, done.stderr) == (b"y\n", b"")


@pytest.mark.needs("posix")
def test_on_a_terminal_the_command_has_one_of_the_same_size() -> None:
    import fcntl
    import pty
    import struct
    import termios

    outer, inner = pty.openpty()
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    code = (
        "import os, sys; print(sys.stdout.isatty(), sys.stderr.isatty(), os.get_terminal_size()); "
        "sys.stdout.write('10%\\r20%\\r\\x1b[31mred\\x1b[0m\\n')"
    )
    with subprocess.Popen(
        [*ENVCHECK, "--", sys.executable, "-c", code],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        cwd=ROOT,
    ) as process:
        os.close(inner)
        said = b""
        with contextlib.suppress(OSError):
            while block := os.read(outer, 4096):
                said += block
    os.close(outer)
    assert process.returncode == 0
    assert said == (
        b"True True os.terminal_size(columns=77, lines=33)\r\n10%\r20%\r\x1b[31mred\x1b[0m\r\n"
    )


@pytest.mark.needs("posix")
def test_the_python_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = tmp_path / "python3.11"
    interpreter.write_text("")
    interpreter.chmod(0o755)
    script = tmp_path / "torchrun"
    script.write_text(f"#!{interpreter}\nimport torch\n")
    script.chmod(0o755)
    shell = tmp_path / "start"
    shell.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _python_of("python3.11") == str(interpreter)
    assert _python_of(str(interpreter)) == str(interpreter)
    assert _python_of("torchrun") == str(interpreter)
    assert _python_of(str(shell)) == ""
    assert _python_of("missing") == ""


@pytest.mark.needs("posix")
def test_ctrl_c_reaches_the_command_once_and_needs_no_explanation() -> None:
    import pty

    code = (
        "import time, sys\n"
        f"try:\n    print('ready', {MISMATCH!r}, flush=True)\n    time.sleep(3600)\n"
        "except KeyboardInterrupt:\n"
        "    print('first', flush=True)\n"
        "    time.sleep(0.5)  # a second one would end this with a traceback\n"
        "    print('cleaned up', flush=True)\n    sys.exit(4)\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [*ENVCHECK, "--", sys.executable, "-c", code])
    said = b""
    with contextlib.suppress(OSError):
        while block := os.read(terminal, 4096):
            if b"ready" in block and b"ready" not in said:
                os.write(terminal, b"\x03")
            said += block
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 4, said
    assert said.endswith(b"first\r\ncleaned up\r\n"), said
    assert b"envcheck:" not in said
