"""Refresh the matrix from a local index of recorded wheels: what is added, kept and repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.index import ArtifactError
from tests.matrix.documents import describe_changes, document, text
from tests.matrix.index.renewal import (
    FRAMEWORKS,
    part,
    recorded_versions,
    renew,
    spoil_all,
    without,
)
from tests.matrix.index.server import LocalIndex, serve

NEWEST = ("2.19.1", "2.20.0", "2.21.0")
CP313 = "tensorflow-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl"


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with serve() as served:
        yield served


def linux(found: dict[str, Any], version: str = "2.21.0") -> dict[str, Any]:
    rows: list[dict[str, Any]] = found["releases"]["tensorflow"][version]
    return next(
        row
        for row in rows
        if (row["distribution"], row["platform"]) == ("tensorflow", "linux_x86_64")
    )


def test_the_newest_three_releases_come_back_as_they_were(index: LocalIndex) -> None:
    old = without("tensorflow", *NEWEST)
    assert "2.21.0" not in old["releases"]["tensorflow"]
    assert format_document(renew(index, old, "tensorflow").document) == part("tensorflow")


@pytest.mark.parametrize("form", ["html", "json"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_recorded_release_comes_back_as_it_was(
    index: LocalIndex, framework: str, form: str
) -> None:
    index.form = form
    versions = recorded_versions(framework)
    assert len(versions) >= 3
    found = renew(index, without(framework, *versions), framework).document
    assert format_document(found) == part(framework)


def test_a_current_matrix_stays_as_it_is(index: LocalIndex) -> None:
    found = renew(index, document())
    assert index.read()
    assert format_document(found.document) == text()
    assert describe_changes(document(), found.document) == []


def test_the_majors_are_read_without_curated_facts(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envcheck.matrix.refresh import refresh as merge
    from envcheck.matrix.refresh.refresh import Curated

    monkeypatch.setattr(merge, "find_curated", lambda *_: Curated())
    rows = renew(index, without("tensorflow", "2.3.0", *NEWEST), "tensorflow").document
    assert (linux(rows, "2.3.0")["cuda"], linux(rows, "2.3.0")["cudnn"]) == ("10.1", "7")
    assert (linux(rows)["cuda"], linux(rows)["cudnn"], linux(rows)["finds_cuda_wheels"]) == (
        "12.5.1",
        "9.3",
        True,
    )
    assert "That it finds the wheels of its extra was not read." in linux(rows)["note"]
    again = renew(index, rows, "tensorflow").document
    assert format_document(again) == format_document(rows)


def test_a_new_python_is_added_and_curated_facts_stay(index: LocalIndex) -> None:
    named = CP313.replace("cp313", "cp314")
    index.wheels[named] = {**index.wheels[CP313], "sha256": "0" * 64}
    found = renew(index, document(), "tensorflow", today="2030-01-02")
    row, old = linux(found.document), linux(document())
    assert row["pythons"] == [*old["pythons"], "3.14"]
    kept = found.document["citations"][
        "tensorflow-2.21.0-linux_x86_64-binaries".replace("linux_", "")
    ]
    assert kept["url_or_artifact"] == CP313
    assert "RUNPATH" in kept["locator"]
    assert found.document["citations"][row["citations"][0]] == {
        "checked": "2030-01-02",
        "locator": "METADATA, build_info.py",
        "sha256": "0" * 64,
        "url_or_artifact": named,
    }
    for cell in ("cpu_features", "finds_cuda_wheels", "cudnn", "glibc", "note"):
        assert row[cell] == old[cell]
    changes = describe_changes(document(), found.document)
    assert changes == [
        "  tensorflow 2.21.0 on linux_x86_64: pythons 3.10 3.11 3.12 3.13 -> 3.10 3.11 3.12 3.13 3.14"
    ]
    assert format_document(
        renew(index, found.document, "tensorflow", today="2030-01-02").document
    ) == format_document(found.document)


def test_a_release_that_was_yanked_is_marked(index: LocalIndex) -> None:
    for name, body in index.wheels.items():
        if name.startswith("torch-2.15.0-"):
            body["yanked"] = True
    found = renew(index, document(), "torch")
    rows = found.document["releases"]["torch"]["2.15.0"]
    assert all(row["yanked"] and "Yanked wheels: " in row["note"] for row in rows)
    for body in index.wheels.values():
        body.pop("yanked", None)
    rows = renew(index, found.document, "torch").document["releases"]["torch"]["2.15.0"]
    assert not any("yanked" in row or "Yanked" in row.get("note", "") for row in rows)


def test_rows_that_left_the_index_stay_and_are_named(index: LocalIndex) -> None:
    for name in [name for name in index.wheels if name.startswith("torch-2.15.0-")]:
        del index.wheels[name]
    found = renew(index, document(), "torch", since="2.15")
    assert (
        found.document["releases"]["torch"]["2.15.0"] == document()["releases"]["torch"]["2.15.0"]
    )
    assert "torch 2.15.0 on linux_x86_64" in found.vanished
    assert not any(item.startswith("torch 1.") for item in found.vanished)


def test_older_releases_than_asked_are_left_alone(index: LocalIndex) -> None:
    found = renew(index, without("tensorflow", "2.3.0", *NEWEST), "tensorflow", since="2.20")
    assert {"2.20.0", "2.21.0"} <= set(found.document["releases"]["tensorflow"])
    assert not {"2.3.0", "2.19.1"} & set(found.document["releases"]["tensorflow"])


def test_a_users_own_rows_and_facts_are_kept(index: LocalIndex) -> None:
    own = without("tensorflow", "2.20.0")
    own["citations"]["our-lab"] = {
        "url_or_artifact": "our lab's notes",
        "locator": "page 3",
        "checked": "2026-01-01",
    }
    row = linux(own)
    row.update(
        glibc="2.31",
        citations=[*row["citations"], "our-lab"],
        note=row["note"] + " Ours needs a newer glibc.",
    )
    row["requires"] = {}  # not what the wheel says, and no finding: read again with the release
    row["tags"] = ["manylinux1_x86_64"]
    found = renew(index, own, "tensorflow").document
    assert linux(found)["glibc"] == "2.31"
    assert linux(found)["note"].endswith("Ours needs a newer glibc.")
    assert "our-lab" in linux(found)["citations"]
    assert linux(found)["requires"] == linux(document())["requires"]
    assert found["problems"] == document()["problems"]


def test_wheels_that_no_installer_takes_are_left_out_and_named(index: LocalIndex) -> None:
    spoil_all(index, "tensorflow-2.21.0-", "win_amd64.whl")
    found = renew(index, without("tensorflow", *NEWEST), "tensorflow")
    platforms = {
        row["platform"]
        for row in found.document["releases"]["tensorflow"]["2.21.0"]
        if row["distribution"] == "tensorflow"
    }
    assert platforms == {"linux_x86_64", "linux_aarch64", "macosx_arm64"}
    assert len(found.left_out) == 4
    assert all(
        "another release than its file name" in line and "Read in its" not in line
        for line in found.left_out
    )


def test_one_bad_wheel_does_not_lose_its_release(index: LocalIndex) -> None:
    newest, older = CP313, CP313.replace("cp313", "cp312")
    index.archives[older] = index.archive(newest)  # a stand-in: only the newest wheel was recorded
    index.archives[newest] = index.archive("tensorflow-2.20.0-cp313-cp313-win_amd64.whl")
    found = renew(index, without("tensorflow", "2.21.0"), "tensorflow")
    row = linux(found.document)
    assert row["pythons"] == ["3.10", "3.11", "3.12"]
    assert found.document["citations"][row["citations"][0]]["url_or_artifact"] == older
    assert f"Left out, since no installer takes it: {newest}." in row["note"]
    told = f"{newest} cannot be used: its METADATA is of another release than its file name."
    assert found.left_out == (f"{told} Read in its place: {older}.",)
    again = renew(index, found.document, "tensorflow")
    assert (format_document(again.document), again.left_out) == (
        format_document(found.document),
        found.left_out,
    )
    del index.archives[newest]  # once it is repaired, it speaks for the release again
    repaired = renew(index, found.document, "tensorflow").document
    assert linux(repaired)["pythons"] == linux(document())["pythons"]
    assert "Left out" not in linux(repaired)["note"]


def test_a_wheel_that_names_no_python_is_named(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envcheck.matrix.refresh import index as wheels

    monkeypatch.setattr(wheels.Group, "pythons", lambda self, free_threaded=False: [])
    found = renew(index, without("tensorflow", "2.21.0"), "tensorflow", since="2.21")
    assert f"{CP313} names no Python that it is for." in found.left_out


def test_an_interrupted_refresh_continues_where_it_stopped(
    index: LocalIndex, tmp_path: Path
) -> None:
    broken = "tensorflow-2.21.0-cp313-cp313-macosx_12_0_arm64.whl"
    index.answers[f"/files/{broken}"] = lambda handler: handler.reply(503, b"")
    old = without("tensorflow", *NEWEST)
    with pytest.raises(ArtifactError, match=r"macosx_12_0_arm64.* status 503"):
        renew(index, old, "tensorflow", cache=tmp_path / "kept")
    index.answers.clear()
    index.asked.clear()
    found = renew(index, old, "tensorflow", cache=tmp_path / "kept").document
    assert format_document(found) == part("tensorflow")
    assert index.read() == [broken]


def test_a_broken_cache_is_ignored(index: LocalIndex, tmp_path: Path) -> None:
    old = without("tensorflow", *NEWEST)
    renew(index, old, "tensorflow", cache=tmp_path)
    files = sorted(tmp_path.iterdir())
    for file, content in zip(
        files,
        ["{", "[]", '{"metadata": 1, "entries": 1, "texts": {}, "altered": false}'],
        strict=False,
    ):
        file.write_text(content, encoding="utf-8")
    whole = json.loads(files[3].read_text(encoding="utf-8"))
    files[3].write_text(json.dumps({**whole, "texts": {"a": 1}}), encoding="utf-8")
    index.asked.clear()
    found = renew(index, old, "tensorflow", cache=tmp_path).document
    assert format_document(found) == part("tensorflow")
    assert len(index.read()) == 4


def test_an_unwritable_cache_is_ignored(index: LocalIndex, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    found = renew(index, without("tensorflow", *NEWEST), "tensorflow", cache=file / "below")
    assert format_document(found.document) == part("tensorflow")


def test_the_document_given_is_not_changed(index: LocalIndex) -> None:
    old = without("tensorflow", *NEWEST)
    before = deepcopy(old)
    renew(index, old, "tensorflow")
    assert old == before


def test_servers_without_ranges_from_the_end_are_read(index: LocalIndex) -> None:
    index.ranges = "no-suffix"
    found = renew(index, without("tensorflow", "2.21.0"), "tensorflow").document
    assert format_document(found) == part("tensorflow")
