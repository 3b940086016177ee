"""Let two folders change places, in one go where the system can."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_RENAME_SWAP = 2  # macOS: sys/stdio.h


def change_places(first: Path, second: Path, aside: Path) -> None:
    """Let two folders change places; where that is no one call, `first` lies `aside` for a moment. Raises OSError."""
    if not _exchanged(first, second):
        os.rename(first, aside)
        os.rename(second, first)
        os.rename(aside, second)


def _exchanged(first: Path, second: Path) -> bool:
    from ctypes import CDLL

    if os.name != "posix":
        return False
    names, library = [os.fsencode(path) for path in (first, second)], CDLL(None)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        return bool(library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(names[0], names[1], _RENAME_SWAP) == 0)
    return False


def identity_of(path: Path) -> int:
    """Return what stays with a folder when it is renamed: its inode number; 0 where there is nothing."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0
