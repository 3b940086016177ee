"""Answer questions to the matrix.

The rows of a requirement, and the releases that fit a machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeAlias

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import framework_names, identity
from envcheck.matrix.companions import load_companions, shares_cuda
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    UNDETERMINED,
    Architecture,
    Citation,
    CondaBuild,
    CudnnRelease,
    DriverBranch,
    FrameworkRelease,
    KnownProblem,
    RequestError,
    TensorrtRelease,
    Toolkit,
    dataclass,
    list_fields,
    replace,
)
from envcheck.model.text import counted
from envcheck.model.versions import matches, name_of, read_requirement, write_pin
from envcheck.rules.builds import find_plugin, rows_by_extra
from envcheck.rules.described_machine import (
    LINUX,
    PLATFORMS,
    Description,
    check_description,
    read_gpu,
)
from envcheck.rules.gpu_releases import floor_of
from envcheck.rules.release_search import Candidate, NewestRelease, Question, RowJudge, list_newest
from envcheck.rules.targets import check_requirements


@dataclass
class Answer:
    """One release with how it fits; `why` names what the matrix does not tell."""

    release: FrameworkRelease
    fit: str  # compatible, undetermined
    why: tuple[str, ...] = ()
    problems: tuple[KnownProblem, ...] = ()
    index_builds: tuple[FrameworkRelease, ...] = ()  # its CUDA builds on its framework's own index
    companions: tuple[str, ...] = ()  # requirements of what goes with it: "tf-keras==2.15.1"
    place: int = 0  # among the releases of its distribution for its platform, newest first
    driver: str = ""  # the lowest that runs it; "" for a CPU build, or where that is not known
    # brings it, where that is an extra of another distribution: jax[cuda12]==0.10.0
    requirement: str = ""
    extra_builds: tuple[Answer, ...] = ()  # what the extras of a release bring, as it is planned

    @property
    def label(self) -> str:
        """Return what brings the release: torch==2.7.1+cu126."""
        return self.requirement or f"{self.release.distribution}=={self.release.build_version}"


def find_releases(judge: RowJudge) -> tuple[Answer, ...]:
    """List the builds that may fit, newest first, without stubs.

    Yanked releases are left out.
    """
    question, matrix = judge.question, judge.matrix
    frameworks = (question.framework,) if question.framework else matrix.judged()
    places: dict[Hashable, int] = {}
    found = []
    for row in (
        row for name in frameworks for row in matrix.builds(name, question.platform or None)
    ):
        if row.yanked or row.stub_for:
            continue
        for candidate in _list_builds(row, question):
            part = candidate.row
            place = _next_place(places, part)
            platform = part.platform if part.platform != "any" else question.platform or LINUX
            fit = judge.judge(candidate, platform)
            if fit.verdict != INCOMPATIBLE:
                driver = _lowest_driver(matrix, part)
                found.append(Answer(part, fit.verdict, fit.why, place=place, driver=driver))
    return tuple(found)


def _list_builds(row: FrameworkRelease, question: Question) -> list[Candidate]:
    """List the builds of a row that can answer: those that use a GPU, where one is asked for."""
    if row.cuda_build or not question.is_about_gpus:
        return [Candidate(row)]
    return [
        Candidate(part, (part.gpu_extra or "",)) for part in rows_by_extra(row) if part.cuda_build
    ]


def _next_place(places: dict[Hashable, int], row: FrameworkRelease) -> int:
    """Count the releases of a distribution for a platform, newest first.

    Neighbours have numbers in sequence.
    """
    name = (row.distribution, row.platform, row.local)
    places[name] = places.get(name, -1) + 1
    return places[name]


def find_rows(matrix: Matrix, text: str) -> tuple[Answer, ...]:
    """List the rows that a requirement admits, newest first, with known problems.

    Raises RequestError.

    A build of PyTorch's own index, torch==2.6.0+cu118, is found with the release that it is a build
    of.
    """
    check_requirements((text,), matrix, is_judged=False)
    specifier = read_requirement(text).specifier
    public, _, local = specifier.partition("+")
    admitted = public if re.fullmatch(r"cu\d{2,3}", local) else specifier
    places: dict[Hashable, int] = {}
    found = []
    for row in _list_releases(matrix, text):
        place = _next_place(places, row)
        builds = tuple(build for build in matrix.index_builds(row) if build.cuda_build)
        is_meant = not local or any(build.local == local for build in builds)
        if is_meant and matches(row.version, admitted):
            answer = Answer(
                row,
                COMPATIBLE,
                problems=_list_problems(matrix, row),
                index_builds=builds,
                companions=_list_companions(matrix, row),
                place=place,
                driver=_lowest_driver(matrix, row),
                extra_builds=_list_extra_builds(matrix, row, place),
            )
            found.append(answer)
    return tuple(found)


def _lowest_driver(matrix: Matrix, row: FrameworkRelease) -> str:
    """Return the lowest driver that runs a build; "" where the matrix does not state it."""
    if not row.cuda_build or not row.cuda:
        return ""
    return floor_of(matrix.resolve_toolkit(row.cuda), windows=row.platform.startswith("win")) or ""


def _list_extra_builds(matrix: Matrix, row: FrameworkRelease, place: int) -> tuple[Answer, ...]:
    """List what each extra brings CUDA with, as it is planned.

    The plugins of jax[cuda13] and jax[cuda12].
    """
    if row.cuda_build or not row.extras or row.framework not in framework_names():
        return ()
    known = identity(row.framework)
    builds: list[tuple[FrameworkRelease | None, str | None]] = []
    if not known.plugins:
        builds = [(item, item.gpu_extra) for item in rows_by_extra(row) if item.cuda_build]
    elif row.distribution == known.main:
        for extra in sorted(row.extras, reverse=True):
            builds += [(find_plugin(matrix, name, row, extra), extra) for name in PLATFORMS]
    return tuple(
        Answer(
            build,
            COMPATIBLE,
            place=place,
            driver=_lowest_driver(matrix, build),
            requirement=write_pin(row.distribution, row.version, (extra,)),
        )
        for build, extra in builds
        if build
    )


def _list_companions(matrix: Matrix, row: FrameworkRelease) -> tuple[str, ...]:
    """Name each companion's newest release that goes with a release: Keras, torchvision."""
    beside = [item for item in load_companions().rows if row.framework in item.frameworks]
    pins = []
    for name in (name for item in beside for name in item.distributions):
        for item in matrix.companions_of(row.framework, row.version, row.platform, name):
            if shares_cuda(item, row) and not set(item.pythons).isdisjoint(row.pythons):
                pins.append(item.pin)
                break
    return tuple(pins)


