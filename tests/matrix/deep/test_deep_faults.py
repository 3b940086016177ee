"""Faults of the binaries of a wheel: one clear error each, and the matrix is unchanged."""

from __future__ import annotations

import io
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from envcheck.matrix.refresh import deep as deep_stream
from envcheck.matrix.refresh.index import ArtifactError
from tests.matrix.deep.deep_index import (
    FILE,
    SAMPLE,
    SHA256,
    SOLVER,
    WHEEL,
    deepened,
    fill,
    unread,
    with_field,
)
from tests.matrix.index.server import Handler, LocalIndex, serve

NOISE = bytes((number * 7919 >> 3) & 0xFF for number in range(40_000))


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with serve() as served:
        fill(served, {SOLVER: SAMPLE})
        yield served


@pytest.fixture(scope="module")
def matrix() -> dict[str, Any]:
    return unread()


def failure(
    index: LocalIndex, matrix: dict[str, Any], cache: Path | None = None, **settings: Any
) -> str:
    """Read the wheel's binaries and return the error, which names the wheel and leaves the matrix as it was."""
    before = str(matrix)
    with pytest.raises(ArtifactError) as caught:
        deepened(index, matrix, cache, **settings)
    assert str(matrix) == before
    assert str(caught.value).startswith(WHEEL)
    assert str(caught.value).endswith(".")
    return str(caught.value)


def test_wheel_that_vanished(index: LocalIndex, matrix: dict[str, Any]) -> None:
    index.answers[FILE] = lambda handler: handler.reply(404, b"")
    assert "the server answered with status 404" in failure(index, matrix)


def test_no_range_support(index: LocalIndex, matrix: dict[str, Any]) -> None:
    index.ranges = "none"
    assert "does not serve byte ranges" in failure(index, matrix)


def later(index: LocalIndex, answer: Callable[[Handler, int], None]) -> None:
    """Answer the range of packed bytes, the only one of two kilobytes to sixty, so; other ranges as always."""

    def choose(handler: Handler) -> None:
        first, _, last = handler.headers["Range"].partition("=")[2].partition("-")
        if first and 2000 < int(last) - int(first) < 60_000:
            answer(handler, int(first))
        else:
            handler._file(handler.index.archive(WHEEL))

    index.answers[FILE] = choose


def test_ranges_that_stop_being_served(index: LocalIndex, matrix: dict[str, Any]) -> None:
    later(index, lambda handler, _: handler.reply(200, handler.index.archive(WHEEL)))
    assert "does not serve byte ranges" in failure(index, matrix)


def test_other_bytes_than_requested(index: LocalIndex, matrix: dict[str, Any]) -> None:
    span = "bytes 0-9/20000"
    later(index, lambda handler, _: handler.reply(206, b"x" * 10, Content_Range=span))
    assert "other bytes than requested" in failure(index, matrix)


def test_stream_that_is_cut_off(index: LocalIndex, matrix: dict[str, Any]) -> None:
    def cut(handler: Handler, first: int) -> None:
        whole = handler.index.archive(WHEEL)
        last = handler.headers["Range"].rpartition("-")[2]
        data = whole[first : int(last) + 1][:100]
        handler.reply(206, data, Content_Range=f"bytes {first}-{last}/{len(whole)}")

    later(index, cut)
    assert "the response is incomplete" in failure(index, matrix)


def test_server_that_stalls(index: LocalIndex, matrix: dict[str, Any]) -> None:
    def stall(handler: Handler, first: int) -> None:
        handler.send_response(206)
        last = handler.headers["Range"].rpartition("-")[2]
        handler.send_header(
            "Content-Range", f"bytes {first}-{last}/{len(handler.index.archive(WHEEL))}"
        )
        handler.send_header("Content-Length", str(int(last) - first + 1))
        handler.end_headers()
        handler.never()

    later(index, stall)
    assert "timed out" in failure(index, matrix, read_timeout=1.0)


