"""Verify the matrix against a local index: what agrees, each kind of difference, and what cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.cli.group import run
from envcheck.matrix.refresh import verify as verify_module
from envcheck.matrix.refresh.refresh import drop_unused_citations, list_framework
from envcheck.matrix.refresh.verify import Verification, verify
from envcheck.model import UserError
from tests.matrix.documents import changed_copy
from tests.matrix.index.renewal import FRAMEWORKS, reader, recorded_versions, spoil_all
from tests.matrix.index.server import LocalIndex, serve

SCHEMA = Path(__file__).parents[2] / "envcheck" / "schemas" / "matrix-verify.schema.json"


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with serve() as served:
        yield served


def recorded_matrix() -> dict[str, Any]:
    """Return the built-in matrix with the releases the local index has, and no others."""
    found: dict[str, Any] = json.loads(_recorded_text())
    return found


@cache
def _recorded_text() -> str:
    kept = changed_copy()
    for framework in list(kept["releases"]):
        versions = recorded_versions(framework) if framework in FRAMEWORKS else []
        kept["releases"][framework] = {
            version: kept["releases"][framework][version] for version in versions
        }
    drop_unused_citations(kept)
    return json.dumps(kept)


def held(
    index: LocalIndex, matrix: dict[str, Any], *frameworks: str, sample: int = 0
) -> Verification:
    opened = reader(index)
    try:
        listings = [list_framework(opened, name) for name in frameworks or FRAMEWORKS]
        return verify(matrix, listings, opened, sample, lambda done, total: None)
    finally:
        opened.close()


def row_of(
    matrix: dict[str, Any], version: str = "2.21.0", platform: str = "linux_x86_64"
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = matrix["releases"]["tensorflow"][version]
    return next(
        row for row in rows if (row["distribution"], row["platform"]) == ("tensorflow", platform)
    )


def told(found: Verification) -> list[tuple[str, Any, Any]]:
    return [(item.cell, item.matrix, item.artifact) for item in found.disagreements]


def test_recorded_releases_agree(index: LocalIndex) -> None:
    matrix = recorded_matrix()
    found = held(index, matrix)
    assert (found.verdict, told(found), found.unread) == ("compatible", [], [])
    assert found.rows == sum(
        len(rows) for versions in matrix["releases"].values() for rows in versions.values()
    )
    assert found.cells > 4 * found.rows


def test_a_sample_reads_only_its_rows(index: LocalIndex) -> None:
    found = held(index, recorded_matrix(), "tensorflow", sample=3)
    assert (found.rows, found.verdict) == (3, "compatible")
    assert len(index.read()) == 3


def test_jax_is_read_with_its_plugins(index: LocalIndex) -> None:
    found = held(index, recorded_matrix(), "jax", sample=1000)
    assert found.verdict == "compatible"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("pythons", ["3.9"]),
        ("requires", {"numpy": ">=1.0"}),
        ("cuda", "12.4"),
        ("glibc", None),
        ("compute_capabilities", ["sm_10"]),
        ("cuda_wheels", []),
    ],
)
def test_a_wrong_cell_is_reported(index: LocalIndex, cell: str, value: Any) -> None:
    matrix = recorded_matrix()
    row = row_of(matrix)
    right = row[cell]
    row[cell] = value
    if row["proof"].get(cell) == "documented":
        del row["proof"][cell]
    assert (cell, value, right) in told(held(index, matrix, "tensorflow"))


@pytest.mark.parametrize(
    ("cell", "value", "read"), [("cudnn", "7.6", "8"), ("cuda_build", False, True)]
)
def test_a_finding_that_contradicts_its_artifact_is_reported(
    index: LocalIndex, cell: str, value: Any, read: Any
) -> None:
    matrix = recorded_matrix()
    row = row_of(matrix, "2.10.0")
    row[cell] = value
    row["proof"][cell] = "documented"
    assert (cell, value, read) in told(held(index, matrix, "tensorflow"))


def test_a_hash_that_the_index_does_not_list_is_reported(index: LocalIndex) -> None:
    matrix = recorded_matrix()
    cited = matrix["citations"][row_of(matrix)["citations"][0]]
    cited["sha256"] = "f" * 64
    found = held(index, matrix, "tensorflow")
    assert [item[0] for item in told(found)] == ["wheel"]
    assert found.verdict == "incompatible"


def test_a_release_the_matrix_lacks_is_reported(index: LocalIndex) -> None:
    matrix = recorded_matrix()
    del matrix["releases"]["torch"]["2.15.0"]
    found = held(index, matrix, "torch")
    assert {item[:2] for item in told(found)} == {("row", "missing")}


def test_a_wheel_no_installer_takes_is_reported(index: LocalIndex) -> None:
    spoil_all(index, "tensorflow-2.21.0-", "win_amd64.whl")
    found = held(index, recorded_matrix(), "tensorflow")
    assert [item[:2] for item in told(found)] == [("wheel", "usable")]


def test_a_sample_names_every_release_the_matrix_lacks_and_every_row_without_release(
    index: LocalIndex,
) -> None:
    matrix = recorded_matrix()
    del matrix["releases"]["torch"]["2.15.0"]
    matrix["releases"]["torch"]["2.99.0"] = matrix["releases"]["torch"]["1.7.1"]
    found = held(index, matrix, "torch", sample=1)
    assert {(item.version, item.cell) for item in found.disagreements} == {("2.15.0", "row")}
    assert any(label.startswith("torch 2.99.0 on ") for label in found.vanished)
    assert found.verdict == "incompatible"
    assert len(found.held) == found.rows <= 1


def test_a_sample_of_an_old_matrix_reads_none_of_the_many_releases_it_lacks(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "_MAX_MISSING", 1)
    matrix = recorded_matrix()
    del matrix["releases"]["torch"]["2.15.0"]
    found = held(index, matrix, "torch", sample=1)
    assert {item.matrix for item in found.disagreements} == {"missing"}
    assert len(index.read()) <= 1


def test_a_release_that_no_installer_takes_needs_no_row(index: LocalIndex) -> None:
    spoil_all(index, "tensorflow-2.21.0-", "win_amd64.whl")
    matrix = recorded_matrix()
    rows = matrix["releases"]["tensorflow"]["2.21.0"]
    rows.remove(row_of(matrix, platform="win_amd64"))
    for sample in (0, 2):
        found = held(index, matrix, "tensorflow", sample=sample)
        assert (found.verdict, told(found)) == ("compatible", [])


def test_what_cannot_be_read_is_undetermined(index: LocalIndex) -> None:
    gone = "tensorflow-2.21.0-cp313-cp313-macosx_12_0_arm64.whl"
    index.answers[f"/files/{gone}"] = lambda handler: handler.reply(404, b"")
    for name in [name for name in index.wheels if name.startswith("tensorflow-2.20.0-")]:
        del index.wheels[name]
    found = held(index, recorded_matrix(), "tensorflow")
    assert found.verdict == "undetermined"
    assert any(gone in line for line in found.unread)
    assert "tensorflow 2.20.0 on win_amd64" in found.vanished


def test_a_verification_of_nothing_is_not_compatible() -> None:
    assert Verification().verdict == "undetermined"


# -- the command --


def saved(path: Path, matrix: dict[str, Any]) -> str:
    path.write_text(json.dumps(matrix), encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("configured_index")
def test_verify_prints_and_ends_by_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = recorded_matrix()
    own = saved(tmp_path / "own.json", matrix)
    assert run(["matrix", "verify", "--all", "--framework", "tensorflow", "--matrix", own]) == 0
    assert (
        ": 0 differences, 0 no longer on the index, 0 artifacts not read."
        in capsys.readouterr().out
    )
    row_of(matrix)["tags"] = ["win_amd64"]
    own = saved(tmp_path / "own.json", matrix)
    assert run(["matrix", "verify", "--all", "--framework", "tensorflow", "--matrix", own]) == 1
    assert (
        "tensorflow 2.21.0 on linux_x86_64: tags is ['win_amd64'] in the matrix"
        in capsys.readouterr().out
    )


@pytest.mark.usefixtures("configured_index")
def test_cells_that_rest_on_documents_are_counted_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = recorded_matrix()
    row_of(matrix)["proof"] = {**row_of(matrix)["proof"], "cudnn": "documented"}
    own = saved(tmp_path / "own.json", matrix)
    run(["matrix", "verify", "--all", "--framework", "tensorflow", "--matrix", own])
    line = next(
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("Not verified here: ")
    )
    assert re.fullmatch(
        r"Not verified here: \d+ cells that rest on documents: .*\d+ of tensorflow cudnn.*\.", line
    )
    run(["matrix", "verify", "--all", "--framework", "tensorflow", "--matrix", own, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert f"{sum(found['documented'].values())} cells" in line
    assert found["documented"]["tensorflow cudnn"] >= 1


def test_verify_as_json_when_the_index_is_down(
    configured_index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    configured_index.answers["/simple/torch/"] = lambda handler: handler.reply(403, b"")
    assert (
        run(["matrix", "verify", "--framework", "torch", "--sample", "2", "--format", "json"]) == 3
    )
    found = json.loads(capsys.readouterr().out)
    fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))(found)
    assert "status 403" in found["unread"][0]


@pytest.mark.usefixtures("configured_index")
def test_verify_names_what_was_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "verify", "--all", "--framework", "torch"]) == 3
    assert "no longer on the index: torch 1.0.0 on linux_x86_64\n" in capsys.readouterr().out


def test_verify_refuses_both_a_sample_and_everything() -> None:
    with pytest.raises(UserError):
        run(["matrix", "verify", "--all", "--sample", "3"])
