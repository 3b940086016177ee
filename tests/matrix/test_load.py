"""Load the built-in matrix from its files; check a user's file and refuse it with one sentence."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envcheck.host.data_files import read_data
from envcheck.matrix import Matrix, MatrixError, built_in, load_matrix
from envcheck.matrix.built_in import EVIDENCE, SECTIONS, unfold
from envcheck.matrix.load import load_document
from envcheck.matrix.refresh.files import fold, split_document
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


DATA = Path(__file__).parents[2] / "data"


def test_the_files_hold_one_document_in_canonical_form() -> None:
    for name, content in split_document(load_document()):
        assert (DATA / f"{name}.json").read_text(encoding="utf-8") == content, name


def test_no_two_data_files_have_one_name() -> None:
    names = [path.name for path in DATA.rglob("*") if path.is_file()]
    assert len(names) == len(set(names))


def test_the_matrix_is_small_enough_to_be_opened() -> None:
    assert (DATA / "compat_matrix.json").stat().st_size <= 800_000


def test_lines_are_unfolded_into_the_rows_that_they_were_folded_from() -> None:
    for versions in load_document()["releases"].values():
        rows = [(version, row) for version, held in versions.items() for row in held]
        bare = [
            (version, {name: row[name] for name in row if name not in EVIDENCE})
            for version, row in rows
        ]
        unfolded = [item for line in fold(versions) for item in unfold(line)]
        assert sorted(map(str_of, unfolded)) == sorted(map(str_of, bare))


def str_of(item: tuple[str, dict[str, Any]]) -> str:
    return json.dumps(item, sort_keys=True)


def test_the_page_on_the_matrix_shows_the_function_that_unfolds_a_line() -> None:
    source = inspect.getsource(unfold)
    assert len(source.splitlines()) <= 30
    assert source.split('"""')[2] in (DATA.parent / "docs" / "reference" / "matrix.md").read_text(
        encoding="utf-8"
    )


def test_citations_of_several_files_agree() -> None:
    parts = [
        json.loads(path.read_text(encoding="utf-8")) for path in (DATA / "evidence").glob("*.json")
    ]
    cited = [item for part in parts for item in part.get("citations", {}).items()]
    assert len({name for name, _ in cited}) == len({json.dumps(item) for item in cited})


def test_a_file_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(name: str) -> bytes:
        read.append(name)
        return read_data(name)

    monkeypatch.setattr(built_in, "read_data", noted)
    document: Any = built_in.open_built_in()
    assert (len(document), list(document), read) == (len(SECTIONS), list(SECTIONS), [])
    assert document["toolkits"]["12.6"] is document["toolkits"]["12.6"]
    assert "2.6.0" in document["releases"]["torch"]
    assert document["removed"]
    assert document["releases"]["torch"]["2.6.0"][0]["distribution"] == "torch"
    assert read == ["compat_matrix.json"]
    assert document["releases"]["torch"]["2.6.0"][0]["citations"]
    assert document["releases"]["torch"]["2.6.0"][0]["proof"]
    assert read[1:] == ["evidence/torch-wheels.json"]
    assert "0.21.0" in document["releases"]["torchvision"]
    assert read[2:] == ["packages/torchvision.json"]
    assert set(document["releases"]) == {*document["frameworks"], *document["companions"]}
    assert len(document["releases"]) == len(set(document["releases"]))


def test_a_judgement_reads_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(built_in, "read_data", lambda name: read.append(name) or read_data(name))  # type: ignore[func-returns-value]
    matrix = Matrix(built_in.open_built_in())
    builds = [build for row in matrix.releases("torch") for build in matrix.index_builds(row)]
    assert matrix.cudnn("9.1") is not None
    assert builds
    assert [name for name in read if name.startswith("evidence/")] == []
    assert builds[0].citations[0].url_or_artifact
    assert builds[0].proof["cuda"] in ("tier1", "documented")
    assert [name for name in read if name.startswith("evidence/")] == ["evidence/torch-wheels.json"]


def test_a_file_in_the_form_of_the_built_in_matrix_is_read(tmp_path: Path) -> None:
    folded = json.loads((DATA / "compat_matrix.json").read_text(encoding="utf-8"))
    own = tmp_path / "own.json"
    own.write_text(json.dumps(folded), encoding="utf-8")
    plain, built = load_document(str(own)), load_document()
    assert plain["citations"].pop("own-file")["url_or_artifact"] == str(own)
    assert plain == built
    line = next(
        item
        for item in folded["releases"]["torch"]
        if "2.9.0" in item["releases"] and "cuda" in item
    )
    line["cuda"] = "12.9"
    own.write_text(json.dumps(folded), encoding="utf-8")
    row = load_matrix(str(own)).release("torch", "2.9.0", "linux_x86_64")
    assert row is not None
    assert row.cuda == "12.9"
    assert row.citations[0].url_or_artifact == str(own)
    assert row.proof["cuda"] == "documented"
    line["pythons"] = "3.8 to 3.12"
    own.write_text(json.dumps(folded), encoding="utf-8")
    assert "does not fit its schema" in refused(own)


@pytest.mark.parametrize("path", [("nothing",), ("drivers", "551"), ("releases", "mxnet")])
def test_what_is_not_there_is_a_missing_key(path: tuple[str, ...]) -> None:
    table: Any = built_in.open_built_in()
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


@pytest.mark.parametrize(
    ("name", "words"), [("", "has no name"), ("a\0b", "does not exist|that no file can have")]
)
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
        ("envcheck/matrix/3", "has the newer schema"),
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
    "spoil",
    [extra_cell, missing_section, wrong_type, release_without_python, cuda_build_without_cuda],
)
def test_wrong_shape(tmp_path: Path, spoil: Callable[[Document], None]) -> None:
    document = changed_copy()
    spoil(document)
    assert "does not fit its schema" in refused(written(tmp_path, document))


def test_citation_that_is_not_there(tmp_path: Path) -> None:
    document = changed_copy()
    document["toolkits"]["12.6"]["citations"] = ["nowhere"]
    assert "cites 'nowhere'" in refused(written(tmp_path, document))
