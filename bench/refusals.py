"""Look for a release that can be had where there is no plan, with uv and a few comparisons in place of the planner.

The three newest releases of the package's framework count whose row states this Python and platform, and a CUDA build
for the machine's driver, GPU and glibc. uv then resolves the package with each of them: in the three newest releases
that the matrix holds for this Python and platform, and in any. What it resolves is no way where another release in it
has CUDA builds for another machine alone, or documents that exclude the GPU; nor where it is a release of the package
from before those that the matrix holds, which a refusal says were not read. Of a package with files elsewhere the
documented files count, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck.matrix.companions import companion_row, source_package
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.query import Matrix
from envcheck.model import Environment, FrameworkRelease, RequirementSet, Toolkit, replace
from envcheck.plan.verify import UnreachableError, UnresolvableError, resolve

if TYPE_CHECKING:
    from named_plans import Cell  # type: ignore[import-not-found]

CAPABILITIES = {
    "Tesla K80": "3.7",
    "Tesla M40": "5.2",
    "Tesla P100": "6.0",
    "GTX 1080 Ti": "6.1",
    "Tesla V100": "7.0",
    "RTX 2080 Ti": "7.5",
    "Tesla T4": "7.5",
    "A100": "8.0",
    "RTX 3090": "8.6",
    "L4": "8.9",
    "RTX 4090": "8.9",
    "H100": "9.0",
    "H200": "9.0",
    "B200": "10.0",
    "RTX 5090": "12.0",
}
_NEAREST = 3
_USUAL = ("torch",)  # of a package that the matrix does not hold


@dataclass(frozen=True)
class _Fitting:
    """A release of a framework with a CUDA build for the machine."""

    framework: str
    version: str
    requirement: str
    cuda: frozenset[str]  # majors of such builds; empty where none is stated


def find_way(cell: Cell, matrix: Matrix, *, usual: bool) -> str:
    """Return a resolution of a near release in which nothing is known to fail; "" where there is none.

    `usual`: beside the framework that a package usually comes beside alone, as the refusal names another one.
    """
    if _driver_fault(cell, matrix):
        return ""
    own = matrix.framework_of(cell.name)
    frameworks = (own,) if own else companion_row(cell.name).frameworks or _USUAL
    frameworks = frameworks[:1] if usual else frameworks
    fitting = [one for name in frameworks for one in _list_fitting(cell, matrix, name)]
    ways = (
        _resolve(cell, matrix, texts, one)
        for one in fitting
        for texts in _list_requests(cell, matrix, one)
    )
    return next(filter(None, ways), "") or next(_list_files(cell, matrix, fitting), "")


def _list_fitting(cell: Cell, matrix: Matrix, name: str) -> Iterator[_Fitting]:
    """Yield the newest releases of a framework with a CUDA build for the machine."""
    states_cuda = any(
        part.cuda_build for row in matrix.releases(name) for part in _part_by_extra(row)
    )
    found: dict[tuple[str, str], _Fitting] = {}
    for row in matrix.releases(name, cell.platform):
        is_asked = (
            matrix.framework_of(cell.name) != name or name == "jax" or row.distribution == cell.name
        )
        if row.yanked or not is_asked or cell.python not in row.pythons:
            continue
        listed = (
            part for item in (row, *matrix.index_builds(row)) for part in _part_by_extra(item)
        )
        builds = [item for item in listed if item.cuda_build or not states_cuda]
        fits = [item for item in builds if not _build_fault(cell, matrix, item)]
        if fits:
            majors = frozenset(item.cuda.partition(".")[0] for item in fits if item.cuda)
            found[row.distribution, row.version] = _Fitting(
                name, row.version, _requirement(row), majors
            )
    versions = {Version(item.version) for item in found.values()}
    newest = sorted(versions, reverse=True)[:_NEAREST]
    yield from sorted(
        (item for item in found.values() if Version(item.version) in newest),
        key=lambda item: item.version,
    )


def _part_by_extra(row: FrameworkRelease) -> list[FrameworkRelease]:
    """Part a release by the extras that each bring one CUDA: numba-cuda[cu12]."""
    majors = (extra[2:] for extra in row.extras if re.fullmatch(r"cu\d\d", extra))
    return [replace(row, cuda=major, cuda_build=True) for major in majors] or [row]


def _requirement(row: FrameworkRelease) -> str:
    if row.framework == "jax":  # jax-cuda12-plugin is what jax[cuda12] brings
        return (
            f"jax[{row.distribution.split('-')[1]}]=={row.version}"
            if "-" in row.distribution
            else ""
        )
    extra = f"[{row.gpu_extra}]" if row.gpu_extra else ""
    return f"{row.distribution}{extra}=={row.version}"


def _list_requests(cell: Cell, matrix: Matrix, beside: _Fitting) -> Iterator[tuple[str, ...]]:
    """Yield what uv is asked for."""
    if beside.framework == matrix.framework_of(cell.name):
        yield (beside.requirement,)
        return
    section = matrix.companion_of(cell.name)
    rows = (
        row
        for row in (matrix.releases(section, cell.platform) if section else ())
        if not row.yanked
    )
    own = {
        Version(row.version)
        for row in rows
        if row.distribution == cell.name and cell.python in row.pythons
    }
    # brings the framework in releases that do not require it
    extra = companion_row(cell.name).usual_extra
    name = f"{cell.name}[{extra}]" if extra else cell.name
    yield from (
        (f"{name}=={version}", beside.requirement)
        for version in sorted(own, reverse=True)[:_NEAREST]
    )
    yield name, beside.requirement


def _resolve(cell: Cell, matrix: Matrix, texts: tuple[str, ...], beside: _Fitting) -> str:
    made = Environment("", "pip", cell.python, cell.platform, machine_glibc=cell.glibc)
    try:
        pins = resolve(made, RequirementSet(texts), os.environ)
    except UnresolvableError:
        return ""
    except UnreachableError as error:
        return f"{', '.join(texts)}: {error}"
    versions = dict(pin.partition(" ")[0].split("==") for pin in pins)
    held = {name: _rows(cell, matrix, name, version) for name, version in versions.items()}
    is_before_all = matrix.companion_releases(cell.name) and not held.get(cell.name)
    if is_before_all or any(
        _release_fault(cell, matrix, rows, beside) for rows in held.values() if rows
    ):
        return ""
    return (
        f"{', '.join(texts)} resolves:"
        f" {', '.join(f'{name}=={versions[name]}' for name in held if held[name])}"
    )


def _rows(cell: Cell, matrix: Matrix, name: str, version: str) -> list[FrameworkRelease]:
    section = matrix.framework_of(name) or matrix.companion_of(name)
    rows = matrix.releases(section, cell.platform, version.__eq__) if section else ()
    return [row for row in rows if row.distribution == name]


def _release_fault(
    cell: Cell, matrix: Matrix, rows: list[FrameworkRelease], beside: _Fitting
) -> str:
    """Say what keeps a release from the machine, or from the framework's build; "" for nothing."""
    row = rows[0]
    documented = documented_gpus(row.distribution, row.version, cell.platform)
    if documented and documented.excludes(CAPABILITIES[cell.gpu]):
        return f"is documented for {documented.minimum}"
    pin = row.requires.get(beside.framework, "")  # where the metadata leaves it open, by a document
    if pin and Version(beside.version) not in SpecifierSet(pin):
        return f"is documented for {beside.framework}{pin}"
    if row.framework == beside.framework or companion_row(row.distribution).on_index:
        return ""
    builds = [item for item in rows if item.cuda_build]
    faults = [_build_fault(cell, matrix, item) for item in builds]
    majors = {item.cuda.partition(".")[0] for item in builds if item.cuda}
    if beside.cuda and majors and not majors & beside.cuda:
        return f"is built for CUDA {', '.join(majors)}"
    return faults[0] if builds and all(faults) else ""


