"""Read a canonical matrix document row by row, and build the typed rows on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from envcheck.model import Citation, replace
from envcheck.model.releases import (
    Architecture,
    CondaBuild,
    CudnnRelease,
    DriverBranch,
    FrameworkRelease,
    KnownProblem,
    RemovedDistribution,
    TensorrtRelease,
    Toolkit,
)

# Section -> levels of tables above its rows; in canonical form each level is indented by one more blank.
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
_LAZY = ("citations", "releases", "removed", "toolkits", "drivers", "cudnn", "tensorrt", "conda", "architectures")

_decode = json.JSONDecoder().raw_decode


class Table(Mapping[str, Any]):
    """A table of a canonical document between two offsets of its text, keys in the order written."""

    def __init__(self, text: str, start: int, end: int, indent: int, levels: int) -> None:
        """Hold text[start:end]; items are indented by `indent`, tables again for `levels` more."""
        self._text = text
        self._span = (start, end)
        self._indent = " " * indent
        self._levels = levels
        self._known: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._known:
            self._known[key] = self._read(key, self._offsets[key])
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    @cached_property
    def _offsets(self) -> dict[str, int]:
        """Map each key to where its value starts."""
        keys = re.compile(rf'\n{self._indent}"([^"]*)": ')
        return {found.group(1): found.end() for found in keys.finditer(self._text, *self._span)}

    def _read(self, key: str, start: int) -> Any:
        levels = self._levels_below(key)
        if not levels or not self._text.startswith("{\n", start):
            return _decode(self._text, start)[0]
        following = next((at for at in self._offsets.values() if at > start), self._span[1])
        end = self._text.rindex(f"\n{self._indent}}}", start, following)  # from its end: some hold a megabyte
        return Table(self._text, start, end, len(self._indent) + 1, levels - 1)

    def _levels_below(self, _key: str) -> int:
        return self._levels


class Sections(Table):
    """A whole canonical document."""

    def __init__(self, text: str) -> None:
        """Wrap the text of a document in canonical form."""
        super().__init__(text, 0, len(text), 1, 0)

    @cached_property
    def _offsets(self) -> dict[str, int]:
        """Map each section to where its value starts: they are written in the order of SECTIONS."""
        found: dict[str, int] = {}
        at = 0
        for name in SECTIONS:  # looking for a name is several times as fast as for any
            key = f'\n{self._indent}"{name}": '
            start = self._text.find(key, at)
            if start >= 0:
                found[name] = at = start + len(key)
        return found

    def _levels_below(self, key: str) -> int:
        return SECTIONS[key] if key in _LAZY else 0


Raw = Mapping[str, Any]
Row = TypeVar("Row")

_NO_CELLS = ("distribution", "platform", "citations", "note", "proof")  # what a row is called and rests on

# A cell that does not apply to a row is left out of the document; these stand in for it.
_LEFT_OUT: dict[type, dict[str, Any]] = {
    FrameworkRelease: {
        "glibc": None,
        "cuda": None,
        "cudnn": None,
        "compute_capabilities": (),
        "cpu_features": (),
        "gpu_extra": None,
        "cuda_wheels": (),
        "finds_cuda_wheels": False,
        "requires": {},
        "yanked": False,
    },
    Toolkit: {"minor_floor_linux": None, "minor_floor_windows": None},
    DriverBranch: {},
    CudnnRelease: {},
    TensorrtRelease: {},
    CondaBuild: {"platforms": (), "cuda": ()},
    Architecture: {"last_toolkit": None, "first_driver_branch": None, "last_driver_branch": None},
    KnownProblem: {"platforms": (), "pythons": "", "requires_extra": None, "condition": "", "fix": ""},
    RemovedDistribution: {},
}


def build_row(kind: type[Row], raw: Raw, citations: Raw, **known: Any) -> Row:
    """Build one row of `kind` from its raw cells, its keys (`known`) and the citation table."""
    cells = dict(_LEFT_OUT[kind])
    for name, value in raw.items():
        cells[name] = tuple(value) if isinstance(value, list) else value
    cells["citations"] = tuple(build_citation(citations[name]) for name in raw["citations"])
    if isinstance(raw.get("proof"), dict):
        cells["proof"] = _spelled_out(raw)
    cells.update(known)
    return kind(**cells)


def _spelled_out(raw: Raw) -> dict[str, str]:
    """Name the proof of each cell: "*" stands for the cells of this row that are not named."""
    named = dict(raw["proof"])
    rest = named.pop("*", None)
    if rest is None:
        return named
    return {cell: named.get(cell, rest) for cell in raw if cell not in _NO_CELLS and raw[cell] is not None}


def build_citation(raw: Raw) -> Citation:
    """Build a citation; the hash of an artifact goes behind its name in the locator."""
    digest = raw.get("sha256")
    locator = raw["locator"] + (f" (sha256 {digest})" if digest else "")
    return Citation(raw["url_or_artifact"], locator, raw["checked"])


def join_builds(rows: list[CudnnRelease]) -> CudnnRelease:
    """Join the builds of one cuDNN line for several CUDA majors, oldest CUDA first."""
    first = rows[0]
    if len(rows) == 1:
        return first
    return replace(
        first,
        cuda=tuple(cuda for row in rows for cuda in row.cuda),
        citations=tuple(dict.fromkeys(citation for row in rows for citation in row.citations)),
        note=" ".join(dict.fromkeys(row.note for row in rows if row.note)),
        cuda_major=None,
    )
