"""Read the binaries of wheels from a local index: what is added to the matrix, cached and resumed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from envcheck.matrix.load import check_document
from envcheck.matrix.refresh import deep as deep_stream
from envcheck.matrix.refresh.binary_cells import apply_binaries, derive_cells
from envcheck.matrix.refresh.deep import choose_binaries
from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.index import ArtifactError
from envcheck.matrix.refresh.refresh import find_new_rows
from tests.matrix.deep.deep_index import (
    FILE,
    KEY,
    SAMPLE,
    SHA256,
    SOLVER,
    VERSIONS,
    WHEEL,
    deepened,
    fill,
    one_release,
    row_of,
    unread,
)
from tests.matrix.documents import document
from tests.matrix.index.renewal import renew, without
from tests.matrix.index.server import Handler, LocalIndex, serve


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with serve() as served:
        fill(
            served, {SOLVER: SAMPLE, VERSIONS: SAMPLE, "jax_cuda12_plugin/_rnn.so": b"not sampled"}
        )
        yield served


def test_facts_of_binaries_are_in_their_row(index: LocalIndex) -> None:
    found = deepened(index, unread())
    row = row_of(found)
    assert (row["binaries"]["wheel"], row["binaries"]["sha256"], row["binaries"]["binaries"]) == (
        WHEEL,
        SHA256,
        3,
    )
    assert sorted(row["binaries"]["read"]) == [SOLVER, VERSIONS]
    assert row["binaries"]["read"][SOLVER]["runpath"] == ["$ORIGIN/../nvidia/cudnn/lib", "$ORIGIN"]
    assert row["compute_capabilities"] == [
        "sm_75",
        "sm_86",
        "sm_90a",
        "sm_100f",
        "compute_86",
        "compute_90a",
    ]
    assert row["compiler"] == "GCC 12.2.0"
    for cell in ("binaries", "compiler", "compute_capabilities"):
        assert row["proof"][cell] == "tier2"
    assert row["glibc"] == "2.27"  # what the tags say stands
    assert "glibc" not in row["proof"]
    assert "were not read" not in row["note"]
    cited = found["citations"][row["citations"][0]]
    assert (cited["locator"], cited["checked"]) == ("METADATA, 2 of 3 binaries", "2030-01-02")
    check_document(found, "matrix.json")


def test_the_same_index_gives_the_same_bytes(index: LocalIndex) -> None:
    first, second = (format_document(deepened(index, unread())) for _ in range(2))
    assert first == second


def test_only_the_sampled_members_are_fetched(index: LocalIndex) -> None:
    fill(index, {SOLVER: SAMPLE, "jax_cuda12_plugin/_rnn.so": bytes(range(256)) * 8000})
    size = len(index.archive(WHEEL))
    ranges: list[str] = []
    index.answers[FILE] = lambda handler: watched(handler, ranges)
    deepened(index, unread())
    spans = [span.partition("=")[2].split("-") for span in ranges[1:]]
    assert sum(int(last) - int(first) for first, last in spans if first) < size


def watched(handler: Handler, ranges: list[str]) -> None:
    """Answer as always, and note the range that was asked for."""
    ranges.append(handler.headers["Range"])
    handler._file(handler.index.archive(WHEEL))


def test_cached_binaries_are_not_read_again(index: LocalIndex, tmp_path: Path) -> None:
    deepened(index, unread(), tmp_path)
    index.asked.clear()
    again = deepened(index, unread(), tmp_path)
    assert index.read() == []
    assert row_of(again)["compiler"] == "GCC 12.2.0"
    kept = sorted(path.name for path in (tmp_path / "binaries-2").iterdir())
    assert kept == [f"{SHA256}.json"]


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"sha256": "0" * 64, "read": {}})])
def test_a_broken_cache_is_ignored(index: LocalIndex, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "binaries-2"
    folder.mkdir()
    (folder / f"{SHA256}.json").write_text(text, encoding="utf-8")
    assert row_of(deepened(index, unread(), tmp_path))["compiler"] == "GCC 12.2.0"


def broken_off(handler: Handler, ranges: list[str]) -> None:
    """Answer ranges of more than 1200 bytes with their first half, then hang up."""
    ranges.append(handler.headers["Range"])
    whole = handler.index.archive(WHEEL)
    first, _, last = handler.headers["Range"].partition("=")[2].partition("-")
    if not first or int(last) - int(first) < 1200:
        handler._file(whole)
        return
    data = whole[int(first) : int(last) + 1]
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take answers in pieces of 512 bytes: a piece that is incomplete is lost."""
    monkeypatch.setattr(deep_stream, "_CHUNK", 512)


@pytest.mark.usefixtures("small_pieces")
def test_an_interrupted_download_continues_where_it_stopped(
    index: LocalIndex, tmp_path: Path
) -> None:
    ranges: list[str] = []
    index.answers[FILE] = lambda handler: broken_off(handler, ranges)
    with pytest.raises(ArtifactError, match=r"_x86_64\.whl cannot be used: .*incomplete"):
        deepened(index, unread(), tmp_path)
    first, last = ranges[-1].removeprefix("bytes=").split("-")
    (part,) = (tmp_path / "binaries-2").glob("*.part")
    size = part.stat().st_size
    assert 512 <= size < int(last) - int(first)
    resumed: list[str] = []
    index.answers[FILE] = lambda handler: watched(handler, resumed)
    found = deepened(index, unread(), tmp_path)
    assert f"bytes={int(first) + size}-{last}" in resumed
    assert row_of(found)["compiler"] == "GCC 12.2.0"
    assert list((tmp_path / "binaries-2").glob("*.part")) == []


