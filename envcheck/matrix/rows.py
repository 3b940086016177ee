"""Turn raw rows of the matrix document into the frozen rows that rules read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from envcheck.model.findings import Citation
from envcheck.model.records import replaced
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
    return replaced(
        first,
        cuda=tuple(cuda for row in rows for cuda in row.cuda),
        citations=tuple(dict.fromkeys(citation for row in rows for citation in row.citations)),
        note=" ".join(dict.fromkeys(row.note for row in rows if row.note)),
        cuda_major=None,
    )
