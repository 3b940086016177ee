"""What goes wrong with an index or a wheel: one clear error each, and nothing renewed."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envcheck.matrix.refresh.pip_settings import ArtifactError
from tests.matrix.documents import document
from tests.matrix.index.renewal import renew, without
from tests.matrix.index.server import JSON, Handler, LocalIndex, archive, recorded, serve

PAGE = "/simple/tensorflow/"
WHEEL = "tensorflow-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl"
FILE = f"/files/{WHEEL}"
FOLDER = "tensorflow-2.21.0.dist-info"


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with serve() as served:
        yield served


def failure(index: LocalIndex, **settings: Any) -> str:
    """Renew with the newest release missing, and return the error."""
    with pytest.raises(ArtifactError) as caught:
        renew(index, without("tensorflow", "2.21.0"), "tensorflow", **settings)
    assert str(caught.value).endswith(".")
    return str(caught.value)


def answer(content: bytes, status: int = 200, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.reply(status, content, **headers)


def test_index_down() -> None:
    with serve() as served:
        pass
    assert "cannot be read: no connection" in failure(served)


def test_index_slow(index: LocalIndex) -> None:
    index.answers[PAGE] = Handler.never
    assert "timed out" in failure(index, read_timeout=0.3)


def test_index_that_sends_slowly(index: LocalIndex) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        for _ in range(40):
            handler.wfile.write(b"<br>" * 20_000)
            time.sleep(0.05)
        handler.close_connection = True

    index.answers[PAGE] = drip
    assert "timed out" in failure(index, whole_timeout=0.4)


def test_index_that_fails(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"", 500)
    assert "cannot be read: the server answered with status 500" in failure(index)
    assert "cannot be read: the server answered with status 500" in failure(index, retries=1)
    assert index.asked.count(PAGE) == 3


def test_index_that_needs_a_password(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"", 401)
    index.url = index.url.replace("http://", "http://name:secret@")
    told = failure(index)
    assert "status 401" in told
    assert "secret" not in told


def test_index_with_too_many_redirects(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"", 302, Location=PAGE)
    assert "too many redirects" in failure(index)


def test_index_that_has_moved_is_followed(index: LocalIndex) -> None:
    index.answers["/old/tensorflow/"] = answer(b"", 301, Location=PAGE)
    index.url = index.url.replace("/simple/", "/old/")
    found = renew(index, without("tensorflow", "2.21.0"), "tensorflow")
    known = [row for row in document()["releases"]["tensorflow"]["2.21.0"] if row["distribution"] == "tensorflow"]
    assert found.document["releases"]["tensorflow"]["2.21.0"] == known


def test_html_served_as_json(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"<!DOCTYPE html><html>Please log in.</html>", Content_Type=JSON)
    assert f"is not valid {JSON}" in failure(index)


@pytest.mark.parametrize(
    "page", [{"files": []}, {"name": "tensorflow", "files": 3}, [], {"meta": {"api-version": "9.0"}}]
)
def test_json_of_another_shape(index: LocalIndex, page: object) -> None:
    index.answers[PAGE] = answer(json.dumps(page).encode(), Content_Type=JSON)
    assert "is not valid" in failure(index)


def test_page_without_files(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"<!DOCTYPE html><html>Please log in.</html>", Content_Type="text/html")
    assert "lists no file" in failure(index)


def test_page_of_another_kind(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"%PDF-1.7", Content_Type="application/pdf")
    assert "has the content type application/pdf, which is no index page" in failure(index)


def test_index_without_any_page(index: LocalIndex) -> None:
    index.url = index.url.replace("/simple/", "/nothing/")
    for name in ("tensorflow", *(f"tensorflow-{part}" for part in ("gpu", "cpu", "intel", "macos", "cpu-aws", "rocm"))):
        index.answers[f"/nothing/{name}/"] = answer(b"", 404)
    assert "has no page for any distribution of tensorflow" in failure(index)


def test_wheel_without_a_hash(index: LocalIndex) -> None:
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "sha256": ""}
    assert f"gives no SHA-256 for {WHEEL}" in failure(index)


def test_no_range_support(index: LocalIndex) -> None:
    index.ranges = "none"
    assert "does not serve byte ranges" in failure(index)


def test_ranges_that_are_not_described(index: LocalIndex) -> None:
    index.answers[FILE] = answer(b"x" * 100, 206)
    assert "does not state which bytes it sends" in failure(index)


def test_ranges_larger_than_asked(index: LocalIndex) -> None:
    index.answers[FILE] = answer(b"x", 206, Content_Range="bytes 0-99999999/100000000")
    assert "more than was requested" in failure(index)


def test_range_that_breaks_off(index: LocalIndex) -> None:
    index.answers[FILE] = answer(b"x" * 10, 206, Content_Range="bytes 0-99/100")
    assert "the response is incomplete" in failure(index)


def test_wheel_that_vanished(index: LocalIndex) -> None:
    index.answers[FILE] = answer(b"", 404)
    assert (
        f"{WHEEL} cannot be used: {index.url.replace('/simple/', FILE)}: the server answered with status 404"
        in failure(index)
    )


def test_truncated_zip(index: LocalIndex) -> None:
    index.archives[WHEEL] = index.archive(WHEEL)[:-30]
    assert f"{WHEEL} is not a readable wheel" in failure(index)


def test_zip_with_a_broken_member(index: LocalIndex) -> None:
    whole = bytearray(index.archive(WHEEL))
    start = whole.index(b"dist-info/METADATA") + len(b"dist-info/METADATA") + 20
    whole[start : start + 40] = b"\xff" * 40
    index.archives[WHEEL] = bytes(whole)
    assert f"{WHEEL} is not a readable wheel" in failure(index)


def test_zip_with_a_huge_directory(index: LocalIndex) -> None:
    directory = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 0xFFFFFFF0, 16, 0)
    index.archives[WHEEL] = b"\0" * 100_000 + directory
    assert WHEEL in failure(index)


def test_zip_whose_directory_claims_gigabytes(index: LocalIndex) -> None:
    size, start = 3 << 30, 1 << 30
    tail = b"\0" * (64 << 10)
    tail = tail[:-22] + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, size, start, 0)

    def claim(handler: Handler) -> None:
        whole = start + size + 22
        span = f"bytes {whole - len(tail)}-{whole - 1}/{whole}"
        handler.reply(206, tail, Content_Range=span)

    index.answers[FILE] = claim
    assert "its directory claims 3221225472 bytes" in failure(index)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\evil.py", "..\\evil.py"])
def test_zip_with_a_path_that_escapes(index: LocalIndex, path: str) -> None:
    members = _members()
    index.archives[WHEEL] = archive({**members, path: b""}, folder="tensorflow-2.21.0")
    assert "a path outside its folder" in failure(index)


def test_zip_bomb(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    members = {**_members(), f"{FOLDER}/METADATA": b"\n" * (17 << 20)}
    index.archives[WHEEL] = archive(members, folder="tensorflow-2.21.0")
    assert len(index.archives[WHEEL]) < 100_000
    assert "unpacks to more than 16 MiB" in failure(index)


def test_zip_with_one_member_twice(index: LocalIndex) -> None:
    name = "tensorflow/python/platform/build_info.py"
    whole = archive(
        {**_members(), name.replace("build_info", "build_inf0"): b"is_cuda_build = False"}, folder="tensorflow-2.21.0"
    )
    index.archives[WHEEL] = whole.replace(b"build_inf0", b"build_info")
    assert f"has '{name}' more than once" in failure(index)


def test_python_text_that_does_not_match_its_record(index: LocalIndex) -> None:
    members = _members()
    whole = archive(members, folder="tensorflow-2.21.0")
    other = archive(
        {**members, "tensorflow/python/platform/build_info.py": b"is_cuda_build = False\n"}, folder="tensorflow-2.21.0"
    )
    assert whole != other
    index.archives[WHEEL] = _with_record_of(other, whole)
    assert "build_info.py does not have the hash that its RECORD states" in failure(index)


def test_python_text_that_is_no_python(index: LocalIndex) -> None:
    members = {**_members(), "tensorflow/python/platform/build_info.py": b"is_cuda_build = (\n"}
    index.archives[WHEEL] = archive(members, 60, folder="tensorflow-2.21.0")
    assert "cannot be parsed" in failure(index)


def test_metadata_that_does_not_match_the_index(index: LocalIndex) -> None:
    index.form = "json"
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "metadata": "1" * 64}
    assert "does not have the hash that the index states" in failure(index)


def test_metadata_that_matches_the_index(index: LocalIndex) -> None:
    index.form = "json"
    metadata = _members()[f"{FOLDER}/METADATA"]
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "metadata": hashlib.sha256(metadata).hexdigest()}
    assert renew(index, without("tensorflow", "2.21.0"), "tensorflow").left_out == ()


def test_many_errors_are_counted(index: LocalIndex) -> None:
    index.ranges = "none"
    with pytest.raises(ArtifactError, match=r"And \d+ more\."):
        renew(index, without("tensorflow", "2.21.0", "2.20.0"), "tensorflow")


def _members() -> dict[str, bytes]:
    body = recorded()["wheels"][WHEEL]["members"]
    named = {f"{FOLDER}/METADATA" if name == "METADATA" else name: key for name, key in body.items()}
    return {name: recorded()["texts"][key].encode() for name, key in named.items()}


def _with_record_of(one: bytes, other: bytes) -> bytes:
    """Rebuild archive `one` with the RECORD of `other`."""
    stream = io.BytesIO()
    source, record = zipfile.ZipFile(io.BytesIO(one)), zipfile.ZipFile(io.BytesIO(other))
    with zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist():
            target.writestr(name, (record if name.endswith("RECORD") else source).read(name))
    return stream.getvalue()
