"""Load the built-in matrix from its files, or a user's matrix after checking it against the schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.query import Matrix
from envcheck.model import UserError

SCHEMA_ID = "envcheck/matrix/1"
# Section of a document -> levels of tables above its rows.
SECTIONS = {
    "schema": 0,
    "checked": 0,
    "citations": 1,
    "frameworks": 1,
    "companions": 1,
    "releases": 3,
    "removed": 1,
    "toolkits": 1,
    "drivers": 1,
    "cudnn": 2,
    "tensorrt": 2,
    "conda": 2,
    "architectures": 1,
    "problems": 1,
}
# File of data/matrix -> its sections. The releases of each framework have a file of their own, and each file holds
# the citations of its rows.
FILES = {
    "frameworks": ("schema", "checked", "frameworks", "companions", "removed"),
    **{name: (name,) for name in ("toolkits", "drivers", "cudnn", "tensorrt", "conda", "architectures", "problems")},
}
_FILE_OF = {section: file for file, sections in FILES.items() for section in sections}
LIMIT = 64 << 20  # bytes of a user's matrix; the built-in one is below two megabytes


class MatrixError(UserError):
    """A matrix file that cannot be used, with one sentence that says why."""


def load_matrix(path: str | None = None) -> Matrix:
    """Load the built-in matrix, or check and load the file or pinned URL `path`."""
    return Matrix(_open_built_in() if path is None else load_document(path))


def load_document(path: str | None = None) -> dict[str, Any]:
    """Load the whole built-in document, or check and load the file or pinned URL `path`; raises MatrixError."""
    if path is None:
        built_in = _open_built_in()
        return {**built_in, "releases": dict(built_in["releases"])}
    name, content = _fetch(path) if _is_url(path) else (path, _read(path))
    document = _parse(content, name)
    check_document(document, name)
    return document


def _open_built_in() -> Mapping[str, Any]:
    """Open the built-in document: the file of a section is read when the section is first used.

    Its citations are those of the files read so far, which are all that the rows of these files name.
    """
    citations: dict[str, Any] = {}

    @cache
    def read_file(file: str) -> dict[str, Any]:
        part: dict[str, Any] = json.loads(read_data(f"matrix/{file}.json"))
        citations.update(part["citations"])
        return part

    def list_frameworks() -> list[str]:
        return sorted([*read_file("frameworks")["frameworks"], *read_file("frameworks")["companions"]])

    releases = _LazyTable(list_frameworks, lambda name: read_file(f"releases/{name}")["releases"][name])
    tables = {"citations": citations, "releases": releases}
    return _LazyTable(
        lambda: SECTIONS, lambda name: tables[name] if name in tables else read_file(_FILE_OF[name])[name]
    )


class _LazyTable(Mapping[str, Any]):
    """A table whose values are read on first use."""

    def __init__(self, list_names: Callable[[], Iterable[str]], reader: Callable[[str], Any]) -> None:
        self._list_names, self._read = list_names, reader
        self._values: dict[str, Any] = {}

    @cached_property
    def _names(self) -> dict[str, None]:
        return dict.fromkeys(self._list_names())

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._values:
            self._values[name] = self._read(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def check_document(document: dict[str, Any], path: str) -> None:
    """Raise MatrixError for a document of another schema, or whose rows cite what it does not hold."""
    _check_schema_id(document, path)
    _check_shape(document, path)
    for row in iterate_rows(document):
        for citation in row["citations"]:
            if citation not in document["citations"]:
                raise MatrixError(f"The matrix file {path} has a row that cites {citation!r}, which it does not hold.")


def check_cells(cells: Mapping[str, Any]) -> None:
    """Raise ValueError for cells that no row of a release can hold."""
    for cell, value in cells.items():
        _check_cell(cell, value)


def _check_cell(cell: str, value: Any) -> None:
    import fastjsonschema

    try:
        _cell_checks()[cell](value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ValueError(f"{cell} is {str(value)[:80]!r}, which no row can hold") from error


@cache
def _cell_checks() -> dict[str, Callable[[Any], Any]]:
    """Compile what the schema says of each cell of a release."""
    import fastjsonschema

    schema = json.loads(read_data("matrix/matrix.schema.json"))
    known = {"definitions": schema["definitions"]}
    cells = schema["definitions"]["release"]["properties"]
    return {cell: fastjsonschema.compile({**known, **cells[cell]}) for cell in cells}


def iterate_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each row of a matrix document, or of a part of one."""
    for versions in document.get("releases", {}).values():
        for rows in versions.values():
            yield from rows
    for section in ("toolkits", "drivers", "architectures", "removed"):
        yield from document.get(section, {}).values()
    for section in ("cudnn", "tensorrt", "conda"):
        for rows in document.get(section, {}).values():
            yield from rows
    yield from document.get("problems", ())