def find_requirer(matrix: Matrix, text: str) -> str:
    """Name the distribution that pins one without rows, such as jax-cuda12-pjrt, or ""."""
    name = name_of(text)
    if any(_list_releases(matrix, text)):
        return ""
    rows = matrix.releases(matrix.framework_of(name))
    return next((row.distribution for row in rows if name in row.requires), "")


def find_nearest(matrix: Matrix, text: str) -> tuple[str, tuple[str, ...], str]:
    """Return a requirement's distribution, the releases around its pin, and the newest."""
    versions = list(dict.fromkeys(row.version for row in _list_releases(matrix, text)))
    pin = _parse_pin(text)
    newest = versions[0] if versions else ""
    if pin is None or not versions or pin > Version(newest):
        return name_of(text), (), newest
    older = [version for version in versions if Version(version) < pin][:1]
    newer = [version for version in versions if Version(version) > pin][-1:]
    return name_of(text), (*older, *newer), newest


def _parse_pin(text: str) -> Version | None:
    """Return the release that a requirement such as torch==2.6.9 pins."""
    pins = [
        item.version
        for item in read_requirement(text).clauses
        if item.operator in {"==", "~=", "==="}
    ]
    try:
        return Version(pins[0].removesuffix(".*")) if len(pins) == 1 else None
    except InvalidVersion:
        return None


def _list_releases(matrix: Matrix, text: str) -> Iterator[FrameworkRelease]:
    """Yield the releases of the distribution that a requirement names."""
    name = name_of(text)
    rows = matrix.releases(matrix.framework_of(name))
    return (row for row in rows if row.distribution == name)


def _list_problems(matrix: Matrix, row: FrameworkRelease) -> tuple[KnownProblem, ...]:
    stages = ("install", "run", "advice")
    problems = (
        item for stage in stages for item in matrix.problems(row.distribution, row.version, stage)
    )
    return tuple(
        item for item in problems if not item.platforms or row.platform in (*item.platforms, "any")
    )


Row: TypeAlias = (
    Architecture
    | CondaBuild
    | CudnnRelease
    | DriverBranch
    | FrameworkRelease
    | TensorrtRelease
    | Toolkit
)
_NO_CELLS = ("citations", "note", "proof")  # shown beside the cells
_EMPTY: tuple[Any, ...] = (None, "", (), {}, False)

# Kind of row -> the cells that make its name, its table, and the name.
_NAMES: Mapping[type, tuple[tuple[str, ...], str, str]] = {
    Toolkit: (("version",), "cuda", "CUDA Toolkit {version}"),
    DriverBranch: (("branch",), "driver", "driver branch {branch}"),
    Architecture: (
        ("compute_capability",),
        "architecture",
        "compute capability {compute_capability}",
    ),
    CudnnRelease: (("version", "cuda_major"), "cudnn", "cuDNN {version} for CUDA {cuda_major}"),
    TensorrtRelease: (
        ("version", "cuda_major"),
        "tensorrt",
        "TensorRT {version} for CUDA {cuda_major}",
    ),
    CondaBuild: (("package", "channel"), "conda", "{package} of the channel {channel}"),
    FrameworkRelease: (
        ("framework", "distribution", "version", "platform"),
        "release",
        "{distribution}=={version} on {platform}",
    ),
}


