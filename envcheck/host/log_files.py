"""Read logs in blocks: plain files, gzip files, standard input, and files that grow."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import time
from typing import Any, BinaryIO, Iterator, List

from envcheck.model import UserError

BLOCK = 1 << 20  # bytes per read
_PIPE = 1 << 16  # default size of a pipe in bytes
_F_SETPIPE_SZ = 1031  # linux/fcntl.h; fcntl has it from Python 3.10 on
_GZIP = b"\x1f\x8b"
_COMPRESSED = (
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"\xfd7zXZ\x00", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
    (b"PK\x03\x04", "unzip -p"),
)
_BINARIES = (
    (b"\x7fELF", "a program or library"),
    (b"\x89PNG", "an image"),
    (b"%PDF-", "a PDF document"),
)


class LogFileError(UserError):
    """A log cannot be read; the message says why and, where possible, what to do."""


STANDARD_INPUT = "-"


_MOST_LOGS = 4096  # of a folder


def list_logs(name: str) -> List[str]:
    """List the files of a folder, such as one log for each rank; a file stands for itself."""
    if name == STANDARD_INPUT or not os.path.isdir(name):
        return [name]
    paths = [os.path.join(name, file) for file in sorted(os.listdir(name)) if file[0] != "."]
    files = [path for path in paths if os.path.isfile(path)]
    if not files:
        raise LogFileError(f"{name} is a folder without a file in it.")
    if len(files) > _MOST_LOGS:
        raise LogFileError(f"{name} holds {len(files)} files: more than {_MOST_LOGS} are not read.")
    return files


def read_named_log(name: str, notes: List[str]) -> Iterator[bytes]:
    """Yield the blocks of a file, or of standard input for "-"."""
    if name == STANDARD_INPUT:
        return read_descriptor(0, notes)
    return read_log(name, notes)


def read_log(path: str, notes: List[str]) -> Iterator[bytes]:
    """Yield the bytes of a log in blocks, decompressed for gzip.

    Problems that cut it short are added to `notes`.

    Raises LogFileError with the first block for a file that is not a readable log.
    """
    with _open_log(path) as stream:
        yield from _read_blocks(path, stream.fileno(), notes)


def read_descriptor(descriptor: int, notes: List[str]) -> Iterator[bytes]:
    """Yield the bytes of a pipe or terminal as they arrive."""
    return _read_blocks("standard input", descriptor, notes)


def _read_blocks(name: str, descriptor: int, notes: List[str]) -> Iterator[bytes]:
    try:
        block = os.read(descriptor, BLOCK)
        if block.startswith(_GZIP):
            yield from _unpack_gzip(name, _Packed(block, descriptor), notes)
            return
        reject_binary(name, block)
        if len(block) >= _PIPE:
            _enlarge_pipe(descriptor)
        while block:
            yield block
            block = os.read(descriptor, BLOCK)
    except OSError as error:
        notes.append(f"{name}: reading stopped early: {error.strerror}")


def _enlarge_pipe(descriptor: int) -> None:
    """Enlarge a pipe on Linux to a block.

    Its ends then wait for each other sixteen times less often.
    """
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        if sys.platform == "linux":
            fcntl.fcntl(descriptor, _F_SETPIPE_SZ, BLOCK)


def is_not_created_yet(path: str) -> bool:
    """Return whether a log does not exist yet but its folder does."""
    return not os.path.lexists(path) and os.path.isdir(os.path.dirname(path) or os.curdir)


def follow_log(path: str, pause: float = 0.25) -> Iterator[bytes]:
    """Yield the content of a file and what is written to it, without end.

    B"" after each pause without new data.

    Waits for a file that does not exist yet. Reads a truncated file again from its start, and a
    rotated one to its end and then its successor. A pipe ends.
    """
    while is_not_created_yet(path):
        yield b""
        time.sleep(pause)
    stream = _open_log(path)
    try:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            yield from read_descriptor(stream.fileno(), [])
            return
        reject_binary(path, stream.read(4096))
        stream.seek(0)
        while True:
            block = stream.read(BLOCK)
            if block:
                yield block
                continue
            yield b""
            time.sleep(pause)
            stream = _reopen_if_rotated(path, stream)
    finally:
        stream.close()


def _reopen_if_rotated(path: str, stream: BinaryIO) -> BinaryIO:
    opened = os.fstat(stream.fileno())
    if opened.st_size < stream.tell():
        stream.seek(0)
    with contextlib.suppress(OSError, LogFileError):  # a rotation has not created the new file yet
        current = os.stat(path)
        is_replaced = (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino)
        if is_replaced and stream.tell() >= opened.st_size:
            new = _open_log(path)
            stream.close()
            return new
    return stream


def _open_log(path: str) -> BinaryIO:
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISDIR(kind):
            raise LogFileError(f"{path} is a folder; name a log file in it.")
        return open(path, "rb")
    except FileNotFoundError:
        raise LogFileError(f"{path} does not exist.") from None
    except PermissionError:
        raise LogFileError(f"this user may not read {path}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LogFileError(f"cannot read {path}: {reason}.") from None


def reject_binary(name: str, block: bytes) -> None:
    """Raise LogFileError for the first block of a file that is compressed or not text."""
    for magic, command in _COMPRESSED:
        if block.startswith(magic):
            raise LogFileError(f"{name} is compressed: run {command} FILE | envcheck explain -")
    for magic, what in _BINARIES:
        if block.startswith(magic):
            raise LogFileError(f"{name} is {what}, not a log.")
    head = block[:65536]
    # half of UTF-16, and the end of a log after a crash, is zeros
    text = head.translate(None, delete=b"\x00")
    odd = len(text) - len(text.translate(None, delete=_CONTROLS))
    if head and (not text or odd > len(text) // 10):
        raise LogFileError(
            f"{name} contains no text; envcheck reads the printed output of programs."
        )


_CONTROLS = bytes(number for number in range(32) if number not in b"\a\b\t\n\v\f\r\x1b")


_STEP = 4096  # bytes; with a damage, at most so much of the data before it is lost


class _Packed:
    """A gzip file of which the first block was read already."""

    def __init__(self, first: bytes, descriptor: int) -> None:
        self._first, self._descriptor = io.BytesIO(first), descriptor

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer than are asked for."""
        few = min(size, _STEP)
        return self._first.read(few) or os.read(self._descriptor, few)


# `packed` is a _Packed: GzipFile calls no more than its read
def _unpack_gzip(name: str, packed: Any, notes: List[str]) -> Iterator[bytes]:
    import gzip  # most logs are not compressed
    import zlib

    is_checked = False
    unpacked = gzip.GzipFile(fileobj=packed)
    try:
        text = unpacked.read1(BLOCK)
        while text:
            if not is_checked:
                reject_binary(name, text)
                is_checked = True
            yield text
            text = unpacked.read1(BLOCK)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        if not is_checked:
            raise LogFileError(
                f"{name} starts like a gzip file but is not one ({error})."
            ) from None
        if isinstance(error, EOFError):
            end = "is incomplete; only the part that exists was read"
        else:
            end = f"is damaged; only the part before the damage was read ({error})"
        notes.append(f"{name}: the gzip data {end}")