def _list_files(cell: Cell, matrix: Matrix, fitting: list[_Fitting]) -> Iterator[str]:
    """Yield the documented files elsewhere that fit a release of the framework, or the machine where it needs none."""
    package = source_package(cell.name)
    for part in package.parts if package else ():
        rows = (
            row
            for row in matrix.companion_releases(part)
            if row.platform == cell.platform and row.cuda
        )
        fits = (
            row
            for row in rows
            if cell.python in row.pythons and not _build_fault(cell, matrix, row)
        )
        yield from (f"{row.distribution} {row.version}" for row in fits)
    for release in package.releases if package else ():
        documented = documented_gpus(cell.name, release.versions[0], cell.platform)
        lowest = package.build.compute_capability if package and package.build else ""
        if Version(documented.minimum if documented else lowest or "0") > Version(
            CAPABILITIES[cell.gpu]
        ):
            continue
        for files in release.files or ():
            is_here = cell.platform in files.platforms and cell.python in files.pythons
            if is_here and Version(cell.glibc or "99") >= Version(files.glibc or "0"):
                torches = [
                    item for item in fitting if ".".join(item.version.split(".")[:2]) in files.torch
                ]
                runs = [cuda for cuda in files.cuda if not _cuda_fault(cell, matrix, cuda)]
                if runs and (torches or not files.torch):
                    yield f"{cell.name} {release.versions[0]} for CUDA {runs}, torch {files.torch}"


