"""The ways out of a command: pipes, or terminals like this program's own."""

from __future__ import annotations

import contextlib
import os
from typing import Any, List, Tuple


class Outlet:
    """One way out of the command: the end it writes to, the end we read, and where that goes."""

    def __init__(self, name: str, target: int) -> None:
        self.name = name
        self.target = target
        self.is_terminal = os.name == "posix" and os.isatty(target)
        self.outer, self.inner = _terminal(target) if self.is_terminal else os.pipe()


def same_file(first: int, second: int) -> bool:
    """Tell whether two descriptors lead to the same file, pipe or terminal."""
    try:
        return os.path.sameopenfile(first, second)
    except OSError:
        return False


def _terminal(target: int) -> Tuple[int, int]:
    """Open a terminal like the one at `target`: same size, and what is written to it comes out unchanged."""
    import pty
    import termios

    outer, inner = pty.openpty()
    with contextlib.suppress(termios.error):
        settings: List[Any] = termios.tcgetattr(target)
        settings[1] &= ~termios.OPOST  # the real terminal turns line feeds into line ends
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, settings)
    copy_size(target, outer)
    return outer, inner


def copy_size(source: int, target: int) -> None:
    """Give one terminal the size of another."""
    import fcntl
    import termios

    with contextlib.suppress(OSError):
        fcntl.ioctl(target, termios.TIOCSWINSZ, fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8))
