"""--watch on a real terminal: its size changes, and Ctrl-C ends it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.faults.doctor import environment
from tests.terminals import read_until

pytestmark = pytest.mark.needs("posix")
ROOT = Path(__file__).parents[2]
SIZES = [(24, 80), (3, 20), (1, 1), (60, 200)]


def resize(terminal: int, rows: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    # signals the program
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_a_watch_follows_its_terminal_and_restores_the_cursor() -> None:
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        argv = [sys.executable, "-m", "envcheck", "gpus", "--watch", "0.1", "--color", "always"]
        os.execve(sys.executable, argv, environment({"TERM": "xterm"}))
    for rows, columns in SIZES:
        resize(terminal, rows, columns)
        assert b"\x1b[2K" in read_until(terminal, b"\x1b[2K")  # redrawn
    os.write(terminal, b"\x03")
    output = read_until(terminal, b"Interrupted.")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"Traceback" not in output
    assert b"\x1b[?25h" in output  # the cursor is shown again
