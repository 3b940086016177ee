"""A release newer than the matrix, through `doctor` and `doctor --for`: undetermined, with the advice to refresh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.common import UserError
from envcheck.cli.group import run
from envcheck.render.json_contracts import render_snapshot
from tests.hosts.test_hosts import snapshot_of
from tests.matrix.documents import changed_copy

ADVICE = "envcheck matrix refresh --framework tensorflow"


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """Save the recording of a real environment with tensorflow-cpu 2.15."""
    path = tmp_path / "machine.json"
    path.write_text(render_snapshot(snapshot_of("recorded-tensorflow-cpu-2.15")), encoding="utf-8")
    return str(path)


def older_matrix(folder: Path) -> str:
    """Write the built-in matrix without tensorflow 2.15 and what came after it."""
    document = changed_copy()
    rows = document["releases"]["tensorflow"]
    kept = [version for version in rows if tuple(map(int, version.split(".")[:2])) < (2, 15)]
    document["releases"]["tensorflow"] = {version: rows[version] for version in kept}
    path = folder / "older.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def findings(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> dict[str, Any]:
    assert run(["doctor", *arguments, "--format", "json", "--no-snapshot"]) == code
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == {0: "compatible", 3: "undetermined"}[code]
    return {item["id"]: item for item in report["findings"]}


def test_an_installed_release_newer_than_the_matrix(
    machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--snapshot", machine, "--expect", "cpu"]
    assert "release-unknown" not in findings(capsys, *asked, code=0)
    found = findings(capsys, *asked, "--matrix", older_matrix(tmp_path), code=3)["release-unknown"]
    assert (found["verdict"], found["severity"]) == ("undetermined", "error")
    assert "does not list tensorflow-cpu 2.15" in found["message"]
    assert [" ".join(step["argv"]) for step in found["fix"]["commands"]] == [ADVICE]
    assert run(["doctor", *asked, "--matrix", older_matrix(tmp_path)]) == 3
    assert ADVICE in capsys.readouterr().out


@pytest.mark.parametrize(
    "requirement", ["tensorflow==99.0", "tensorflow>=99", "tensorflow-cpu==2.99.1"]
)
def test_a_release_asked_for_that_is_newer_than_the_matrix(
    machine: str, capsys: pytest.CaptureFixture[str], requirement: str
) -> None:
    asked = ["--snapshot", machine, "--expect", "cpu", "--for", requirement]
    found = findings(capsys, *asked, code=3)["release-unknown"]
    assert f"does not list {requirement}" in found["message"]
    assert "The newest tensorflow release in it" in found["message"]
    assert [" ".join(step["argv"]) for step in found["fix"]["commands"]] == [ADVICE]
    assert run(["doctor", *asked]) == 3
    assert ADVICE in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [["doctor", "--for", "mxnet"], ["plan", "mxnet"]], ids=["doctor", "plan"]
)
def test_a_framework_that_only_the_matrix_knows_is_a_user_error(
    command: list[str], tmp_path: Path
) -> None:
    document = changed_copy()
    document["frameworks"]["mxnet"] = {"distributions": [{"module": "mxnet", "name": "mxnet"}]}
    row = next(
        row for row in document["releases"]["torch"]["2.15.0"] if row["platform"] == "linux_x86_64"
    )
    document["releases"]["mxnet"] = {"1.9.1": [{**row, "distribution": "mxnet"}]}
    own = tmp_path / "own.json"
    own.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(
        UserError, match="'mxnet' is a framework of this matrix alone; envcheck judges tensorflow, "
    ):
        run([*command, "--matrix", str(own)])
    assert run(["matrix", "show", "mxnet", "--matrix", str(own)]) == 0