@pytest.mark.usefixtures("small_pieces")
def test_an_interrupted_download_is_retried_at_once(index: LocalIndex) -> None:
    index.answers[FILE] = lambda handler: broken_off(handler, [])
    assert row_of(deepened(index, unread(), retries=20))["compiler"] == "GCC 12.2.0"


def test_rows_of_new_wheels_only(index: LocalIndex) -> None:
    old = without("jax", "0.12.0.1")
    assert {key[1] for key in find_new_rows(old, without("jax"))} == {"0.12.0.1"}
    moved = one_release()
    moved["citations"][row_of(moved)["citations"][0]]["sha256"] = "0" * 64
    assert find_new_rows(moved, one_release()) == {KEY}


def test_known_wheels_are_not_read_again_after_a_release_came_back(index: LocalIndex) -> None:
    found = renew(index, without("jax", "0.12.0.1"), "jax").document
    assert row_of(found) == row_of(document())
    assert "binaries" in row_of(found)


def test_a_newer_wheel_keeps_what_was_read_of_the_older_one(index: LocalIndex) -> None:
    """The reading stands, named by its wheel, until the newer wheel's binaries are read."""
    newer = WHEEL.replace("cp315", "cp316")
    index.wheels[newer] = {**index.wheels[WHEEL], "sha256": "1" * 64}
    kept = renew(index, one_release(), "jax", since="0.12.0.1").document
    row = row_of(kept)
    assert row["binaries"] == row_of(document())["binaries"]
    assert kept["citations"][row["citations"][0]]["locator"] == "METADATA"
    older = next(name for name in row["citations"] if name.endswith("-binaries"))
    assert kept["citations"][older]["url_or_artifact"] == WHEEL
    index.archives[newer] = index.archive(WHEEL)
    row = row_of(deepened(index, kept))
    assert row["binaries"]["wheel"] == newer
    assert row["compiler"] == "GCC 12.2.0"  # and no longer what the older wheel was built with
    assert older not in row["citations"]
    assert kept["citations"][row["citations"][0]]["locator"] == "METADATA, 2 of 3 binaries"


def test_curated_and_tier_1_cells_stay(index: LocalIndex) -> None:
    matrix = unread()
    row = row_of(matrix)
    row["compute_capabilities"] = ["sm_52"]
    row["proof"]["compute_capabilities"] = "documented"
    row["glibc"] = None
    row["note"] = "glibc was not read; the tag is not trusted."
    row = row_of(deepened(index, matrix))
    assert row["compute_capabilities"] == ["sm_52"]
    assert row["proof"]["compute_capabilities"] == "documented"
    assert (row["glibc"], row["proof"]["glibc"]) == ("2.2.5", "tier2")
    assert "note" not in row


def test_cells_derived_from_binaries() -> None:
    shared, own = "GCC: (GNU) 11.2.1 20220127 (Red Hat 11.2.1-9)", "GCC: (GNU) 7.5.0"
    read = {
        "a.so": {
            "compilers": [shared, own],
            "symbols": {"GLIBC": "2.9"},
            "architectures": ["compute_90", "lto_90"],
        },
        "b.so": {
            "compilers": [shared],
            "symbols": {"GLIBC": "2.17"},
            "architectures": ["sm_90a", "sm_90"],
        },
    }
    assert derive_cells("tensorflow", {"read": read}) == {
        "compiler": "GCC 11.2.1",
        "compute_capabilities": ["sm_90", "sm_90a", "compute_90"],
        "glibc": "2.17",
    }
    assert (
        derive_cells("tensorflow", {"read": {"a.so": read["a.so"]}}).get("compiler") is None
    )  # two, and which is not told
    clang = {"compilers": ["Linker: LLD 18.1.8", "Ubuntu clang version 17.0.2 (++2023)", own]}
    assert derive_cells("tensorflow", {"read": {"a.so": clang}}) == {"compiler": "clang 17.0.2"}
    assert derive_cells("tensorflow", {"read": {}}) == {}


def entry(name: str, size: int, crc: int = 7) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.file_size, member.CRC = size, crc
    return member


def test_a_library_under_several_names_is_read_once() -> None:
    folder = "tensorflow/libtensorflow_framework.so"
    members = [
        entry(folder, 9),
        entry(f"{folder}.2", 9),
        entry("tensorflow/x.so", 1),
        entry("tensorflow/x.py", 1),
    ]
    chosen, count = choose_binaries(members, "tensorflow")
    assert ([item.filename for item in chosen], count) == ([f"{folder}.2"], 3)
    assert [
        item.filename
        for item in choose_binaries([*members, entry(f"{folder}.1", 9, 8)], "tensorflow")[0]
    ] == [
        f"{folder}.1",
        f"{folder}.2",
    ]


def test_the_libraries_of_old_wheels_lie_in_a_data_folder() -> None:
    name = "tensorflow_gpu-1.5.0.data/purelib/tensorflow/python/_pywrap_tensorflow_internal.pyd"
    assert [item.filename for item in choose_binaries([entry(name, 9)], "tensorflow")[0]] == [name]


def test_applying_binaries_twice_changes_nothing(index: LocalIndex) -> None:
    found = deepened(index, unread())
    before = deepcopy(found)
    apply_binaries("jax", row_of(found), row_of(found)["binaries"], found["citations"])
    assert found == before
