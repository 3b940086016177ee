"""Read logs block by block: plain files, gzip files, standard input, and files that grow."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import sys
import time
from typing import Any, BinaryIO, Iterator, List

BLOCK = 1 << 20  # bytes read at a time
_PIPE = 1 << 16  # bytes that a pipe holds
_F_SETPIPE_SZ = 1031  # linux/fcntl.h; Python's fcntl names it from 3.10 on
_GZIP = b"\x1f\x8b"
_PACKED = (
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"\xfd7zXZ\x00", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
    (b"PK\x03\x04", "unzip -p"),
)
_PROGRAMS = ((b"\x7fELF", "a program or library"), (b"\x89PNG", "an image"), (b"%PDF-", "a PDF document"))


class LogFileError(Exception):
    """A log cannot be read; the message says why, and what to do where something can be done."""


def read_log(path: str, notes: List[str]) -> Iterator[bytes]:
    """Yield the bytes of a log in blocks, unpacked when it is gzip; `notes` gets what cut the reading short.

    Raises LogFileError, at the first block at the latest, for what is no log that can be read.
    """
    with _open_log(path) as stream:
        try:
            first = stream.read(BLOCK)
            if first.startswith(_GZIP):
                yield from _unpack_gzip(path, first, stream, notes)
                return
            reject_binary(path, first)
            while first:
                yield first
                first = stream.read(BLOCK)
        except OSError as error:
            notes.append(f"{path}: reading stopped early: {error.strerror}")


def read_descriptor(descriptor: int, notes: List[str]) -> Iterator[bytes]:
    """Yield what arrives at a pipe or terminal until its end, as soon as it arrives."""
    try:
        block = os.read(descriptor, BLOCK)
        if block.startswith(_GZIP):
            with open(descriptor, "rb", closefd=False) as stream:
                yield from _unpack_gzip("standard input", block, stream, notes)
            return
        reject_binary("standard input", block)
        if len(block) >= _PIPE:
            _enlarge_pipe(descriptor)
        while block:
            yield block
            block = os.read(descriptor, BLOCK)
    except OSError as error:
        notes.append(f"standard input: reading stopped early: {error.strerror}")


def _enlarge_pipe(descriptor: int) -> None:
    """Let a pipe of Linux hold a block: its two ends then wait for each other sixteen times less often."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        if sys.platform == "linux":
            fcntl.fcntl(descriptor, _F_SETPIPE_SZ, BLOCK)


def is_not_created_yet(path: str) -> bool:
    """Tell whether a log is not there yet, but the folder that it would appear in is."""
    return not os.path.lexists(path) and os.path.isdir(os.path.dirname(path) or os.curdir)


def follow_log(path: str, pause: float = 0.25) -> Iterator[bytes]:
    """Yield what is and what gets written to a file, for ever; b"" after each pause without news.

    A file that is awaited is waited for. One that was truncated is read again from its start; one that was replaced
    (rotated) is read to its end, then its successor from the start. A pipe has an end, and no way back.
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
    here = os.fstat(stream.fileno())
    if here.st_size < stream.tell():
        stream.seek(0)
    with contextlib.suppress(OSError, LogFileError):  # between two files of a rotation there is none
        there = os.stat(path)
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) and stream.tell() >= here.st_size:
            new = _open_log(path)
            stream.close()
            return new
    return stream


def _open_log(path: str) -> BinaryIO:
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISDIR(kind):
            raise LogFileError(f"{path} is a folder: name the log file in it.")
        return open(path, "rb")
    except FileNotFoundError:
        raise LogFileError(f"there is no file {path}.") from None
    except PermissionError:
        raise LogFileError(f"{path} may not be read by this user.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LogFileError(f"cannot read {path}: {reason}.") from None


def reject_binary(name: str, block: bytes) -> None:
    """Raise LogFileError when a file begins like one that holds no text."""
    for magic, command in _PACKED:
        if block.startswith(magic):
            raise LogFileError(f"{name} is packed: {command} FILE | envcheck explain -")
    for magic, what in _PROGRAMS:
        if block.startswith(magic):
            raise LogFileError(f"{name} is {what}, not a log.")
    head = block[:65536]
    text = head.translate(None, delete=b"\x00")  # UTF-16 is half zeros, and a log cut off by a crash ends in them
    odd = len(text) - len(text.translate(None, delete=_CONTROLS))
    if head and (not text or odd > len(text) // 10):
        raise LogFileError(f"{name} holds no text: envcheck reads what a program printed.")


_CONTROLS = bytes(number for number in range(32) if number not in b"\a\b\t\n\v\f\r\x1b")


def _unpack_gzip(name: str, first: bytes, stream: BinaryIO, notes: List[str]) -> Iterator[bytes]:
    import zlib  # most logs are not packed

    members = _GzipUnpacker()
    checked = False
    try:
        for packed in itertools.chain((first,), iter(lambda: stream.read(BLOCK), b"")):
            for text in members.unpack(packed):
                if not checked:
                    reject_binary(name, text)
                    checked = True
                yield text
    except zlib.error as error:
        if not checked:
            raise LogFileError(f"{name} begins like a gzip file and is none ({error}).") from None
        notes.append(f"{name}: the gzip data is damaged; what comes before the damage was read ({error})")
        return
    if members.inside:
        notes.append(f"{name}: the gzip data has no end mark; what is there was read")


def _make_decompressor() -> Any:
    import zlib

    return zlib.decompressobj(wbits=31)


class _GzipUnpacker:
    """Unpack gzip members that stand one behind the other, in blocks of bounded size."""

    def __init__(self) -> None:
        self._unpacker = _make_decompressor()
        self.inside = False

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        while packed:
            self.inside = True
            text = self._unpacker.decompress(packed, BLOCK)
            if text:
                yield text
            packed = self._unpacker.unconsumed_tail
            if self._unpacker.eof:
                packed = self._unpacker.unused_data.lstrip(b"\0")  # tapes and some writers pad with zeros
                self._unpacker = _make_decompressor()
                self.inside = False
