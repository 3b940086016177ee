"""Open the built-in matrix.

data/compat_matrix.json and data/packages/, proven by data/evidence/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

from envcheck.frameworks import framework_names, identity
from envcheck.host.data_files import read_data
from envcheck.matrix.companions import companion_sections
from envcheck.model import Citation

SCHEMA_ID = "envcheck/matrix/1"  # of a document in memory, and of a user's file
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
EVIDENCE = ("citations", "proof", "binaries")  # cells of a row that lie in data/evidence
MATRIX = "compat_matrix"
# of the matrix; their evidence is in one file
TABLES = ("removed", "toolkits", "drivers", "cudnn", "architectures")
TABLES_EVIDENCE = "evidence/tables"
# Sections in files of their own, which hold their citations.
OWN_FILES = {
    "tensorrt": "nvidia/tensorrt_lines",
    "conda": "frameworks/conda",
    "problems": "advice/problems",
}


def releases_file(section: str) -> str:
    """Name the file of a section's releases.

    The matrix for a framework, a file of data/packages for the others.
    """
    return f"packages/{section}" if section in companion_sections() else MATRIX


def evidence_file(section: str) -> str:
    """Name the file with the evidence of a section's releases."""
    return f"evidence/{section}-wheels"


def open_built_in() -> Mapping[str, Any]:
    """Open the built-in document.

    Each file is read when a section, or the evidence of a row, is first used.

    Its citations are those of the files read so far, which are all that the rows of these files
    name.
    """
    citations: dict[str, Any] = {}

    @cache
    def read_file(name: str) -> dict[str, Any]:
        part: dict[str, Any] = json.loads(read_data(f"{name}.json"))
        citations.update(part.get("citations", {}))
        return part

    def read_section(name: str) -> Any:
        if name in TABLES:
            return _give_evidence(read_file(MATRIX)[name], lambda: read_file(TABLES_EVIDENCE)[name])
        return read_file(OWN_FILES[name])[name]

    def read_releases(section: str) -> LazyTable:
        return _open_releases(section, read_file)

    readers: dict[str, Callable[[], Any]] = {
        "schema": lambda: SCHEMA_ID,
        "checked": lambda: read_file(MATRIX)["checked"],
        "citations": lambda: citations,
        "frameworks": name_frameworks,
        "companions": name_companions,
        "releases": lambda: LazyTable(
            lambda: sorted([*name_frameworks(), *companion_sections()]), read_releases
        ),
    }
    return LazyTable(
        lambda: SECTIONS, lambda name: readers[name]() if name in readers else read_section(name)
    )


def read_whole() -> dict[str, Any]:
    """Read the whole built-in document, with all of its evidence, into plain tables."""
    document = open_built_in()
    plain = {name: _copy(document[name]) for name in SECTIONS if name != "citations"}
    return {name: plain[name] if name in plain else dict(document[name]) for name in SECTIONS}


def _copy(table: Any) -> Any:
    """Copy tables and rows, each row with its evidence."""
    if isinstance(table, BuiltInRow):
        table.complete()
        return dict(table)
    if isinstance(table, Mapping):
        return {name: _copy(item) for name, item in table.items()}
    return [_copy(item) for item in table] if isinstance(table, list) else table


def name_frameworks() -> dict[str, Any]:
    """Map each framework that publishes wheels to its distributions, each with its module."""
    known = [each for each in map(identity, framework_names()) if each.wheels.distributions]
    return {
        each.name: _name_distributions({**each.distributions, **each.plugin_modules})
        for each in known
    }


def name_companions() -> dict[str, Any]:
    """Map each section of companions to its distributions, each with its module."""
    sections = companion_sections().items()
    return {
        section: _name_distributions(
            {name: module for row in rows for name, module in row.distributions.items()}
        )
        for section, rows in sections
    }


def _name_distributions(modules: Mapping[str, str]) -> dict[str, Any]:
    return {"distributions": [{"module": module, "name": name} for name, module in modules.items()]}