@dataclass
class TableRow:
    """One row of a table of the matrix.

    `cells` maps the name of each cell that is not empty to its value.
    """

    table: str  # cuda, driver, architecture, cudnn, tensorrt, conda, release
    name: str  # "cuDNN 9.10 for CUDA 12"
    cells: Mapping[str, Any]
    citations: tuple[Citation, ...]
    note: str
    proof: Mapping[str, str]


def find_table_rows(matrix: Matrix, text: str) -> tuple[TableRow, ...] | None:
    """List the rows of the table that a name, with or without a version, asks for.

    Return None if it names no table.

    cuda==12.6, driver==550.54.15, architecture==8.9, cudnn==9.10, tensorrt==8.6.1,
    conda==cudatoolkit; the distributions that go with TensorFlow take a requirement:
    tf-keras==2.15.*
    """
    match = re.fullmatch(r"\s*([A-Za-z][\w.-]*?)\s*(?:==?\s*([\w.-]+))?\s*", text)
    name, value = (match[1].lower(), match[2] or "") if match else ("", "")
    rows = _TABLES[name](matrix, value) if name in _TABLES else None
    companions = _list_companion_releases(matrix, text)
    if rows is None and companions is None:
        return None
    return tuple(map(_make_table_row, (*(rows or ()), *(companions or ()))))


def _list_rows(
    find: Callable[[Matrix, str], Row | None],
    list_all: Callable[[Matrix], Iterable[Row]],
    matrix: Matrix,
    version: str,
) -> Iterable[Row]:
    """List the row of a version, or every row of a table where none is asked for."""
    row = find(matrix, version)
    if row:
        return (row,)
    return () if version else list_all(matrix)


def _list_conda(matrix: Matrix, package: str) -> Iterable[Row]:
    names = (package,) if package else matrix.conda_packages()
    return (row for name in names for row in matrix.conda_builds(name))


_TABLES: Mapping[str, Callable[[Matrix, str], Iterable[Row]]] = {
    "cuda": partial(_list_rows, Matrix.toolkit, Matrix.toolkits),
    "driver": partial(_list_rows, Matrix.driver_branch, Matrix.driver_branches),
    "architecture": partial(_list_rows, Matrix.architecture, Matrix.architectures),
    "cudnn": lambda matrix, version: matrix.cudnn_builds(version),
    "tensorrt": lambda matrix, version: matrix.tensorrt(version),
    "conda": _list_conda,
}
TABLES = tuple(_TABLES)


def _list_companion_releases(matrix: Matrix, text: str) -> Iterator[FrameworkRelease] | None:
    """List the releases of a companion that a requirement admits; None if it names no companion."""
    companion = matrix.companion_of(name_of(text))
    if not companion:
        return None
    asked = read_requirement(text)
    return (
        row
        for row in matrix.releases(companion)
        if row.distribution == asked.name and matches(row.version, asked.specifier)
    )


def _make_table_row(row: Row) -> TableRow:
    keys, table, name = _NAMES[type(row)]
    proof = {"*": row.proof} if isinstance(row.proof, str) else row.proof
    cells = {
        cell: getattr(row, cell) for cell in list_fields(row) if cell not in (*keys, *_NO_CELLS)
    }
    values = {cell: value for cell, value in cells.items() if value not in _EMPTY}
    title = name.format(**{key: getattr(row, key) for key in keys})
    found = TableRow(table, title, values, tuple(row.citations), row.note, proof)
    if isinstance(row, FrameworkRelease):
        return _with_document(found, row)
    return found


def _with_document(found: TableRow, row: FrameworkRelease) -> TableRow:
    """Add the compute capability that the documents of a release ask for."""
    document = documented_gpus(row.distribution, row.version, row.platform)
    if document is None:
        return found
    return replace(
        found,
        cells={**found.cells, "documented_gpus": f"{document.minimum} or newer"},
        citations=(*found.citations, document.citation),
        proof={**found.proof, "documented_gpus": "documented"},
    )


@dataclass
class RowsFound:
    """The releases that answer a question to the matrix."""

    verdict: str
    message: str  # one sentence
    checked: str  # day the matrix was checked
    question: Mapping[str, str]
    rows: tuple[Answer, ...]


@dataclass
class TablesFound:
    """The rows of the tables that a name asks for."""

    verdict: str
    message: str  # one sentence
    checked: str  # day the matrix was checked
    requirement: str
    rows: tuple[TableRow, ...]


