"""What goes wrong with an index: one clear error each, and nothing renewed.

An odd wheel is left out.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envcheck.matrix.refresh.index import ArtifactError
from tests.matrix.documents import changed_copy, document
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


def left_out(index: LocalIndex, old: dict[str, Any] | None = None) -> str:
    """Renew with the newest release missing; return why one wheel is left out, while the others make rows."""
    found = renew(index, old or without("tensorflow", "2.21.0"), "tensorflow")
    rows = found.document["releases"]["tensorflow"]["2.21.0"]
    assert "linux_aarch64" in {
        row["platform"] for row in rows if row["distribution"] == "tensorflow"
    }
    assert old or "linux_x86_64" not in {
        row["platform"] for row in rows if row["distribution"] == "tensorflow"
    }
    (reason,) = found.left_out
    assert reason.startswith(WHEEL)
    assert reason.endswith(".")
    return reason


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
    known = [
        row
        for row in document()["releases"]["tensorflow"]["2.21.0"]
        if row["distribution"] == "tensorflow"
    ]
    assert found.document["releases"]["tensorflow"]["2.21.0"] == known


def test_html_served_as_json(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"<!DOCTYPE html><html>Please log in.</html>", Content_Type=JSON)
    assert f"is not valid {JSON}" in failure(index)


@pytest.mark.parametrize(
    "page",
    [{"files": []}, {"name": "tensorflow", "files": 3}, [], {"meta": {"api-version": "9.0"}}],
)
def test_json_of_another_shape(index: LocalIndex, page: object) -> None:
    index.answers[PAGE] = answer(json.dumps(page).encode(), Content_Type=JSON)
    assert "is not valid" in failure(index)


def test_page_without_files(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(
        b"<!DOCTYPE html><html>Please log in.</html>", Content_Type="text/html"
    )
    assert "lists no file" in failure(index)


def test_page_of_another_kind(index: LocalIndex) -> None:
    index.answers[PAGE] = answer(b"%PDF-1.7", Content_Type="application/pdf")
    assert "has the content type application/pdf, which is no index page" in failure(index)


def test_index_without_any_page(index: LocalIndex) -> None:
    index.url = index.url.replace("/simple/", "/nothing/")
    for name in (
        "tensorflow",
        *(f"tensorflow-{part}" for part in ("gpu", "cpu", "intel", "macos", "cpu-aws", "rocm")),
    ):
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
    assert f"{WHEEL} is not a readable wheel" in left_out(index)


def test_zip_with_a_broken_member(index: LocalIndex) -> None:
    whole = bytearray(index.archive(WHEEL))
    start = whole.index(b"dist-info/METADATA") + len(b"dist-info/METADATA") + 20
    whole[start : start + 40] = b"\xff" * 40
    index.archives[WHEEL] = bytes(whole)
    assert f"{WHEEL} is not a readable wheel" in left_out(index)


def test_zip_with_a_huge_directory(index: LocalIndex) -> None:
    directory = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 0xFFFFFFF0, 16, 0)
    index.archives[WHEEL] = b"\0" * 100_000 + directory
    assert WHEEL in left_out(index)


def test_zip_whose_directory_claims_gigabytes(index: LocalIndex) -> None:
    size, start = 3 << 30, 1 << 30
    tail = b"\0" * (64 << 10)
    tail = tail[:-22] + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, size, start, 0)

    def claim(handler: Handler) -> None:
        whole = start + size + 22
        span = f"bytes {whole - len(tail)}-{whole - 1}/{whole}"
        handler.reply(206, tail, Content_Range=span)

    index.answers[FILE] = claim
    assert "its directory claims 3221225472 bytes" in left_out(index)


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\evil.py", "..\\evil.py"]
)
def test_zip_with_a_path_that_escapes(index: LocalIndex, path: str) -> None:
    members = _members()
    index.archives[WHEEL] = archive({**members, path: b""}, folder="tensorflow-2.21.0")
    assert "a path outside its folder" in left_out(index)


def test_zip_bomb(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    members = {**_members(), f"{FOLDER}/METADATA": b"\n" * (17 << 20)}
    index.archives[WHEEL] = archive(members, folder="tensorflow-2.21.0")
    assert len(index.archives[WHEEL]) < 100_000
    assert "unpacks to more than 16 MiB" in left_out(index)


def test_zip_with_one_member_twice(index: LocalIndex) -> None:
    name = "tensorflow/python/platform/build_info.py"
    whole = archive(
        {**_members(), name.replace("build_info", "build_inf0"): b"is_cuda_build = False"},
        folder="tensorflow-2.21.0",
    )
    index.archives[WHEEL] = whole.replace(b"build_inf0", b"build_info")
    assert f"has '{name}' more than once" in left_out(index)


def test_python_text_that_does_not_match_its_record(index: LocalIndex) -> None:
    members = _members()
    whole = archive(members, folder="tensorflow-2.21.0")
    other = archive(
        {**members, "tensorflow/python/platform/build_info.py": b"is_cuda_build = False\n"},
        folder="tensorflow-2.21.0",
    )
    assert whole != other
    index.archives[WHEEL] = _with_record_of(other, whole)
    assert "build_info.py does not have the hash that its RECORD states" in left_out(index)


def test_python_text_that_is_no_python(index: LocalIndex) -> None:
    members = {**_members(), "tensorflow/python/platform/build_info.py": b"is_cuda_build = (\n"}
    index.archives[WHEEL] = archive(members, 60, folder="tensorflow-2.21.0")
    assert "cannot be parsed" in left_out(index)


def test_metadata_that_does_not_match_the_index(index: LocalIndex) -> None:
    index.form = "json"
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "metadata": "1" * 64}
    assert "does not have the hash that the index states" in left_out(index)


def test_metadata_that_matches_the_index(index: LocalIndex) -> None:
    index.form = "json"
    metadata = _members()[f"{FOLDER}/METADATA"]
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "metadata": hashlib.sha256(metadata).hexdigest()}
    assert renew(index, without("tensorflow", "2.21.0"), "tensorflow").left_out == ()


TORCH = "torch-2.15.0-cp315-cp315t-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize("stated", ["'thirteen'", "'13..2'", "[13, 2]"])
def test_cuda_that_is_no_version(index: LocalIndex, stated: str) -> None:
    members = _members(TORCH)
    text = re.sub(
        r"(cuda: Optional\[str\] = )'[^']*'",
        rf"\g<1>{stated}",
        members["torch/version.py"].decode(),
    )
    assert stated in text
    index.archives[TORCH] = archive(
        {**members, "torch/version.py": text.encode()}, folder="torch-2.15.0"
    )
    found = renew(index, without("torch", "2.15.0"), "torch")
    (reason,) = found.left_out
    assert reason.startswith(f"{TORCH} cannot be used: ")
    platforms = {row["platform"] for row in found.document["releases"]["torch"]["2.15.0"]}
    assert platforms == {"linux_aarch64", "macosx_arm64", "win_amd64"}


def test_a_row_stays_where_its_wheel_is_odd_now(index: LocalIndex) -> None:
    old = changed_copy()
    row = next(
        row for row in old["releases"]["tensorflow"]["2.21.0"] if row["platform"] == "linux_x86_64"
    )
    row["pythons"] = row["pythons"][:-1]  # so that it is read again
    index.archives[WHEEL] = index.archive(WHEEL)[:-30]
    found = renew(index, old, "tensorflow")
    assert row in found.document["releases"]["tensorflow"]["2.21.0"]
    assert found.left_out[0].startswith(WHEEL)


def test_wheel_with_another_hash_than_the_index_states(
    index: LocalIndex, hashes_compared: None
) -> None:
    old = only_new(index)
    whole = index.archive(WHEEL)
    index.archives[WHEEL] = whole + b"\0"  # a comment that no reader of zip files minds
    assert "and the index states" in left_out(index, old)
    index.archives[WHEEL] = whole
    assert renew(index, old, "tensorflow").left_out == ()


def test_wheel_of_another_size_than_the_index_states(
    index: LocalIndex, hashes_compared: None
) -> None:
    old = only_new(index)
    index.form = "json"
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "size": 17}
    assert re.search(r"it has \d+ bytes, and the index states 17", left_out(index, old))


def only_new(index: LocalIndex) -> dict[str, Any]:
    """Serve the newest release alone, with the hashes of what is served."""
    index.wheels = {
        name: body
        for name, body in index.wheels.items()
        if "-2.21.0-" in name and "members" in body
    }
    for name, body in index.wheels.items():
        index.wheels[name] = {
            **body,
            "sha256": hashlib.sha256(index.archive(name)).hexdigest(),
            "metadata": "",
        }
    return without("tensorflow", "2.21.0")


def test_page_that_was_cut_off(index: LocalIndex) -> None:
    page = (
        b"<!DOCTYPE html><html><body>"
        b'<a href="../../files/x.whl#sha256=' + b"0" * 64 + b'">x.whl</a><br>\n'
    )
    index.answers[PAGE] = answer(page, Content_Type="text/html")
    assert "is incomplete: it has no </html>" in failure(index)


PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
RELEASE = "/pypi/tensorflow/2.21.0/json"


def halve(index: LocalIndex) -> list[str]:
    """Drop the wheels of the older Pythons from the page of the newest release; return their names."""
    gone = [name for name in index.wheels if "-2.21.0-" in name and re.search(r"-cp31[01]-", name)]
    index.wheels = {name: body for name, body in index.wheels.items() if name not in gone}
    return gone


def pythons(document: dict[str, Any]) -> list[str]:
    rows = document["releases"]["tensorflow"]["2.21.0"]
    named = {(row["distribution"], row["platform"]): list(row["pythons"]) for row in rows}
    return named["tensorflow", "linux_x86_64"]


def test_a_page_alone_takes_no_python_from_a_row(index: LocalIndex) -> None:
    halve(index)
    found = renew(index, document(), "tensorflow")
    assert pythons(found.document) == PYTHONS
    assert "tensorflow 2.21.0 on linux_x86_64: Python 3.10, 3.11" in found.vanished


def test_pythons_that_the_index_lacks_twice_are_dropped(index: LocalIndex) -> None:
    halve(index)
    for name in ("tensorflow", "tensorflow_cpu", "tensorflow_gpu"):
        files = [
            {"filename": wheel} for wheel in index.wheels if wheel.startswith(f"{name}-2.21.0-")
        ]
        address = RELEASE.replace("tensorflow", name.replace("_", "-"))
        index.answers[address] = answer(json.dumps({"urls": files}).encode())
    found = renew(index, document(), "tensorflow")
    assert pythons(found.document) == ["3.12", "3.13"]
    assert not [line for line in found.vanished if "2.21.0" in line]


def test_a_page_that_lacks_files_of_a_release_is_refused(index: LocalIndex) -> None:
    files = [{"filename": wheel} for wheel in halve(index)]
    index.answers[RELEASE] = answer(json.dumps({"urls": files}).encode())
    with pytest.raises(
        ArtifactError, match=r"page of tensorflow is incomplete: it lacks files of 2\.21\.0"
    ):
        renew(index, document(), "tensorflow")


def test_many_errors_are_counted(index: LocalIndex) -> None:
    index.ranges = "none"
    with pytest.raises(ArtifactError, match=r"And \d+ more\."):
        renew(index, without("tensorflow", "2.21.0", "2.20.0"), "tensorflow")


def _members(wheel: str = WHEEL) -> dict[str, bytes]:
    folder = "-".join(wheel.split("-")[:2]) + ".dist-info"
    body = recorded()["wheels"][wheel]["members"]
    named = {
        f"{folder}/METADATA" if name == "METADATA" else name: key for name, key in body.items()
    }
    return {name: recorded()["texts"][key].encode() for name, key in named.items()}


def _with_record_of(one: bytes, other: bytes) -> bytes:
    """Rebuild archive `one` with the RECORD of `other`."""
    stream = io.BytesIO()
    source, record = zipfile.ZipFile(io.BytesIO(one)), zipfile.ZipFile(io.BytesIO(other))
    with zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist():
            target.writestr(name, (record if name.endswith("RECORD") else source).read(name))
    return stream.getvalue()