def _build_fault(cell: Cell, matrix: Matrix, build: FrameworkRelease) -> str:
    """Say what keeps a CUDA build from the machine; "" for nothing."""
    if matrix.framework_of(build.distribution) and not build.compute_capabilities:
        return "nothing states its GPU code: what is not known is not planned"
    own = Version(CAPABILITIES[cell.gpu])
    toolkits = [
        item for item in matrix.toolkits() if build.cuda and _is_of(build.cuda, item.version)
    ]
    fault = _cuda_fault(cell, matrix, build.cuda) if build.cuda else ""
    if fault:
        return fault
    libraries = [Version(code) for item in toolkits for code in item.compute_capabilities]
    if libraries and not any(code.major == own.major and code <= own for code in libraries):
        return f"the libraries of CUDA {build.cuda} have no code for {own}"
    if cell.glibc and build.glibc and Version(cell.glibc) < Version(build.glibc):
        return f"needs glibc {build.glibc}"
    codes = [code.partition("_") for code in build.compute_capabilities]
    versions = [
        (kind, Version(f"{digits[:-1]}.{digits[-1]}"))
        for kind, _, text in codes
        if (digits := text.rstrip("af"))
    ]
    # a driver compiles the PTX of its own CUDA
    compiles = not toolkits or _runs_fully(cell, matrix, toolkits[0])
    usable = [item for item in versions if item[0] == "sm" or compiles]
    runs = [
        code
        for kind, code in usable
        if code <= own and (kind == "compute" or code.major == own.major)
    ]
    return "" if runs or not versions else f"has no code for {own}"


def _cuda_fault(cell: Cell, matrix: Matrix, cuda: str) -> str:
    """Say which driver a CUDA needs that is newer than the machine's; "" where that runs it."""
    floors = [_floor(cell, item) for item in matrix.toolkits() if _is_of(cuda, item.version)]
    floor = min(filter(None, floors), key=Version, default="")
    release = (
        matrix.newest_driver(cell.driver, windows=cell.platform.startswith("win")) or cell.driver
    )
    return (
        f"CUDA {cuda} needs driver {floor}" if floor and Version(release) < Version(floor) else ""
    )


def _runs_fully(cell: Cell, matrix: Matrix, toolkit: Toolkit) -> bool:
    """Return whether the machine's driver is one of a toolkit's own, without minor-version compatibility."""
    is_windows = cell.platform.startswith("win")
    floor = toolkit.min_driver_windows if is_windows else toolkit.min_driver_linux
    release = matrix.newest_driver(cell.driver, windows=is_windows) or cell.driver
    return floor is None or Version(release) >= Version(floor)


def _is_of(cuda: str, toolkit: str) -> bool:
    parts = cuda.split(".")[:2]
    return toolkit.split(".")[: len(parts)] == parts


def _floor(cell: Cell, toolkit: Toolkit) -> str | None:
    """Return the oldest driver that runs a toolkit, by minor-version compatibility where it has that."""
    if cell.platform.startswith("win"):
        return toolkit.minor_floor_windows or toolkit.min_driver_windows
    return toolkit.minor_floor_linux or toolkit.min_driver_linux


def _driver_fault(cell: Cell, matrix: Matrix) -> str:
    """Say that the driver does not drive the GPU; "" where it does."""
    row = matrix.architecture(CAPABILITIES[cell.gpu])
    first, last = (
        (row.first_driver_branch or "0", row.last_driver_branch or "9999") if row else ("0", "9999")
    )
    fits = Version(first) <= Version(cell.driver) <= Version(last)
    return "" if fits else f"driver {cell.driver} does not drive {cell.gpu}"