def answer_requirement(matrix: Matrix, text: str) -> RowsFound | TablesFound:
    """Find the rows of a named table, or those that a requirement admits.

    Raises RequestError.
    """
    rows = find_table_rows(matrix, text)
    if rows is not None:
        verdict = COMPATIBLE if rows else UNDETERMINED
        message = f"The matrix has no row for {text}. {_describe_renewal(matrix)}"
        if rows:
            message = f"{_count_rows(len(rows))} * documented, not read from an artifact."
        return TablesFound(verdict, message, matrix.checked, text, rows)
    found = find_rows(matrix, text)
    verdict, message = COMPATIBLE, _count_rows(len(found))
    if not found:
        verdict, message = _describe_missing(matrix, text)
    return RowsFound(verdict, message, matrix.checked, {"requirement": text}, found)


def _describe_missing(matrix: Matrix, requirement: str) -> tuple[str, str]:
    """Say why the matrix has no row for a requirement, and what it has."""
    removed = matrix.removed_distribution(name_of(requirement))
    if removed is not None:
        return INCOMPATIBLE, f"{removed.name}: {removed.reason} Use {removed.replacement} instead."
    requirer = find_requirer(matrix, requirement)
    if requirer:
        pinned = f"The matrix has no row for {requirement}; {requirer} pins it."
        return UNDETERMINED, f"{pinned} Show {requirer}: envcheck matrix show {requirer}"
    framework, near, newest = find_nearest(matrix, requirement)
    known = f" Nearest releases: {' and '.join(near)}." if near else ""
    if newest:
        known += f" Newest release of {framework} in the matrix: {newest}."
    return (
        UNDETERMINED,
        f"The matrix has no row for {requirement}.{known} {_describe_renewal(matrix)}",
    )


def _describe_renewal(matrix: Matrix) -> str:
    return f"Its data is of {matrix.checked}. Update it: envcheck matrix {matrix.renewal}"


def _count_rows(number: int) -> str:
    return f"{counted(number, 'row')}."


class ReleasesFound:
    """The releases that meet conditions.

    The newest of each framework, and every row for who asks for them.
    """

    def __init__(self, matrix: Matrix, conditions: Mapping[str, str]) -> None:
        """Take the conditions by the names of their options, "" for one not given.

        Raises RequestError.
        """
        self._judge = RowJudge(matrix, _make_question(matrix, conditions))
        self.checked = matrix.checked
        self.question = {name: value for name, value in conditions.items() if value}
        self.platform = conditions["platform"] or LINUX  # of the newest releases

    @cached_property
    def newest(self) -> tuple[NewestRelease, ...]:
        """List the newest release of each framework."""
        return list_newest(self._judge)

    @cached_property
    def rows(self) -> tuple[Answer, ...]:
        """List every build that fits or may fit."""
        return find_releases(self._judge)

    @cached_property
    def verdict(self) -> str:
        """Return compatible where a release works, undetermined where one may."""
        if any(item.requirement for item in self.newest) or any(
            item.fit == COMPATIBLE for item in self.rows
        ):
            return COMPATIBLE
        return UNDETERMINED if self.rows else INCOMPATIBLE

    @property
    def message(self) -> str:
        """Count the rows, and say what else is to be known of them."""
        if not self.rows:
            return "No release in the matrix meets all of these conditions."
        said = _count_rows(len(self.rows))
        if self.verdict == UNDETERMINED:
            said += " The matrix does not show whether they meet all conditions."
        return said


def _make_question(matrix: Matrix, conditions: Mapping[str, str]) -> Question:
    if not any(conditions.values()):
        raise RequestError(
            f"name at least one condition, such as --framework {matrix.frameworks()[0]}."
        )
    python, driver, platform = (conditions[name] for name in ("python", "driver", "platform"))
    if python and not re.fullmatch(r"\d+\.\d+t?", python):  # the matrix holds 2.7, too
        raise RequestError(f"--python {python}: give a minor version such as 3.11.")
    check_description(Description(driver=driver, platform=platform))
    if conditions["framework"]:
        check_framework(conditions["framework"], matrix.judged())
    gpu = conditions["gpu"]
    return Question(
        python,
        driver,
        (read_gpu(gpu, matrix).compute_capability.value or "") if gpu else "",
        platform,
        conditions["framework"],
        gpu,
    )


def check_framework(name: str, known: Iterable[str]) -> None:
    """Raise RequestError for an unknown framework, and suggest a similar name."""
    from difflib import get_close_matches  # for a mistake only

    names = list(known)
    if name not in names:
        similar = get_close_matches(name.lower(), names, n=1)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        raise RequestError(
            f"--framework {name}: unknown framework. The matrix has {', '.join(names)}.{hint}"
        )
