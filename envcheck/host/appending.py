"""Append lines that must outlast a power failure."""

from __future__ import annotations

import os


def append_durably(path: str, line: str) -> None:
    """Append a line to a file, made where it is not there, and have it on the disk. Raises OSError."""
    is_new = not os.path.lexists(path)
    data = line.encode("utf-8") + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if _is_cut_off(descriptor):
            data = b"\n" + data  # what a full disk or a power failure left of the line before stays by itself
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new and os.name == "posix":
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)  # else the file's name may be lost, and with it all lines
        finally:
            os.close(folder)


def _is_cut_off(descriptor: int) -> bool:
    if not os.lseek(descriptor, 0, os.SEEK_END):
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"
