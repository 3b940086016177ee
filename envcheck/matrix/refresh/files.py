"""Write a matrix document: as one file, or as the files of data/."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, repeat
from pathlib import Path
from typing import Any

from packaging.version import Version

from envcheck.host.data_files import read_data
from envcheck.host.file_changes import write_output
from envcheck.matrix.built_in import (
    EVIDENCE,
    MATRIX,
    OWN_FILES,
    SECTIONS,
    TABLES,
    TABLES_EVIDENCE,
    evidence_file,
    releases_file,
)
from envcheck.matrix.load import FOLDED_ID, check_document, iterate_rows
from envcheck.matrix.refresh.index import ArtifactError

Row = dict[str, Any]
_KEY = ("distribution", "platform")
_PACKAGE_ID = "envcheck/package/1"
_FIRST = ("distribution", "releases", "platforms")  # cells at the beginning of a line


def find_user_matrix() -> Path:
    """Return the file for a refreshed matrix if the user names none."""
    import platformdirs

    return Path(platformdirs.user_data_dir("envcheck", appauthor=False)) / "compat_matrix.json"


def save_document(document: dict[str, Any], path: Path) -> None:
    """Check a document, then write it to a file, or as the files of data/ to a folder that exists.

    Raises MatrixError for a document that cannot be loaded, ArtifactError for a path that cannot be
    written.
    """
    check_document(document, str(path))
    files = {path: format_document(document)}
    if path.is_dir():
        files = {path / f"{name}.json": text for name, text in split_document(document)}
    try:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_output(file, text)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror}.") from error


def format_document(document: Mapping[str, Any]) -> str:
    """Format a document in canonical form: sections in order, one row a line, cells sorted."""
    sections = {
        name: _SORT.get(name, _keep)(document[name]) for name in SECTIONS if name in document
    }
    return _format_file(sections, SECTIONS)


def split_document(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the files of data/ that hold a document.

    Rows apart from their evidence, equal rows in one line.
    """
    lines: dict[str, list[Row]] = {}
    for section, versions in document["releases"].items():
        lines[section] = fold(versions)
        yield evidence_file(section), _format_evidence(document, versions)
        if releases_file(section) != MATRIX:
            yield releases_file(section), _format_package(section, lines[section])
    tables = {name: _SORT[name](document[name]) for name in TABLES}
    frameworks = {name: lines[name] for name in sorted(lines) if releases_file(name) == MATRIX}
    matrix = {"schema": FOLDED_ID, "checked": document["checked"], "releases": frameworks}
    matrix |= {name: _pick(table, in_evidence=False) for name, table in tables.items()}
    yield MATRIX, _format_file(matrix, {**SECTIONS, "releases": 2})
    parts = {name: _pick(table, in_evidence=True) for name, table in tables.items()}
    yield TABLES_EVIDENCE, _format_file({"citations": _cite(document, parts), **parts}, SECTIONS)
    for name, file in OWN_FILES.items():
        part = {name: _SORT[name](document[name])}
        yield file, _format_file({"citations": _cite(document, part), **part}, SECTIONS)


def fold(versions: Mapping[str, list[Row]]) -> list[Row]:
    """Fold the rows of releases.

    Equal rows of a release, then those of releases that follow one another.
    """
    rows = [
        (version, row) for version, rows in _sort_by_version(dict(versions)).items() for row in rows
    ]
    rows.sort(key=lambda item: str(item[1]["distribution"]))  # stable: the releases stay in order
    lines: list[Row] = []
    for _, items in groupby(rows, key=lambda item: str(item[1]["distribution"])):
        before: dict[str, Row] = {}
        for version, release in groupby(items, key=lambda item: item[0]):
            now: dict[str, Row] = {}
            for line in _fold_release(row for _, row in release):
                key = json.dumps(line, sort_keys=True)
                now[key] = before.get(key) or {**line, "releases": []}
                now[key]["releases"].append(version)
                if key not in before:
                    lines.append(now[key])
            before = now
    return lines


