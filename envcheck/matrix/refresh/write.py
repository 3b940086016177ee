"""Write a matrix document in canonical form: to one file, or to the files of data/matrix."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

from packaging.version import Version

from envcheck.host.file_changes import write_output
from envcheck.matrix.load import FILES, SECTIONS, check_document, iterate_rows
from envcheck.matrix.refresh.pip_settings import ArtifactError


def find_user_matrix() -> Path:
    """Return the file for a refreshed matrix if the user names none."""
    import platformdirs

    return Path(platformdirs.user_data_dir("envcheck", appauthor=False)) / "compat_matrix.json"


def save_document(document: dict[str, Any], path: Path) -> None:
    """Check a document, then write it to a file, or as the files of data/matrix to a folder that exists.

    Raises MatrixError for a document that cannot be loaded, ArtifactError for a path that cannot be written.
    """
    check_document(document, str(path))
    parts = split_document(document) if path.is_dir() else ()
    files = {path / f"{name}.json": part for name, part in parts} or {path: document}
    try:
        for file, part in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_output(file, format_document(part))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror}.") from error


def split_document(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Split a document into the files of data/matrix, each with the citations of its rows."""
    releases: dict[str, Any] = {name: {} for section in ("frameworks", "companions") for name in document[section]}
    parts = [(file, {name: document[name] for name in sections}) for file, sections in FILES.items()]
    parts += [
        (f"releases/{framework}", {"releases": {framework: versions}})
        for framework, versions in {**releases, **document["releases"]}.items()
    ]
    for file, part in parts:
        cited = {name for row in iterate_rows(part) for name in row["citations"]}
        yield file, {**part, "citations": {name: document["citations"][name] for name in cited}}


def format_document(document: Mapping[str, Any]) -> str:
    """Format a document, or a part of one, in canonical form: sections in order, one row a line, cells sorted."""
    sections = (
        f" {json.dumps(name)}: {_format_value(_SORT.get(name, _keep)(document[name]), depth, ' ')}"
        for name, depth in SECTIONS.items()
        if name in document
    )
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _format_value(value: Any, depth: int, indent: str) -> str:
    """Format a value: tables down to `depth` with one item a line, deeper values on one line."""
    if depth == 0 or not value:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = indent + " "
    body = ",\n".join(inner + key + _format_value(item, depth - 1, inner) for key, item in _pair_items(value))
    return f"{opening}\n{body}\n{indent}{closing}"


def _pair_items(table: Any) -> Iterator[tuple[str, Any]]:
    """Pair each item with its formatted key; the items of a list have none."""
    if isinstance(table, dict):
        return ((json.dumps(key) + ": ", item) for key, item in table.items())
    return zip(repeat(""), table)


def _keep(section: Any) -> Any:
    return section


def _sort_by_name(table: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(table.items()))


def _sort_by_version(table: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(table.items(), key=lambda item: Version(item[0])))


def _sort_releases(releases: dict[str, Any]) -> dict[str, Any]:
    return {
        framework: {
            version: sorted(rows, key=lambda row: (row["distribution"], row["platform"]))
            for version, rows in _sort_by_version(versions).items()
        }
        for framework, versions in sorted(releases.items())
    }


def _sort_builds(lines: dict[str, Any]) -> dict[str, Any]:
    builds = _sort_by_version(lines).items()
    return {line: sorted(rows, key=lambda row: int(row["cuda_major"])) for line, rows in builds}


def _sort_conda(packages: dict[str, Any]) -> dict[str, Any]:
    return {
        package: sorted(rows, key=lambda row: (row["channel"], row["versions"], row["build"] or ""))
        for package, rows in sorted(packages.items())
    }


_SORT: dict[str, Callable[[Any], Any]] = {
    "citations": _sort_by_name,
    "releases": _sort_releases,
    "removed": _sort_by_name,
    "toolkits": _sort_by_version,
    "drivers": _sort_by_version,
    "cudnn": _sort_builds,
    "tensorrt": _sort_builds,
    "conda": _sort_conda,
    "architectures": _sort_by_version,
    "problems": lambda rows: sorted(rows, key=lambda row: str(row["id"])),
}
