"""What the matrix holds beside the frameworks' releases, as rows to show: toolkits, drivers, cuDNN, TensorRT, conda."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from envcheck.matrix.query import Matrix
from envcheck.model.findings import Citation
from envcheck.model.records import dataclass
from envcheck.model.releases import (
    Architecture,
    CondaBuild,
    CudnnRelease,
    DriverBranch,
    FrameworkRelease,
    TensorrtRelease,
    Toolkit,
)

Held: TypeAlias = Architecture | CondaBuild | CudnnRelease | DriverBranch | FrameworkRelease | TensorrtRelease | Toolkit
_ASIDE = ("citations", "note", "proof")  # told beside the cells
_EMPTY: tuple[Any, ...] = (None, "", (), {}, False)

# Row -> the cells that make its name, its table, and the name.
_NAMES: Mapping[type, tuple[tuple[str, ...], str, str]] = {
    Toolkit: (("version",), "cuda", "CUDA Toolkit {version}"),
    DriverBranch: (("branch",), "driver", "driver branch {branch}"),
    Architecture: (("compute_capability",), "architecture", "compute capability {compute_capability}"),
    CudnnRelease: (("version", "cuda_major"), "cudnn", "cuDNN {version} for CUDA {cuda_major}"),
    TensorrtRelease: (("version", "cuda_major"), "tensorrt", "TensorRT {version} for CUDA {cuda_major}"),
    CondaBuild: (("package", "channel"), "conda", "{package} of the channel {channel}"),
    FrameworkRelease: (
        ("framework", "distribution", "version", "platform"),
        "release",
        "{distribution}=={version} on {platform}",
    ),
}


@dataclass(frozen=True)
class TableRow:
    """One row of a table of the matrix; `cells` maps the name of each cell that says something to its value."""

    table: str  # cuda, driver, architecture, cudnn, tensorrt, conda, release
    name: str  # "cuDNN 9.10 for CUDA 12"
    cells: Mapping[str, Any]
    citations: tuple[Citation, ...]
    note: str
    proof: Mapping[str, str]


def tables_named(matrix: Matrix, text: str) -> tuple[TableRow, ...] | None:
    """List the rows that a name with or without a version asks for; None where it names no table.

    cuda==12.6, driver==550.54.15, architecture==8.9, cudnn==9.10, tensorrt==8.6.1, conda==cudatoolkit; the
    distributions that go with TensorFlow take a requirement: tf-keras==2.15.*
    """
    asked = re.fullmatch(r"\s*([A-Za-z][\w.-]*?)\s*(?:==?\s*([\w.-]+))?\s*", text)
    name, value = (asked[1].lower(), asked[2] or "") if asked else ("", "")
    found = list(map(_row, _TABLES[name](matrix, value))) if name in _TABLES else None
    releases = _companions(matrix, text)
    if found is None and releases is None:
        return None
    return (*(found or ()), *(releases or ()))


def _toolkits(matrix: Matrix, version: str) -> Iterable[Held]:
    found = matrix.toolkit(version)
    return (found,) if found else () if version else matrix.toolkits()


def _drivers(matrix: Matrix, version: str) -> Iterable[Held]:
    found = matrix.driver_branch(version)
    return (found,) if found else () if version else matrix.driver_branches()


def _architectures(matrix: Matrix, version: str) -> Iterable[Held]:
    found = matrix.architecture(version)
    return (found,) if found else () if version else matrix.architectures()


def _conda(matrix: Matrix, package: str) -> Iterable[Held]:
    names = (package,) if package else matrix.conda_packages()
    return (row for name in names for row in matrix.conda_builds(name))


_TABLES: Mapping[str, Callable[[Matrix, str], Iterable[Held]]] = {
    "cuda": _toolkits,
    "driver": _drivers,
    "architecture": _architectures,
    "cudnn": lambda matrix, version: matrix.cudnn_builds(version),
    "tensorrt": lambda matrix, version: matrix.tensorrt(version),
    "conda": _conda,
}
TABLES = tuple(_TABLES)


def _companions(matrix: Matrix, text: str) -> Iterator[TableRow] | None:
    """List the releases of a companion that a requirement admits; None where it names no companion."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        asked = Requirement(text)
    except InvalidRequirement:
        return None
    name = canonicalize_name(asked.name)
    companion = matrix.companion_of(name)
    if companion is None:
        return None
    return (
        _row(row)
        for row in matrix.releases(companion)
        if row.distribution == name and asked.specifier.contains(row.version, prereleases=True)
    )


def _row(held: Held) -> TableRow:
    keys, table, name = _NAMES[type(held)]
    proof = {"*": held.proof} if isinstance(held.proof, str) else held.proof
    cells = {item.name: getattr(held, item.name) for item in fields(held) if item.name not in (*keys, *_ASIDE)}
    said = {cell: value for cell, value in cells.items() if value not in _EMPTY}
    named = name.format(**{key: getattr(held, key) for key in keys})
    return TableRow(table, named, said, held.citations, held.note, proof)
