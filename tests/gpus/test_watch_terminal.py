"""A watch at a terminal, as the kernel gives one: its size changes, and Ctrl-C is typed."""

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

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))  # tells the program, too


def test_a_watch_follows_its_terminal_and_gives_the_cursor_back() -> None:
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        argv = [sys.executable, "-m", "envcheck", "gpus", "--watch", "0.1", "--color", "always"]
        os.execve(sys.executable, argv, environment({"TERM": "xterm"}))
    for rows, columns in SIZES:
        resize(terminal, rows, columns)
        assert b"\x1b[2K" in read_until(terminal, b"\x1b[2K")  # drawn anew
    os.write(terminal, b"\x03")
    said = read_until(terminal, b"Interrupted.")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"Traceback" not in said
    assert b"\x1b[?25h" in said  # the cursor is shown again