def _open_releases(section: str, read_file: Callable[[str], dict[str, Any]]) -> LazyTable:
    """Open a section's releases: the lines of a release are unfolded when it is first asked for."""
    try:
        held = read_file(releases_file(section))["releases"]
    except FileNotFoundError:  # a package whose first refresh is still to come
        held = []
    lines = group_lines(held[section] if isinstance(held, dict) else held)
    unfolded: dict[int, list[dict[str, Any]]] = {}  # by the identity of a line

    def rows_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
        # They are the same for each of its releases.
        if id(line) not in unfolded:
            first = {**line, "releases": line["releases"][:1]}
            unfolded[id(line)] = [row for _, row in unfold(first)]
        return unfolded[id(line)]

    def find_evidence(release: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
        rows = read_file(evidence_file(section))["rows"][release]
        return next(
            item
            for item in rows
            if all(item[name] == row[name] for name in ("distribution", "platform"))
        )

    def read_release(release: str) -> list[BuiltInRow]:
        rows = [row for line in lines[release] for row in rows_of(line)]
        rows.sort(key=lambda row: (row["distribution"], row["platform"]))
        return [BuiltInRow(row, partial(find_evidence, release, row)) for row in rows]

    return LazyTable(lambda: lines, read_release)


def _give_evidence(
    table: Mapping[str, Any], read: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Give the rows of a table their evidence, which a table of the same shape holds."""

    def find(key: str, at: int | None = None) -> Mapping[str, Any]:
        held = read()[key]
        found: Mapping[str, Any] = held if at is None else held[at]
        return found

    given: dict[str, Any] = {}
    for key, rows in table.items():
        if isinstance(rows, list):
            given[key] = [BuiltInRow(row, partial(find, key, at)) for at, row in enumerate(rows)]
        else:
            given[key] = BuiltInRow(rows, partial(find, key))
    return given


class BuiltInRow(dict[str, Any]):
    """A row whose evidence is read when one of its cells is first asked for by its name."""

    def __init__(
        self, cells: Mapping[str, Any], read_evidence: Callable[[], Mapping[str, Any]]
    ) -> None:
        super().__init__(cells)
        self._read_evidence = read_evidence
        self._is_complete = False

    def complete(self) -> None:
        """Read the evidence."""
        if not self._is_complete:
            self._is_complete = True
            self.update(self._read_evidence())

    def __missing__(self, cell: str) -> Any:
        if cell not in EVIDENCE or self._is_complete:
            raise KeyError(cell)
        self.complete()
        return self[cell]


class LazyTable(Mapping[str, Any]):
    """A table whose values are read on first use."""

    def __init__(
        self, list_names: Callable[[], Iterable[str]], reader: Callable[[str], Any]
    ) -> None:
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


Line = Mapping[str, Any]


def unfold(line: Line) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a line, one for each of its releases and platforms, each after its release.

    "pythons": "2.7 3.8-3.12" is 2.7, 3.8, 3.9, 3.10, 3.11 and 3.12; in "tags" * stands for the
    platform's processor: manylinux_2_28_* of linux_x86_64 is manylinux_2_28_x86_64. A line without
    "cuda_build" is no build for CUDA.
    """
    cells = {"cuda_build": False, **line}
    releases, platforms = cells.pop("releases"), cells.pop("platforms")
    for name in ("pythons", "free_threaded"):
        if name in cells:
            cells[name] = []
            for part in line[name].split():
                first, _, last = part.partition("-")
                major, first_minor = first.split(".")
                last_minor = (last or first).split(".")[1]
                cells[name] += [
                    f"{major}.{minor}" for minor in range(int(first_minor), int(last_minor) + 1)
                ]
    for release in releases:
        for platform in platforms:
            processor = platform.partition("_")[2]
            tags = [tag.replace("*", processor) for tag in cells["tags"]]
            yield release, {**cells, "platform": platform, "tags": tags}


def group_lines(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Map each release, oldest first, to the lines that stand for it."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        for release in line["releases"]:
            found.setdefault(release, []).append(line)

    def order(version: str) -> list[int]:  # final releases and their post-releases
        return [int(number) for number in re.findall(r"\d+", version)]

    return {release: found[release] for release in sorted(found, key=order)}


class DeferredCitations(Sequence[Citation]):
    """Citations that are read on first use."""

    def __init__(self, read: Callable[[], Iterable[Citation]]) -> None:
        self._read = read

    @cached_property
    def _items(self) -> tuple[Citation, ...]:
        return tuple(self._read())

    def __getitem__(self, at: Any) -> Any:
        return self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._items == tuple(other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class DeferredTable(Mapping[str, Any]):
    """A table that is read on first use."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]) -> None:
        self._read = read

    @cached_property
    def _table(self) -> Mapping[str, Any]:
        return self._read()

    def __getitem__(self, name: str) -> Any:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return repr(self._table)
