"""Logs are read in blocks, plain or compressed; other files are rejected with a sentence."""

from __future__ import annotations

import gzip
import os
import random
import threading
import time
from pathlib import Path

import pytest

from envcheck.host import log_files
from envcheck.host.log_files import BLOCK, LogFileError, follow_log, read_descriptor, read_log

TEXT = b"".join(b"step %d loss 0.5\n" % number for number in range(200_000))


def read(path: Path) -> tuple[bytes, list[str]]:
    notes: list[str] = []
    blocks = list(read_log(str(path), notes))
    assert all(0 < len(block) <= BLOCK for block in blocks)
    return b"".join(blocks), notes


@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT, 1, mtime=0),
        gzip.compress(TEXT[:1000], mtime=0) + gzip.compress(TEXT[1000:], 1, mtime=0),
        gzip.compress(TEXT, 1, mtime=0) + b"\0" * 512,
        gzip.compress(b"", mtime=0) + gzip.compress(TEXT, 1, mtime=0),
    ],
    ids=["plain", "gzip", "members", "padded", "empty-member"],
)
def test_plain_and_gzip(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(packed)
    assert read(path) == (TEXT, [])


def test_a_gzip_file_still_being_written(tmp_path: Path) -> None:
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(TEXT, 1)[:-2000])
    text, notes = read(path)
    assert TEXT.startswith(text)
    assert len(text) > len(TEXT) // 2
    assert "is incomplete" in notes[0]


@pytest.mark.parametrize(
    "text", [TEXT, random.Random(0).randbytes(20_000).hex().encode()], ids=["long", "one-block"]
)
def test_text_before_the_damage_of_a_gzip_file_is_read(tmp_path: Path, text: bytes) -> None:
    packed = bytearray(gzip.compress(text, 1, mtime=0))
    packed[len(packed) // 2 :] = random.Random(1).randbytes(20_000)
    path = tmp_path / "train.log.gz"
    path.write_bytes(packed)
    found, notes = read(path)
    assert found[: len(text) // 3] == text[: len(text) // 3]
    assert [note.partition(": ")[2].partition(" (")[0] for note in notes] == [
        "the gzip data is damaged; only the part before the damage was read"
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\x01\x01", "a program or library"),
        (b"\x89PNG\r\n\x1a\n", "an image"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd -dc"),
        (b"\xfd7zXZ\x00", "xz -dc"),
        (b"BZh91AY", "bzip2 -dc"),
        (b"PK\x03\x04", "unzip -p"),
        (b"\x1f\x8b\x08 no gzip", "starts like a gzip file"),
        (bytes(range(1, 32)) * 30, "contains no text"),
        (b"\0" * 3000, "contains no text"),
        (gzip.compress(bytes(range(1, 32)) * 30, mtime=0), "contains no text"),
    ],
)
def test_files_that_are_no_logs_are_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(LogFileError, match=message):
        read(path)


def test_files_that_cannot_be_opened_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(LogFileError, match="does not exist"):
        read(tmp_path / "missing")
    with pytest.raises(LogFileError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(LogFileError, match="cannot read"):
        list(read_log("a\0b", []))


def test_an_unreadable_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "train.log"
    path.write_text("x")
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(LogFileError, match="may not read"):
        read(path)


def test_escapes_and_utf16_are_text() -> None:
    log_files.reject_binary("x", b"\x1b[31m\x07\x08\tred\r\n" * 5)
    log_files.reject_binary("x", "red\r\n".encode("utf-16-le"))
    log_files.reject_binary("x", b"")


@pytest.mark.parametrize("sent", [TEXT[:100_000], gzip.compress(TEXT[:100_000], mtime=0), b""])
def test_a_pipe_is_read_to_its_end(sent: bytes) -> None:
    reader, writer = os.pipe()
    thread = threading.Thread(target=_pour, args=(writer, sent))
    thread.start()
    notes: list[str] = []
    text = b"".join(read_descriptor(reader, notes))
    thread.join()
    os.close(reader)
    assert (text, notes) == (TEXT[:100_000] if sent else b"", [])


def _pour(writer: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(writer, view) :]
    os.close(writer)


def test_a_closed_standard_input_is_reported() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    notes: list[str] = []
    assert list(read_descriptor(reader, notes)) == []
    assert "reading stopped early" in notes[0]


def collect(path: Path, steps: list[tuple[bytes, object]]) -> list[bytes]:
    """Follow a file; on b"" take the next step; return what arrived between the steps."""
    got: list[bytes] = [b""]
    todo = iter(steps)
    for block in follow_log(str(path), pause=0.01):
        if block:
            got[-1] += block
            continue
        step = next(todo, None)
        if step is None:
            return got
        step[1](step[0])  # type: ignore[operator]
        got.append(b"")
    raise AssertionError("following never ends by itself")


def test_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"one\n")

    def append(data: bytes) -> None:
        with path.open("ab") as stream:
            stream.write(data)

    assert collect(path, [(b"two\n", append), (b"three\n", append)]) == [
        b"one\n",
        b"two\n",
        b"three\n",
    ]


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"a long first line\n")
    assert collect(path, [(b"new\n", path.write_bytes)])[-1] == b"new\n"


def test_a_rotated_file_is_followed_by_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"one\n")

    def rotate(data: bytes) -> None:
        with path.open("ab") as stream:
            stream.write(b"last\n")
        path.rename(tmp_path / "train.log.1")
        path.write_bytes(data)

    def nothing(_: bytes) -> None:
        time.sleep(0.01)

    got = collect(path, [(b"two\n", rotate), (b"", nothing), (b"", nothing)])
    assert b"".join(got) == b"one\nlast\ntwo\n"


def test_a_file_that_does_not_exist_yet(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    assert log_files.is_not_created_yet(str(path))
    assert not log_files.is_not_created_yet(str(tmp_path / "no folder" / "train.log"))
    assert not log_files.is_not_created_yet(str(tmp_path))
    assert collect(path, [(b"one\n", path.write_bytes), (b"", lambda _: None)]) == [
        b"",
        b"one\n",
        b"",
    ]
    with pytest.raises(LogFileError, match="does not exist"):
        list(follow_log(str(tmp_path / "no folder" / "train.log")))


@pytest.mark.needs("posix")
def test_a_named_pipe_is_followed_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(TEXT[:100_000],))
    thread.start()
    assert b"".join(follow_log(str(path))) == TEXT[:100_000]
    thread.join()


def test_a_file_that_is_missing_for_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"one\n")

    def remove(_: bytes) -> None:
        path.unlink()

    got = collect(path, [(b"", remove), (b"back\n", path.write_bytes), (b"", lambda _: None)])
    assert b"".join(got) == b"one\nback\n"