def _fold_release(rows: Iterable[Row]) -> list[Row]:
    """Fold the rows of one release that differ in nothing but the platform."""
    lines: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: str(row["platform"])):
        cells = {name: value for name, value in row.items() if name not in (*EVIDENCE, "platform")}
        processor = row["platform"].partition("_")[2]
        if processor:
            cells["tags"] = [re.sub(f"_{processor}$", "_*", tag) for tag in row["tags"]]
        for name in ("pythons", "free_threaded"):
            if name in cells:
                cells[name] = _join_pythons(row[name])
        if not cells["cuda_build"]:
            del cells["cuda_build"]
        line = lines.setdefault(json.dumps(cells, sort_keys=True), {**cells, "platforms": []})
        line["platforms"].append(row["platform"])
    return list(lines.values())


def _join_pythons(pythons: list[str]) -> str:
    """Join minors that follow one another: 2.7, 3.8, 3.9 -> "2.7 3.8-3.9"."""
    runs: list[list[str]] = []
    for python in pythons:
        major, minor = python.split(".")
        if runs and runs[-1][-1] == f"{major}.{int(minor) - 1}":
            runs[-1].append(python)
        else:
            runs.append([python])
    return " ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _format_evidence(document: Mapping[str, Any], versions: Mapping[str, list[Row]]) -> str:
    """Format what proves the rows of a section: a row a line, by release."""
    rows = {
        version: [{name: row[name] for name in (*_KEY, *EVIDENCE) if name in row} for row in held]
        for version, held in _sort_releases({"": dict(versions)})[""].items()
    }
    return _format_file(
        {"citations": _cite(document, {"releases": {"": rows}}), "rows": rows},
        {"citations": 1, "rows": 2},
    )


def _format_package(section: str, lines: list[Row]) -> str:
    """Format the file of a package: its releases here, and all else as the built-in file has it."""
    try:
        held = json.loads(read_data(f"{releases_file(section)}.json"))
    except OSError:
        held = {}
    return _format_file(
        {"schema": _PACKAGE_ID, **held, "releases": lines}, {"releases": 1, "elsewhere": 2}
    )


def _cite(document: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the citations of the rows of a part."""
    cited = {name for row in iterate_rows(part) for name in row["citations"]}
    return {name: document["citations"][name] for name in sorted(cited)}


def _pick(table: Any, *, in_evidence: bool) -> Any:
    """Leave the evidence of a table's rows, or everything else of them."""
    if isinstance(table, list):
        return [_pick(row, in_evidence=in_evidence) for row in table]
    if "citations" in table:
        return {cell: value for cell, value in table.items() if (cell in EVIDENCE) == in_evidence}
    return {key: _pick(item, in_evidence=in_evidence) for key, item in table.items()}


def _format_file(sections: Mapping[str, Any], depths: Mapping[str, int]) -> str:
    """Format sections, each down to its depth with one item a line."""
    parts = (
        f" {json.dumps(name)}: {_format_value(value, depths.get(name, 0), ' ')}"
        for name, value in sections.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _format_value(value: Any, depth: int, indent: str) -> str:
    """Format a value: tables down to `depth` with one item a line, deeper values on one line."""
    if depth == 0 or not value or not isinstance(value, (dict, list)):
        return json.dumps(_sort_cells(value), ensure_ascii=False, separators=(",", ":"))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = indent + " "
    body = ",\n".join(
        inner + key + _format_value(item, depth - 1, inner) for key, item in _pair_items(value)
    )
    return f"{opening}\n{body}\n{indent}{closing}"


def _sort_cells(value: Any) -> Any:
    """Sort the cells of a row, those that name it first."""
    if isinstance(value, list):
        return [_sort_cells(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = [
        *(name for name in _FIRST if name in value),
        *sorted(name for name in value if name not in _FIRST),
    ]
    return {name: _sort_cells(value[name]) for name in names}


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
