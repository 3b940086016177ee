"""Each fault of an index in `envcheck matrix refresh` and `verify`: one sentence, and nothing is written.

A wheel that is odd is left out.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import fastjsonschema
import pytest

from envcheck.cli.group import run
from tests.matrix.index.renewal import without
from tests.matrix.index.server import JSON, Handler, LocalIndex, archive, recorded

SCHEMAS = Path(__file__).parents[2] / "envcheck" / "schemas"
PAGE = "/simple/tensorflow/"
WHEEL = "tensorflow-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl"
FOLDER = "tensorflow-2.21.0"


def down(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")


def slow(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "0.2")
    index.answers[PAGE] = Handler.never


def redirecting(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.answers[PAGE] = lambda handler: handler.reply(302, b"", Location=PAGE)


def html_for_json(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.answers[PAGE] = lambda handler: handler.reply(
        200, b"<html>Log in</html>", Content_Type=JSON
    )


def no_ranges(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.ranges = "none"


def truncated(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.archives[WHEEL] = index.archive(WHEEL)[:-30]


def huge_directory(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 0xFFFFFFF0, 16, 0)
    index.archives[WHEEL] = b"\0" * 100_000 + end


def escaping(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.archives[WHEEL] = archive({"../../.bashrc": b"", **_members()}, folder=FOLDER)


def wrong_hash(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.form = "json"
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "metadata": "1" * 64}


def _members() -> dict[str, bytes]:
    body = recorded()["wheels"][WHEEL]["members"]
    named = {
        f"{FOLDER}.dist-info/METADATA" if name == "METADATA" else name: key
        for name, key in body.items()
    }
    return {name: recorded()["texts"][key].encode() for name, key in named.items()}


@pytest.fixture
def spoilt(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    """Bring one fault about, and return the words that must tell it."""
    fault, words = request.param
    fault(configured_index, monkeypatch)
    return str(words)


Fault = Callable[[LocalIndex, pytest.MonkeyPatch], None]
FAULTS: list[tuple[Fault, str]] = [
    (down, "cannot be read: no connection"),
    (slow, "timed out"),
    (redirecting, "too many redirects"),
    (html_for_json, "is not valid"),
    (no_ranges, "does not serve byte ranges"),
]
ODD: list[tuple[Fault, str]] = [
    (truncated, f"{WHEEL} is not a readable wheel"),
    (huge_directory, WHEEL),
    (escaping, "a path outside its folder"),
    (wrong_hash, "does not have the hash that the index states"),
]


def each(faults: list[tuple[Fault, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "spoilt", faults, indirect=True, ids=[fault.__name__ for fault, _ in faults]
    )


@pytest.fixture
def asked(
    configured_index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Ask for a renewal that has to read the newest release, over a file that is already there."""
    monkeypatch.setenv("PIP_RETRIES", "0")
    own, new = tmp_path / "own.json", tmp_path / "new.json"
    own.write_text(json.dumps(without("tensorflow", "2.21.0")), encoding="utf-8")
    new.write_text("as it was", encoding="utf-8")
    return ["matrix", "refresh", "--framework", "tensorflow", "--matrix", str(own), "-o", str(new)]


@each(FAULTS)
def test_refresh_reports_one_sentence_and_writes_nothing(
    asked: list[str], spoilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(asked) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert spoilt in printed.err
    assert printed.err.startswith("envcheck: ")
    assert printed.err.endswith(" Nothing was written.\n")
    assert printed.err.count("\n") == 1
    assert (tmp_path / "new.json").read_text(encoding="utf-8") == "as it was"
    assert {path.name for path in tmp_path.glob("*.json")} == {"own.json", "new.json"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("tmp")]


@each(ODD)
def test_refresh_leaves_an_odd_wheel_out_and_goes_on(
    asked: list[str], spoilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*asked, "--format", "json"]) == 0
    (left_out,) = json.loads(capsys.readouterr().out)["left_out"]
    assert left_out.startswith(WHEEL)
    assert spoilt in left_out
    rows = json.loads((tmp_path / "new.json").read_text(encoding="utf-8"))["releases"][
        "tensorflow"
    ]["2.21.0"]
    platforms = {row["platform"] for row in rows if row["distribution"] == "tensorflow"}
    assert platforms == {"linux_aarch64", "macosx_arm64", "win_amd64"}


@each(FAULTS)
def test_refresh_reports_it_as_json(
    asked: list[str], spoilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*asked, "--format", "json"]) == 3
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    found = json.loads(printed)
    fastjsonschema.compile(
        json.loads((SCHEMAS / "matrix-refresh.schema.json").read_text(encoding="utf-8"))
    )(found)
    assert (found["verdict"], found["saved_to"], found["changes"]) == ("undetermined", None, [])
    assert spoilt in found["message"]
    assert (tmp_path / "new.json").read_text(encoding="utf-8") == "as it was"


@each([*FAULTS, *ODD])
def test_verify_ends_undetermined(
    spoilt: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert run(["matrix", "verify", "--all", "--framework", "tensorflow", "--format", "json"]) in {
        1,
        3,
    }
    found = json.loads(capsys.readouterr().out)
    assert any(spoilt in line for line in found["unread"])


def test_an_output_folder_that_cannot_be_made(
    configured_index: LocalIndex,
    asked: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "new.json" / "below" / "matrix.json"  # below a file
    assert run([*asked[:-1], str(target)]) == 3
    assert "cannot be written" in capsys.readouterr().err
