"""Load the built-in matrix from its files; check a user's file and refuse it with one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envcheck.host.data_files import read_data
from envcheck.matrix import MatrixError, load, load_matrix
from envcheck.matrix.load import FILES, SECTIONS, load_document
from envcheck.matrix.refresh.refresh import format_document, split_document
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


DATA = Path(__file__).parents[2] / "data" / "matrix"


def test_the_files_are_the_parts_of_one_document_in_canonical_form() -> None:
    written = {f"{file}.json": format_document(part) for file, part in split_document(load_document())}
    held = {path.relative_to(DATA).as_posix(): path.read_text(encoding="utf-8") for path in DATA.rglob("*.json")}
    del held["matrix.schema.json"]
    assert held == written


def test_every_section_is_in_one_file() -> None:
    named = [section for sections in FILES.values() for section in sections]
    assert sorted([*named, "citations", "releases"]) == sorted(SECTIONS)


def test_citations_of_several_files_agree() -> None:
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in DATA.rglob("*.json")]
    cited = [item for part in parts for item in part.get("citations", {}).items()]
    assert len({name for name, _ in cited}) == len({json.dumps(item) for item in cited})


def test_a_section_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(name: str) -> bytes:
        read.append(name)
        return read_data(name)

    monkeypatch.setattr(load, "read_data", noted)
    document: Any = load._open_built_in()
    assert (len(document), list(document), read) == (len(SECTIONS), list(SECTIONS), [])
    assert document["toolkits"]["12.6"] is document["toolkits"]["12.6"]
    assert read == ["matrix/toolkits.json"]
    assert "2.6.0" in document["releases"]["torch"]
    assert read[1:] == ["matrix/frameworks.json", "matrix/releases/torch.json"]
    assert document["removed"]
    assert len(read) == 3
    assert set(document["releases"]) == {*document["frameworks"], *document["companions"]}
    assert len(document["releases"]) == len(set(document["releases"]))


@pytest.mark.parametrize("path", [("nothing",), ("drivers", "551"), ("releases", "mxnet")])
def test_what_is_not_there_is_a_missing_key(path: tuple[str, ...]) -> None:
    table: Any = load._open_built_in()
    for key in path[:-1]:
        table = table[key]
    assert path[-1] not in table
    with pytest.raises(KeyError):
        table[path[-1]]


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