def test_download_that_sends_slowly(
    index: LocalIndex, matrix: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drip(handler: Handler, first: int) -> None:
        data = handler.index.archive(WHEEL)
        last = int(handler.headers["Range"].rpartition("-")[2])
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        handler.send_header("Content-Length", str(last - first + 1))
        handler.end_headers()
        for place in range(first, last, 256):
            handler.wfile.write(data[place : min(place + 256, last + 1)])
            time.sleep(0.1)

    monkeypatch.setattr(deep_stream, "_SLOWEST", 1 << 40)
    monkeypatch.setattr(deep_stream, "_CHUNK", 256)
    later(index, drip)
    assert "timed out" in failure(index, matrix, whole_timeout=0.5)


def test_truncated_zip(index: LocalIndex, matrix: dict[str, Any]) -> None:
    index.archives[WHEEL] = index.archive(WHEEL)[:-30]
    assert "is not a readable wheel" in failure(index, matrix)


def test_path_that_escapes(index: LocalIndex, matrix: dict[str, Any]) -> None:
    fill(index, {SOLVER: SAMPLE, "../../evil.so": SAMPLE})
    assert "a path outside its folder" in failure(index, matrix)


def packed(whole: bytes) -> tuple[int, int]:
    """Return where the packed bytes of the library start, and how many there are."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        member = archive.getinfo(SOLVER)
    name, extra = struct.unpack_from("<HH", whole, member.header_offset + 26)
    return member.header_offset + 30 + name + extra, member.compress_size


def test_bad_deflate_stream(index: LocalIndex, matrix: dict[str, Any], tmp_path: Path) -> None:
    whole = bytearray(index.archive(WHEEL))
    start, size = packed(bytes(whole))
    whole[start + size // 2 : start + size] = b"\xff" * (size - size // 2)
    index.archives[WHEEL] = bytes(whole)
    assert f"{SOLVER} cannot be unpacked" in failure(index, matrix, tmp_path)
    assert list((tmp_path / "binaries-2").iterdir()) == []  # bytes that fail are not kept


def test_deflate_stream_without_an_end(index: LocalIndex, matrix: dict[str, Any]) -> None:
    whole = index.archive(WHEEL)
    index.archives[WHEEL] = with_field(whole, SOLVER, 20, "<I", packed(whole)[1] - 50)
    assert f"{SOLVER} cannot be unpacked" in failure(index, matrix)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ((24, "<I", len(SAMPLE) - 1), "cannot be unpacked (Bad CRC-32"),
        ((16, "<I", 7), "cannot be unpacked (Bad CRC-32"),
        ((10, "<H", 12), "has an unsupported compression"),
        ((8, "<H", 1), "has an unsupported compression"),
        ((42, "<I", 3), "is not where the directory of the wheel states"),
    ],
)
def test_members_that_are_not_what_the_directory_says(
    index: LocalIndex, matrix: dict[str, Any], field: tuple[int, str, int], said: str
) -> None:
    index.archives[WHEEL] = with_field(index.archive(WHEEL), SOLVER, *field)
    assert f"{SOLVER} " in failure(index, matrix)
    assert said in failure(index, matrix)


def test_member_at_the_very_end(index: LocalIndex, matrix: dict[str, Any]) -> None:
    whole = index.archive(WHEEL)
    index.archives[WHEEL] = with_field(whole, SOLVER, 42, "<I", len(whole) - 10)
    assert "the response is incomplete" in failure(index, matrix)


def test_bomb(index: LocalIndex, matrix: dict[str, Any]) -> None:
    """A member that unpacks to a thousand times what it declares is stopped at what it declares."""
    fill(index, {SOLVER: bytes(30 << 20)})
    index.archives[WHEEL] = with_field(index.archive(WHEEL), SOLVER, 24, "<I", 30 << 10)
    assert "cannot be unpacked (Bad CRC-32" in failure(index, matrix)


def test_member_that_claims_terabytes(
    index: LocalIndex, matrix: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep_stream, "_LIMIT", len(SAMPLE) - 1)
    assert "more than any real library" in failure(index, matrix)


def test_member_that_differs_from_its_record(index: LocalIndex, matrix: dict[str, Any]) -> None:
    whole = index.archive(WHEEL)
    fill(index, {SOLVER: SAMPLE.replace(b"libcuda.so.1", b"libevil.so.1")})
    other = index.archive(WHEEL)
    index.archives[WHEEL] = swapped_record(whole, other)
    assert "does not have the hash that its RECORD states" in failure(index, matrix)


def swapped_record(record_of: bytes, rest_of: bytes) -> bytes:
    """Build an archive of the one's RECORD and the other's members."""
    stream = io.BytesIO()
    one, other = (zipfile.ZipFile(io.BytesIO(data)) for data in (record_of, rest_of))
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for name in other.namelist():
            target.writestr(name, (one if name.endswith("RECORD") else other).read(name))
    return stream.getvalue()


def test_stored_members_are_read_too(index: LocalIndex, matrix: dict[str, Any]) -> None:
    packed_archive = zipfile.ZipFile(io.BytesIO(index.archive(WHEEL)))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as target:
        for name in packed_archive.namelist():
            target.writestr(name, packed_archive.read(name))
    index.archives[WHEEL] = stream.getvalue()
    deepened(index, unread())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (NOISE, "neither an ELF nor a PE file"),
        (SAMPLE[:60] + b"\xff\xfe" + SAMPLE[62:], "its section table (65279 sections)"),
        (SAMPLE[:3000], "its section table"),
    ],
)
def test_hostile_binaries(
    index: LocalIndex, matrix: dict[str, Any], data: bytes, said: str
) -> None:
    fill(index, {SOLVER: data})
    told = failure(index, matrix)
    assert f"{SOLVER}: " in told
    assert said in told


def test_a_cached_part_that_is_too_long_is_deleted(index: LocalIndex, tmp_path: Path) -> None:
    folder = tmp_path / "binaries-2"
    folder.mkdir()
    part = folder / f"{SHA256}-{sha256(SOLVER.encode()).hexdigest()[:16]}.part"
    part.write_bytes(b"x" * len(index.archive(WHEEL)))
    deepened(index, unread(), tmp_path)
    assert not part.exists()


def test_unwritable_cache_folder(index: LocalIndex, matrix: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    assert "cannot be saved while it is read: Not a directory" in failure(index, matrix, file)
