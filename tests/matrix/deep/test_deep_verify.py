"""Verify the binaries of the matrix, and the commands with --deep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.cli.group import run
from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.gpu_code import list_targets
from envcheck.matrix.refresh.refresh import list_framework
from envcheck.matrix.refresh.verify import Verification, verify_binaries
from tests.matrix.deep.deep_index import (
    FILE,
    SAMPLE,
    SOLVER,
    UNKNOWN,
    VERSIONS,
    WHEEL,
    deepened,
    fill,
    list_as_unknown,
    one_release,
    row_of,
    unread,
)
from tests.matrix.documents import document
from tests.matrix.index.renewal import reader, without
from tests.matrix.index.server import LocalIndex, serve

SCHEMA = Path(__file__).parents[3] / "envcheck" / "schemas" / "matrix-verify.schema.json"


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with serve() as served:
        fill(served, {SOLVER: SAMPLE, VERSIONS: SAMPLE})
        yield served


def only_this_row(matrix: dict[str, Any]) -> dict[str, Any]:
    """Leave the binaries of one row, whose wheel the local index serves with libraries inside."""
    for rows in (rows for versions in matrix["releases"].values() for rows in versions.values()):
        for row in rows:
            if row is not row_of(matrix):
                row.pop("binaries", None)
    return matrix


@pytest.fixture
def read(index: LocalIndex) -> dict[str, Any]:
    """Return the matrix with what the local index's wheel says, which agrees with it."""
    return only_this_row(deepened(index, unread()))


def held(index: LocalIndex, matrix: dict[str, Any], sample: int = 0) -> Verification:
    found = Verification()
    opened = reader(index)
    try:
        listings = [list_framework(opened, "jax")]
        verify_binaries(
            matrix, listings, opened.open_binaries(), sample, lambda *_: None, found=found
        )
    finally:
        opened.close()
    return found


def test_binaries_that_agree(index: LocalIndex, read: dict[str, Any]) -> None:
    found = held(index, read)
    assert (found.binaries, found.disagreements, found.unread) == (1, [], [])
    assert held(index, read, sample=5).binaries == 1


def test_each_wrong_fact_is_reported(index: LocalIndex, read: dict[str, Any]) -> None:
    row = row_of(read)
    row["binaries"]["binaries"] = 9
    facts = row["binaries"]["read"][SOLVER]
    facts.update(needed=["libm.so.6"], gpu_code={"sm_75": 1})
    del facts["runpath"]
    row["binaries"]["read"]["jax_cuda12_plugin/_gone.so"] = {
        "format": "elf",
        "machine": "x86_64",
        "needed": [],
    }
    row.update(compiler="GCC 4.8.5", compute_capabilities=["sm_35"])
    told = {item.cell: (item.matrix, item.artifact) for item in held(index, read).disagreements}
    assert set(told) == {
        "binaries binaries",
        *(f"binaries {SOLVER} {fact}" for fact in ("needed", "gpu_code", "runpath")),
        *(
            f"binaries jax_cuda12_plugin/_gone.so {fact}"
            for fact in ("format", "machine", "needed")
        ),
        "compiler",
        "compute_capabilities",
    }
    assert told["binaries binaries"] == (9, 2)
    assert told[f"binaries {SOLVER} runpath"] == (None, ["$ORIGIN/../nvidia/cudnn/lib", "$ORIGIN"])
    assert told["compiler"] == ("GCC 4.8.5", "GCC 12.2.0")


def test_facts_of_an_earlier_edition_are_compared_without_counts(
    index: LocalIndex, read: dict[str, Any]
) -> None:
    facts = row_of(read)["binaries"]["read"][SOLVER]
    facts["architectures"] = list_targets({"gpu_code": facts.pop("gpu_code")})
    assert held(index, read).disagreements == []
    facts["architectures"].pop()
    assert [item.cell for item in held(index, read).disagreements] == [
        f"binaries {SOLVER} architectures"
    ]


def test_tier_1_cells_are_not_compared_with_binaries(
    index: LocalIndex, read: dict[str, Any]
) -> None:
    row = row_of(read)
    row["compiler"], row["proof"]["compiler"] = "clang 18", "documented"
    assert held(index, read).disagreements == []


def test_wheels_that_cannot_be_read(index: LocalIndex, read: dict[str, Any]) -> None:
    index.answers[FILE] = lambda handler: handler.reply(404, b"")
    found = held(index, read)
    assert (found.binaries, len(found.unread), found.verdict) == (0, 1, "undetermined")
    assert WHEEL in found.unread[0]
    row_of(read)["binaries"]["sha256"] = "0" * 64
    assert held(index, read).unread == [
        f"{WHEEL}, whose binaries were read, is no longer on the index."
    ]


def test_nothing_to_verify_is_undetermined(index: LocalIndex, read: dict[str, Any]) -> None:
    del row_of(read)["binaries"]
    assert held(index, read).unread == [
        "The matrix holds no binaries of these rows, so none can be verified."
    ]


# -- the commands --


def served(index: LocalIndex) -> None:
    """Serve the libraries in the one wheel, and every other wheel of the release without any."""
    fill(index, {SOLVER: SAMPLE, VERSIONS: SAMPLE})


