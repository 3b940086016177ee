"""Loading: unchecked for the built-in matrix, checked and refused with one sentence for a user's file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.matrix import MatrixError, load_matrix
from tests.matrix.documents import Document, changed_copy, text


def refused(path: Path | str) -> str:
    with pytest.raises(MatrixError) as caught:
        load_matrix(str(path))
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message
    return message


def written(folder: Path, document: object) -> Path:
    path = folder / "matrix.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_user_file_answers_like_the_built_in_one(tmp_path: Path) -> None:
    document = changed_copy()
    del document["releases"]["tensorflow"]["2.21.0"]
    matrix = load_matrix(str(written(tmp_path, document)))
    assert matrix.release("tensorflow", "2.21.0", "linux_x86_64") is None
    assert matrix.release("tensorflow", "2.20.0", "linux_x86_64") is not None


def test_missing_file(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.json")


def test_directory(tmp_path: Path) -> None:
    assert "is not a regular file" in refused(tmp_path)


@pytest.mark.needs("posix")
def test_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refused(tmp_path / "pipe")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, {})

    def denied(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert "cannot be read: Permission denied" in refused(path)


def test_larger_than_any_matrix(tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    with path.open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    assert "is larger than 64 MiB" in refused(path)


@pytest.mark.parametrize(("name", "words"), [("", "has no name"), ("a\0b", "does not exist|that no file can have")])
def test_name_that_no_file_has(name: str, words: str) -> None:
    with pytest.raises(MatrixError, match=words):
        load_matrix(name)


def test_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    path.write_bytes(b'{"schema": "\xff\xfe"}')
    assert "is not UTF-8" in refused(path)


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, text()[:-40]])
def test_corrupt_json(tmp_path: Path, content: str) -> None:
    path = tmp_path / "matrix.json"
    path.write_text(content, encoding="utf-8")
    assert "is not valid JSON" in refused(path)


def test_not_an_object(tmp_path: Path) -> None:
    assert "is not a JSON object" in refused(written(tmp_path, []))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("envcheck/matrix/0", "has the older schema"),
        ("envcheck/matrix/2", "has the newer schema"),
        ("envcheck/snapshot/1", "is not a compatibility matrix"),
        ("envcheck/matrix/x", "is not a compatibility matrix"),
        (None, "is not a compatibility matrix"),
    ],
)
def test_wrong_schema_id(tmp_path: Path, schema: str | None, words: str) -> None:
    assert words in refused(written(tmp_path, {"schema": schema}))


def extra_cell(document: Document) -> None:
    document["toolkits"]["12.6"]["command"] = "rm"


def missing_section(document: Document) -> None:
    del document["problems"]


def wrong_type(document: Document) -> None:
    document["drivers"]["550"]["cuda"] = 12.4


def release_without_python(document: Document) -> None:
    document["releases"]["tensorflow"]["2.20.0"][0]["pythons"] = []


def cuda_build_without_cuda(document: Document) -> None:
    next(row for row in document["releases"]["torch"]["2.4.1"] if row["cuda_build"]).pop("cuda")


@pytest.mark.parametrize(
    "spoil", [extra_cell, missing_section, wrong_type, release_without_python, cuda_build_without_cuda]
)
def test_wrong_shape(tmp_path: Path, spoil: Callable[[Document], None]) -> None:
    document = changed_copy()
    spoil(document)
    assert "does not fit its schema" in refused(written(tmp_path, document))


def test_citation_that_is_not_there(tmp_path: Path) -> None:
    document = changed_copy()
    document["toolkits"]["12.6"]["citations"] = ["nowhere"]
    assert "cites 'nowhere'" in refused(written(tmp_path, document))
