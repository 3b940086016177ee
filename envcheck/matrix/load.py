"""Load the built-in matrix, a file for each subject, or a user's file after checking it against the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.query import Matrix

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
# File of data/matrix -> its sections; each framework's releases have a file of their own, and each file its citations.
FILES = {
    "frameworks": ("schema", "checked", "frameworks", "companions", "removed"),
    **{name: (name,) for name in ("toolkits", "drivers", "cudnn", "tensorrt", "conda", "architectures", "problems")},
}
LIMIT = 64 << 20  # bytes of a user's matrix; the built-in one is below two megabytes


class MatrixError(Exception):
    """A matrix file that cannot be used, with one sentence that says why."""


def load_matrix(path: str | None = None) -> Matrix:
    """Load the built-in matrix, or the file or pinned address `path`, whose shape is checked first."""
    if path is None:
        return Matrix(BuiltInDocument())
    return Matrix(load_document(path))


class BuiltInDocument(Mapping[str, Any]):
    """The built-in document: the file of a section is read whole when the section is first asked for.

    Its citations are those of the files read so far, which are all that the rows of these name.
    """

    def __init__(self) -> None:
        """Prepare; nothing is read yet."""
        self._sections: dict[str, Any] = {"citations": {}, "releases": _Releases(self)}

    def __getitem__(self, section: str) -> Any:
        if section not in self._sections:
            file = next((name for name, sections in FILES.items() if section in sections), None)
            if file is None:
                raise KeyError(section)
            self._sections.update(self.read(file))
        return self._sections[section]

    def __iter__(self) -> Iterator[str]:
        return iter(SECTIONS)

    def __len__(self) -> int:
        return len(SECTIONS)

    def read(self, file: str) -> dict[str, Any]:
        """Read a file of data/matrix: its sections without the citations, which join those read before."""
        part: dict[str, Any] = json.loads(read_data(f"matrix/{file}.json"))
        self._sections["citations"].update(part.pop("citations"))
        return part


class _Releases(Mapping[str, Any]):
    """The releases of the built-in document by framework."""

    def __init__(self, document: BuiltInDocument) -> None:
        self._document = document
        self._read: dict[str, Any] = {}

    def __getitem__(self, framework: str) -> Any:
        if framework not in self._names:
            raise KeyError(framework)
        if framework not in self._read:
            self._read.update(self._document.read(f"releases/{framework}")["releases"])
        return self._read[framework]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def _names(self) -> list[str]:
        return sorted([*self._document["frameworks"], *self._document["companions"]])


def load_document(path: str | None = None) -> dict[str, Any]:
    """Decode a whole matrix document, the built-in one, a file's or that of an address with its hash, checked."""
    if path is None:
        built_in = BuiltInDocument()
        return {**built_in, "releases": dict(built_in["releases"])}
    name, content = _fetched(path) if is_address(path) else (path, _read(path))
    data = _parse(_text(content, name), name)
    check_document(data, name)
    return data


def is_address(path: str) -> bool:
    """Tell whether a matrix is to be fetched: https://host/matrix.json#sha256=..."""
    return path.lower().startswith(("http://", "https://"))


def check_document(data: dict[str, Any], path: str) -> None:
    """Raise MatrixError for a document that is no matrix of this edition, or whose rows cite what it lacks."""
    _check_schema_id(data, path)
    _check_shape(data, path)
    _check_citations(data, path)


def _fetched(address: str) -> tuple[str, bytes]:
    """Fetch a user's matrix, whose hash the address must name; return it behind a name fit for messages."""
    from envcheck.matrix.refresh.index import fetch_pinned, plain_url
    from envcheck.matrix.refresh.pip_settings import (  # only an address needs a network
        ArtifactError,
        MissingLibraryError,
    )

    try:
        return plain_url(address), fetch_pinned(address, LIMIT)
    except (ArtifactError, MissingLibraryError) as error:
        raise MatrixError(f"The matrix cannot be fetched. {error}") from error


def _read(path: str) -> bytes:
    """Read a user's file; directories, devices and files no matrix is as large as are refused."""
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
            raise MatrixError(f"The matrix file {path} is larger than {LIMIT >> 20} MiB: no matrix is.")
        return file.read_bytes()
    except OSError as error:
        raise MatrixError(f"The matrix file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # a null byte in the name
        raise MatrixError("The matrix file has a name that no file can have.") from error


def _text(data: bytes, path: str) -> str:
    """Decode a file's bytes; what is not UTF-8 is refused."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MatrixError(f"The matrix file {path} is not UTF-8 text.") from error


def _parse(text: str, path: str) -> dict[str, Any]:
    """Decode JSON whose top level must be an object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MatrixError(f"The matrix file {path} is not valid JSON: {error}.") from error
    if not isinstance(data, dict):
        raise MatrixError(f"The matrix file {path} is not a JSON object.")
    return data


def _check_schema_id(data: dict[str, Any], path: str) -> None:
    """Refuse another document, and an older or newer edition of this one."""
    found = data.get("schema")
    if found == SCHEMA_ID:
        return
    name, _, edition = str(found).rpartition("/")
    if name != SCHEMA_ID.rpartition("/")[0] or not edition.isdigit():
        raise MatrixError(f"The file {path} is not a compatibility matrix: its schema is {found!r}, not {SCHEMA_ID!r}.")
    age = "older" if int(edition) < int(SCHEMA_ID.rpartition("/")[2]) else "newer"
    raise MatrixError(f"The matrix file {path} has the {age} schema {found!r}; this program reads {SCHEMA_ID!r}.")


def _check_shape(data: dict[str, Any], path: str) -> None:
    """Validate against the JSON schema that ships beside the built-in matrix."""
    import fastjsonschema  # compiles a schema, for user files only

    validate = fastjsonschema.compile(json.loads(read_data("matrix/matrix.schema.json")))
    try:
        validate(data)
    except fastjsonschema.JsonSchemaValueException as error:
        raise MatrixError(f"The matrix file {path} does not fit its schema: {error.message}.") from error


def _check_citations(data: dict[str, Any], path: str) -> None:
    """Refuse rows that cite what the file does not hold."""
    for row in every_row(data):
        for citation in row["citations"]:
            if citation not in data["citations"]:
                raise MatrixError(f"The matrix file {path} has a row that cites {citation!r}, which it does not hold.")


def every_row(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each row of each section of a matrix document, or of a part of one."""
    for versions in data.get("releases", {}).values():
        for rows in versions.values():
            yield from rows
    for section in ("toolkits", "drivers", "architectures", "removed"):
        yield from data.get(section, {}).values()
    for section in ("cudnn", "tensorrt", "conda"):
        for rows in data.get(section, {}).values():
            yield from rows
    yield from data.get("problems", ())