def saved(path: Path, matrix: dict[str, Any]) -> str:
    path.write_text(format_document(matrix), encoding="utf-8")
    return str(path)


def test_refresh_deep_reads_the_rows_that_lack_it(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served(configured_index)
    list_as_unknown(configured_index)
    own, new = saved(tmp_path / "own.json", unread(UNKNOWN)), tmp_path / "new.json"
    asked = ["matrix", "refresh", "--framework", "jax", "--matrix", own, "--output", str(new)]
    assert run([*asked, "--deep"]) == 0  # nothing is new on the index, so no binaries are read
    assert "binaries" not in row_of(json.loads(new.read_text(encoding="utf-8")))
    assert "binaries none" not in capsys.readouterr().out
    assert run([*asked, "--deep", "--since", "0.12.0.1"]) == 0
    found = json.loads(new.read_text(encoding="utf-8"))
    assert row_of(found)["compiler"] == "GCC 12.2.0"
    told = capsys.readouterr().out
    assert "compiler none -> GCC 12.2.0" in told
    assert "linux_x86_64: proof of compiler none -> tier2\n" in told
    assert f"binaries none -> 2 of 2 in {WHEEL}" in told


def test_refresh_deep_reads_new_rows(configured_index: LocalIndex, tmp_path: Path) -> None:
    served(configured_index)
    newer = WHEEL.replace("cp315", "cp316")
    configured_index.wheels[newer] = {**configured_index.wheels[WHEEL], "sha256": "1" * 64}
    configured_index.archives[newer] = configured_index.archive(WHEEL)
    own, new = saved(tmp_path / "own.json", one_release()), tmp_path / "new.json"
    assert (
        run(
            [
                "matrix",
                "refresh",
                "--framework",
                "jax",
                "--matrix",
                own,
                "--output",
                str(new),
                "--deep",
            ]
        )
        == 0
    )
    assert row_of(json.loads(new.read_text(encoding="utf-8")))["binaries"]["wheel"] == newer


def test_refresh_deep_leaves_out_a_wheel_that_is_no_library(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(configured_index, {SOLVER: SAMPLE[:5000]})
    list_as_unknown(configured_index)
    own, new = saved(tmp_path / "own.json", unread(UNKNOWN)), tmp_path / "new.json"
    asked = ["matrix", "refresh", "--framework", "jax", "--matrix", own, "--output", str(new)]
    assert run([*asked, "--deep", "--since", "0.12.0.1"]) == 0
    assert re.search(rf"left out: .*{SOLVER}: its section table", capsys.readouterr().out)
    assert json.loads(new.read_text(encoding="utf-8"))["releases"] == unread()["releases"]


def test_refresh_deep_writes_nothing_when_a_wheel_cannot_be_read(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(configured_index, {SOLVER: SAMPLE})
    configured_index.answers[FILE] = lambda handler: handler.reply(404, b"")
    own, new = saved(tmp_path / "own.json", unread()), tmp_path / "new.json"
    asked = ["matrix", "refresh", "--framework", "jax", "--matrix", own, "--output", str(new)]
    assert run([*asked, "--deep", "--since", "0.12.0.1"]) == 3
    assert "status 404" in capsys.readouterr().err
    assert not new.exists()


def test_verify_deep_as_text_and_json(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served(configured_index)
    matrix = only_this_row(deepened(configured_index, unread()))
    asked = ["matrix", "verify", "--framework", "jax", "--sample", "1", "--deep", "--matrix"]
    run([*asked, saved(tmp_path / "own.json", matrix)])
    told = capsys.readouterr().out
    assert ", and 1 with the binaries of their wheels: " in told
    assert "binaries jax" not in told
    row_of(matrix)["binaries"]["read"][SOLVER]["needed"] = ["libevil.so"]
    assert run([*asked, saved(tmp_path / "own.json", matrix), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))(found)
    assert found["binaries"] == 1
    assert f"the binaries of {WHEEL}" in found["held"]
    assert f"binaries {SOLVER} needed" in {item["cell"] for item in found["disagreements"]}


def test_a_release_that_came_back_has_its_binaries_again(
    configured_index: LocalIndex, tmp_path: Path
) -> None:
    own, new = saved(tmp_path / "own.json", without("jax", "0.12.0.1")), tmp_path / "new.json"
    assert (
        run(["matrix", "refresh", "--framework", "jax", "--matrix", own, "--output", str(new)]) == 0
    )
    assert row_of(json.loads(new.read_text(encoding="utf-8"))) == row_of(document())


def test_show_prints_binaries_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["matrix", "show", "jax-cuda12-plugin==0.12.0.1"]
    assert run([*asked, "-v"]) == 0
    told = capsys.readouterr().out
    assert f" binaries: 3 of the 11 in {WHEEL} were read:" in told
    line = next(
        line for line in told.splitlines() if line.startswith(f"  {SOLVER}: GPU code sm_50 sm_60 ")
    )
    assert "; needs libpthread.so.0 " in line
    assert "; needs symbols CXXABI_" in line
    assert "; compiled by Linker: LLD 18.1.8, clang version 18.1.8" in line
    assert run(asked) == 0
    assert SOLVER not in capsys.readouterr().out
