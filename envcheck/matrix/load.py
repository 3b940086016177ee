"""Load the built-in matrix, or a user's after checking it against the schema."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.built_in import (
    EVIDENCE,
    SCHEMA_ID,
    TABLES,
    group_lines,
    open_built_in,
    read_whole,
    unfold,
)
from envcheck.matrix.query import Matrix
from envcheck.matrix.stored import ADDRESS, open_stored
from envcheck.model import UserError
from envcheck.model.text import remove_url_secrets

FOLDED_ID = "envcheck/matrix/2"  # of data/compat_matrix.json
LIMIT = 64 << 20  # bytes of a user's matrix; the built-in one is below two megabytes


class MatrixError(UserError):
    """A matrix file that cannot be used, with one sentence that says why."""


def load_matrix(path: str | None = None) -> Matrix:
    """Load the matrix in use, or check and load the file or pinned URL `path`.

    In use is the data that `matrix update` stored where it is newer than the built-in data, else
    that.
    """
    renewal = "update" if os.environ.get(ADDRESS) else "refresh"
    if path is not None:
        return Matrix(load_document(path), "of --matrix", renewal)
    built_in = open_built_in()
    stored = open_stored(lambda: str(built_in["checked"]))
    return Matrix(
        built_in if stored is None else stored,
        "built in" if stored is None else "by matrix update",
        renewal,
    )


def load_document(path: str | None = None) -> dict[str, Any]:
    """Load the built-in document, or check and load a file or pinned URL.

    Raises MatrixError.
    """
    if path is None:
        return read_whole()
    if not is_url(path):
        return parse_document(path, read_user_file(path))
    # only a URL needs the network
    from envcheck.matrix.refresh.index import fetch_pinned

    try:  # its name is the URL without credentials
        return parse_document(remove_url_secrets(path), fetch_pinned(path, LIMIT))
    except MatrixError:
        raise
    except UserError as error:
        raise MatrixError(f"The matrix cannot be fetched. {error}") from error


def parse_document(name: str, content: bytes) -> dict[str, Any]:
    """Decode and check the content of a matrix file; raises MatrixError, which names it."""
    document = _parse(content, name)
    if document.get("schema") == FOLDED_ID:
        document = _unfold_document(document, name)
    check_document(document, name)
    return document


OWN_FILE = "own-file"  # what rows of a user's file in the form of data/compat_matrix.json cite


def _unfold_document(folded: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Make a whole document of a user's file in the form of data/compat_matrix.json.

    A row that is a built-in one keeps the evidence of that, any other cites the file. The sections
    that such a file does not have, and the packages on top, are the built-in ones.
    """
    _validate(_read_schema("compat_matrix.schema.json"), folded, path)
    whole = read_whole()
    whole["citations"][OWN_FILE] = {
        "url_or_artifact": path,
        "locator": "this row",
        "checked": folded["checked"],
    }
    for framework, lines in folded["releases"].items():
        known = whole["releases"].get(framework, {})
        releases: dict[str, list[dict[str, Any]]] = {name: [] for name in group_lines(lines)}
        for release, row in (pair for line in lines for pair in unfold(line)):
            releases[release].append(_give_evidence(row, known.get(release, ())))
        for rows in releases.values():
            rows.sort(key=lambda row: (row["distribution"], row["platform"]))
        whole["releases"][framework] = releases
    for section in TABLES:
        known = whole[section]
        whole[section] = {}
        for key, rows in folded[section].items():
            if isinstance(rows, list):  # the builds of a line
                given: Any = [_give_evidence(row, known.get(key, ())) for row in rows]
            else:
                given = _give_evidence(rows, (known[key],) if key in known else ())
            whole[section][key] = given
    return {**whole, "checked": folded["checked"]}