def _is_url(path: str) -> bool:
    return path.lower().startswith(("http://", "https://"))


def _fetch(url: str) -> tuple[str, bytes]:
    """Fetch a matrix from https://host/matrix.json#sha256=...; return it after its URL without credentials."""
    from envcheck.matrix.refresh.index import fetch_pinned, strip_url  # only a URL needs the network

    try:
        return strip_url(url), fetch_pinned(url, LIMIT)
    except UserError as error:
        raise MatrixError(f"The matrix cannot be fetched. {error}") from error


def _read(path: str) -> bytes:
    """Read a user's file; raises MatrixError for folders, devices and files that are larger than any matrix."""
    from pathlib import Path  # only a user's file needs it

    if not path:
        raise MatrixError("The matrix file has no name.")
    file = Path(path)
    try:
        if not file.exists():
            raise MatrixError(f"The matrix file {path} does not exist.")
        if not file.is_file():
            raise MatrixError(f"The matrix file {path} is not a regular file.")
        if file.stat().st_size > LIMIT:
            raise MatrixError(f"The matrix file {path} is larger than {LIMIT >> 20} MiB, the most that is read.")
        return file.read_bytes()
    except OSError as error:
        raise MatrixError(f"The matrix file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # a null byte in the name
        raise MatrixError("The matrix file has a name that no file can have.") from error


def _parse(content: bytes, path: str) -> dict[str, Any]:
    """Decode JSON whose top level must be an object."""
    try:
        document = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MatrixError(f"The matrix file {path} is not UTF-8 text.") from error
    except (ValueError, RecursionError) as error:
        raise MatrixError(f"The matrix file {path} is not valid JSON: {error}.") from error
    if not isinstance(document, dict):
        raise MatrixError(f"The matrix file {path} is not a JSON object.")
    return document


def _check_schema_id(document: dict[str, Any], path: str) -> None:
    """Reject another kind of document, and an older or newer edition of this one."""
    schema_id = document.get("schema")
    if schema_id == SCHEMA_ID:
        return
    name, _, edition = str(schema_id).rpartition("/")
    if name != SCHEMA_ID.rpartition("/")[0] or not edition.isdigit():
        raise MatrixError(
            f"The file {path} is not a compatibility matrix: its schema is {schema_id!r}, not {SCHEMA_ID!r}."
        )
    age = "older" if int(edition) < int(SCHEMA_ID.rpartition("/")[2]) else "newer"
    raise MatrixError(f"The matrix file {path} has the {age} schema {schema_id!r}; this program reads {SCHEMA_ID!r}.")


def _check_shape(document: dict[str, Any], path: str) -> None:
    """Validate against the JSON schema that is shipped with the built-in matrix."""
    import fastjsonschema  # compiles a schema; only user files need it

    validate = fastjsonschema.compile(json.loads(read_data("matrix/matrix.schema.json")))
    try:
        validate(document)
    except fastjsonschema.JsonSchemaValueException as error:
        raise MatrixError(f"The matrix file {path} does not fit its schema: {error.message}.") from error