def _give_evidence(row: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the built-in row with the same cells, else the row citing its file."""
    for item in known:
        if {name: value for name, value in item.items() if name not in EVIDENCE} == row:
            return dict(item)
    # removed distributions have none
    proof = {} if "replacement" in row else {"proof": {"*": "documented"}}
    return {**row, "citations": [OWN_FILE], **proof}


def check_document(document: dict[str, Any], path: str) -> None:
    """Raise MatrixError for another schema, or for rows that cite what is missing."""
    _check_schema_id(document, path)
    _validate(_document_schema(), document, path)
    for row in iterate_rows(document):
        for citation in row["citations"]:
            if citation not in document["citations"]:
                raise MatrixError(
                    f"The matrix file {path} has a row that cites"
                    f" {citation!r}, which it does not hold."
                )
    for row in document.get("problems", ()):
        _check_ranges(row, path)


def _check_ranges(problem: Mapping[str, Any], path: str) -> None:
    """Raise MatrixError for a known problem with a range or a requirement that is none."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        for cell in ("specifier", "pythons", "compute_capabilities"):
            SpecifierSet(problem.get(cell, ""))
        for text in (problem.get("condition", ""), *problem.get("fix", "").split()):
            if text:
                Requirement(text)
    except (InvalidRequirement, InvalidSpecifier) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise MatrixError(
            f"The matrix file {path} has a known problem, {problem['id']}, that names no range:"
            f" {reason}."
        ) from None


def check_cells(cells: Mapping[str, Any]) -> None:
    """Raise ValueError for cells that no row of a release can hold."""
    import fastjsonschema

    cell = ""
    try:
        for cell, value in cells.items():
            _cell_checks()[cell](value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ValueError(f"{cell} is {str(cells[cell])[:80]!r}, which no row can hold") from error


@cache
def _cell_checks() -> dict[str, Callable[[Any], Any]]:
    """Compile what the schema says of each cell of a release."""
    import fastjsonschema

    known = _document_schema()["definitions"]
    cells = known["release"]["properties"].items()
    return {cell: fastjsonschema.compile({"definitions": known, **body}) for cell, body in cells}


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


def is_url(path: str) -> bool:
    """Return whether a matrix is named by an address."""
    return path.lower().startswith(("http://", "https://"))


def read_user_file(path: str) -> bytes:
    """Read a user's file; MatrixError for folders, devices and files that are too large."""
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
            raise MatrixError(
                f"The matrix file {path} is larger than {LIMIT >> 20} MiB, the most that is read."
            )
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
            f"The file {path} is not a compatibility matrix:"
            f" its schema is {schema_id!r}, not {SCHEMA_ID!r}."
        )
    age = "newer"
    if int(edition) < int(SCHEMA_ID.rpartition("/")[2]):
        age = "older"
    known = f"{SCHEMA_ID!r} and {FOLDED_ID!r}"
    raise MatrixError(
        f"The matrix file {path} has the {age} schema {schema_id!r}; this program reads {known}."
    )


def _validate(schema: dict[str, Any], document: Mapping[str, Any], path: str) -> None:
    import fastjsonschema  # compiles a schema; only user files need it

    try:
        fastjsonschema.compile(schema)(document)
    except fastjsonschema.JsonSchemaValueException as error:
        raise MatrixError(
            f"The matrix file {path} does not fit its schema: {error.message[:300]}."
        ) from error


def _read_schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(read_data(name))
    return schema


def _document_schema() -> dict[str, Any]:
    """Return the JSON schema of a whole document.

    Its rows have the cells of a line, and those of the evidence.
    """
    document = _read_schema("program/matrix_document.schema.json")
    folded = _read_schema("compat_matrix.schema.json")
    definitions = {**folded["definitions"], **document["definitions"]}
    for kind, added in document.pop("added").items():
        body = definitions[kind]
        cells = {**body["properties"], **added["properties"]}
        required = [*body["required"], *added["required"]]
        for name in ("releases", "platforms"):  # of a line
            cells.pop(name, None)
        definitions[kind] = {
            **body,
            "properties": cells,
            "required": [name for name in required if name in cells],
        }
    return {**document, "definitions": definitions}
