"""Answer questions to the matrix: rows of a requirement, releases that work on a machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeAlias

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import framework, framework_names, identity
from envcheck.matrix.companions import load_companions, shares_cuda
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    Architecture,
    Citation,
    CondaBuild,
    CudnnRelease,
    DriverBranch,
    Facts,
    Finding,
    FrameworkRelease,
    KnownProblem,
    RequestError,
    TensorrtRelease,
    Toolkit,
    dataclass,
    list_fields,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    InstallDriver,
    UseBuildForGpu,
)
from envcheck.model.text import counted
from envcheck.model.versions import matches, name_of, read_requirement, write_pin
from envcheck.rules.builds import (
    build_of,
    find_plugin,
    is_free_threaded,
    library_of,
    plugin_of,
    rows_by_extra,
    supports_python,
)
from envcheck.rules.context import RULES, Context, Target, UndecidedError, once
from envcheck.rules.described_machine import (
    LINUX,
    PLATFORMS,
    Description,
    check_description,
    planned_facts,
    read_gpu,
)
from envcheck.rules.driver import is_ptx_too_new
from envcheck.rules.engine import ReleaseJudge
from envcheck.rules.gpu_architecture import cuda_of_ptx, serves_no_gpu
from envcheck.rules.gpu_releases import driver_runs, fits_machine, floor_of
from envcheck.rules.requirements import extra_rows, has_extras
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


@dataclass
class Question:
    """What the user asks for; "" or empty: not asked."""

    python: str = ""  # 3.11, or 3.13t for the free-threaded build
    driver: str = ""  # driver release version
    capability: str = ""  # compute capability of the GPU
    platform: str = ""  # linux_x86_64 ...
    framework: str = ""
    gpu: str = ""  # as it was typed

    @property
    def is_about_gpus(self) -> bool:
        """Return whether only builds that use a GPU can answer."""
        return bool(self.driver or self.capability)


@dataclass
class Candidate:
    """What a user would install.

    A release, the extras that are typed with it, and the parts that come with it.
    """

    row: FrameworkRelease
    extras: tuple[str, ...] = ()
    parts: tuple[FrameworkRelease, ...] = ()  # jaxlib and the plugin of jax

    @property
    def requirement(self) -> str:
        """Return what pip takes: torch==2.7.1+cu126, jax[cuda12]==0.6.0."""
        return write_pin(self.row.distribution, self.row.build_version, self.extras)

    @property
    def rows(self) -> tuple[FrameworkRelease, ...]:
        """List the rows of everything it consists of."""
        return (self.row, *self.parts)


@dataclass
class Fit:
    """How a candidate fits: compatible, incompatible or undetermined.

    `why` names what the matrix does not tell.
    """

    verdict: str
    why: tuple[str, ...] = ()
    errors: tuple[Finding, ...] = ()  # why it does not work; () where a cheap bound refused it


_REFUSED = Fit(INCOMPATIBLE)


class RowJudge:
    """Judges candidates on the machines that a question describes, one for each platform."""

    def __init__(self, matrix: Matrix, question: Question) -> None:
        self.matrix, self.question = matrix, question
        self._judges: dict[str, ReleaseJudge] = {}
        self._known: dict[Hashable, tuple[Candidate, Fit]] = {}

    def context(self, platform: str) -> Context:
        """Return a machine of a platform."""
        return self._machine(platform).context

    def judge(self, candidate: Candidate, platform: str) -> Fit:
        """Judge a candidate, or reuse the findings of one with the same decisive cells."""
        context, extras = self.context(platform), candidate.extras
        cells = [decisive_cells(context, row, extras) for row in candidate.rows]
        key = (platform, extras, *cells)
        if key not in self._known:
            is_refused = _is_refused(context, candidate)
            fit = _REFUSED if is_refused else self.judge_fully(candidate, platform)
            self._known[key] = candidate, fit
        judged, fit = self._known[key]
        if judged is candidate or not (fit.why or fit.errors):
            return fit
        return Fit(fit.verdict, tuple(_rename(text, judged, candidate) for text in fit.why))

    def judge_fully(self, candidate: Candidate, platform: str) -> Fit:
        """Judge a candidate by all rules, without bounds and without what was found of others."""
        return _judge_on(self._machine(platform), candidate)

    def _machine(self, platform: str) -> ReleaseJudge:
        if platform not in self._judges:
            self._judges[platform] = ReleaseJudge(self._describe(platform))
        return self._judges[platform]

    def _describe(self, platform: str) -> Context:
        question = self.question
        gpus = (question.capability,) if question.capability else ()
        description = Description(question.python, question.driver, gpus, platform=platform)
        machine = planned_facts(None, description, self.matrix, expects_gpu=question.is_about_gpus)
        empty = Facts()  # nobody said what lies on its disk
        facts = replace(
            machine, toolkits=empty.toolkits, cudnn=empty.cudnn, tensorrt=empty.tensorrt
        )
        if question.is_about_gpus:
            return Context(facts, self.matrix, Target("gpu"))
        return Context(replace(facts, gpus=empty.gpus), self.matrix, Target("cpu"))


def _is_refused(context: Context, candidate: Candidate) -> bool:
    """Tell, without asking all rules, whether they find an error.

    In the Python, the driver or the GPU's code.
    """
    if not all(
        _has_wheel(context, row)
        for row in candidate.rows
        if row.platform in (context.platform, "any")
    ):
        return True
    return any(is_refused_for_gpu(context, row) for row in candidate.rows if row.cuda_build)


def is_refused_for_gpu(context: Context, row: FrameworkRelease) -> bool:
    """Return whether the rules find an error with a CUDA build.

    The driver is too old, or it has no code for a GPU.
    """
    if context.goal != "gpu":
        return False
    if not driver_runs(context, row.cuda):
        return True
    build = build_of(row)
    try:
        return bool(context.gpus) and (
            serves_no_gpu(context, build) or is_ptx_too_new(context, build)
        )
    except UndecidedError:
        return False


def _has_wheel(context: Context, row: FrameworkRelease) -> bool:
    """Return whether a release, or another row of it, has a wheel for the Python."""
    if supports_python(context, row):
        return True
    releases = context.matrix.releases(
        row.framework, context.platform, row.version.__eq__, pin=row.version
    )
    return any(
        supports_python(context, item) for item in releases if item.distribution == row.distribution
    )


def _judge_on(judge: ReleaseJudge, candidate: Candidate) -> Fit:
    pins = (row.pin for row in candidate.parts if not row.cuda_build)
    judgement = judge.judge((candidate.requirement, *pins))
    machine_errors = [item for item in judge.machine_findings if item.severity == ERROR]
    errors = tuple(
        item for item in (*machine_errors, *judgement.errors) if item.verdict == INCOMPATIBLE
    )
    if errors:
        return Fit(INCOMPATIBLE, errors=errors)
    unknown = [
        item
        for item in (*machine_errors, *judgement.doubts, *judgement.warnings)
        if item.verdict == UNDETERMINED
    ]
    verdict = UNDETERMINED if machine_errors else judgement.verdict
    return Fit(verdict, tuple(dict.fromkeys(map(_describe_doubt, unknown))))


def _describe_doubt(finding: Finding) -> str:
    """Say what is not known: the reason of a check that could not decide, or the finding itself."""
    if finding.id == "probe-failed" and finding.evidence:
        return finding.evidence[0].shown.partition(": ")[2]
    return finding.message.rstrip(".")


def _rename(text: str, judged: Candidate, candidate: Candidate) -> str:
    """Exchange the releases that a text names: "torch 2.5.0" or "torch==2.5.0"."""
    for old, new in zip(judged.rows, candidate.rows, strict=True):
        for sign in (" ", "=="):
            text = text.replace(
                f"{old.distribution}{sign}{old.build_version}",
                f"{new.distribution}{sign}{new.build_version}",
            )
    return text


# The cells that decide. What a question never describes (the disk, the C library, pip) makes others
# indifferent: cuDNN, glibc, platform tags, the versions of the CUDA wheels. Tests note each cell
# that the rules read, and judge a sample of machines without this table: a rule that reads another
# cell is seen.
JUDGED_CELLS = (
    "framework",
    "distribution",
    "platform",
    "cuda_build",
    "cuda",
    "compute_capabilities",
    "cpu_features",
    "finds_cuda_wheels",
    "gpu_extra",
    "extras",
)


def decisive_cells(context: Context, row: FrameworkRelease, extras: tuple[str, ...]) -> Hashable:
    """Return what the rules ask of a release on a machine.

    Releases for which it is equal get equal findings.
    """
    return (
        *(getattr(row, name) for name in JUDGED_CELLS),
        bool(row.local),
        bool(row.cuda_wheels),
        any(context.matrix.cudas(row.framework, row.version, row.platform)),
        supports_python(context, row),
        cuda_of_ptx(row.framework, row.version),
        documented_gpus(row.distribution, row.version, context.platform),
        *_of_version(context, row, extras),
    )


def _of_version(
    context: Context, row: FrameworkRelease, extras: tuple[str, ...]
) -> tuple[Hashable, ...]:
    """Return what tables say of a version here.

    The version itself where a rule of a plugin may ask for it.
    """
    problems = (
        item.id
        for item in _problems_here(context, row.distribution)
        if item.requires_extra in (None, *extras) and matches(row.version, item.specifier)
    )
    stated = (*extra_rows(row, extras), has_extras(row, extras)) if extras else ()
    removed = context.matrix.removed_distribution(row.distribution)
    last = removed.last_versions.get(context.platform, "") if removed else ""
    is_withdrawn = removed is not None and numbers(row.version) > numbers(last)
    return tuple(problems), stated, is_withdrawn, row.version if _has_plugin_rules(context) else ""


@once
def _has_plugin_rules(_: Context) -> bool:
    return any(item.plugin for item in RULES)


@once
def _problems_here(context: Context, distribution: str) -> tuple[KnownProblem, ...]:
    """List the known problems that keep releases of a distribution from working here.

    Warnings and advice do not, nor does what depends on another distribution: none is installed.
    """
    problems = (
        item for item in context.matrix.problems_of(distribution) if fits_machine(context, item)
    )
    return tuple(
        item
        for item in problems
        if item.severity == ERROR and item.stage != "advice" and not item.condition
    )


# The newest release of each framework, and why the next one fails.


@dataclass
class NewestRelease:
    """The newest release of a framework that works.

    Where none does, all but `refused` and `why` is empty.
    """

    framework: str
    platform: str
    requirement: str = ""  # with its extras and label: jax[cuda12]==0.10.0
    command: tuple[str, ...] = ()  # plans it for the described machine
    newest: str = ""
    oldest: str = ""  # that works, too
    exceptions: tuple[str, ...] = ()  # releases between the two that do not, newest first
    # the next newer release, or the newest where none works; "" where the newest works
    refused: str = ""
    why: str = ""  # it does not work, or that is not known


def list_newest(judge: RowJudge) -> tuple[NewestRelease, ...]:
    """Find the newest release of each framework that is asked for.

    Without a platform, for Linux on x86-64.
    """
    question = judge.question
    frameworks = (question.framework,) if question.framework else judge.matrix.judged()
    return tuple(_Search(judge, name, question.platform or LINUX).run() for name in frameworks)


class _Search:
    """Goes down the releases of a framework on one platform."""

    def __init__(self, judge: RowJudge, framework: str, platform: str) -> None:
        self.judge, self.framework, self.platform = judge, framework, platform
        self.context = judge.context(platform)

    def run(self) -> NewestRelease:
        """Judge every release; releases that differ in their names alone are judged once."""
        best: Candidate | None = None
        last: Candidate | None = None
        above: list[tuple[str, list[Candidate]]] = []  # what is newer than the best
        below: list[tuple[str, bool]] = []  # the best, and what is older
        for version, candidates in self._releases():
            works = next(filter(self._works, _same_build_first(candidates, last)), None)
            best, last = best or works, works or last
            if best is None:
                above.append((version, candidates))
            else:
                below.append((version, works is not None))
        refused, why = self._explain(above, has_best=best is not None)
        if best is None:
            return NewestRelease(self.framework, self.platform, refused=refused, why=why)
        newest, *_, oldest = [best.row.version, *(version for version, works in below if works)]
        numbered = [version for version, _ in below]
        between = below[: numbered.index(oldest)]
        return NewestRelease(
            self.framework,
            self.platform,
            best.requirement,
            self._command(best),
            newest,
            oldest,
            tuple(version for version, works in between if not works),
            refused,
            why,
        )

    def _command(self, best: Candidate) -> tuple[str, ...]:
        """Write the command that plans a release, which chooses extras and build by itself."""
        question = self.judge.question
        python = question.python or _middle_python(best)
        given = [("--python", python), ("--driver", question.driver), ("--gpu", question.gpu)]
        given.append(("--platform", self.platform))
        if framework(self.framework).cuda.needs_gpu and not question.is_about_gpus:
            given.append(("--expect", "gpu"))
        options = [word for name, value in given if value for word in (name, value)]
        return ("envcheck", "plan", best.row.pin, *options)

    def _releases(self) -> Iterator[tuple[str, list[Candidate]]]:
        """Yield the platform's releases, newest first, with what can be installed of each."""
        matrix = self.judge.matrix
        names = distributions_of(self.context, self.framework)
        for version in matrix.versions(self.framework):
            rows = (matrix.release(self.framework, version, self.platform, name) for name in names)
            usable = [row for row in rows if row is not None and not row.yanked]
            if usable:
                yield version, list_candidates(self.context, usable)

    def _works(self, candidate: Candidate) -> bool:
        return self._fit(candidate).verdict == COMPATIBLE

    def _explain(
        self, above: list[tuple[str, list[Candidate]]], *, has_best: bool
    ) -> tuple[str, str]:
        """Name the next newer release, or the newest where none works, with one reason."""
        if not above:
            return "", "" if has_best else "no release here"
        open_ones = (
            item for item in above if any(self._fit(one).verdict == UNDETERMINED for one in item[1])
        )
        version, candidates = above[-1] if has_best else next(open_ones, above[0])
        if not candidates:
            return version, "has no GPU build here"
        # The build for the oldest CUDA comes last: it asks for the least.
        candidate = next(
            (item for item in candidates if self._fit(item).verdict == UNDETERMINED), candidates[-1]
        )
        fit = self._fit(candidate)
        if fit.verdict == UNDETERMINED:
            return version, f"may work: {fit.why[0].partition('; ')[0]}" if fit.why else "may work"
        fit = fit if fit.errors else self.judge.judge_fully(candidate, self.platform)
        return version, describe_obstacle(self.context, candidate, fit.errors[0])

    def _fit(self, candidate: Candidate) -> Fit:
        return self.judge.judge(candidate, self.platform)


def _same_build_first(candidates: list[Candidate], last: Candidate | None) -> list[Candidate]:
    """Put the build first that is named like the one of the release before.

    Most likely it is its equal.
    """
    if last is None:
        return candidates
    name = last.row.distribution, last.row.local, last.extras
    return sorted(
        candidates, key=lambda item: (item.row.distribution, item.row.local, item.extras) != name
    )


def distributions_of(context: Context, name: str) -> tuple[str, ...]:
    """List the distributions that bring a framework, as a plan chooses: the usual one first."""
    known = framework(name)
    if known.main:
        return (known.main,)
    if context.goal == "gpu" or known.cuda.needs_gpu:
        return known.plans.gpu_distributions
    return known.plans.cpu_distributions


def list_candidates(context: Context, rows: list[FrameworkRelease]) -> list[Candidate]:
    """List what can be installed of a release, as a plan chooses.

    The usual name first, the newest CUDA first.
    """
    if framework(rows[0].framework).plugins:
        return [item for row in rows for item in _list_by_plugin(context, row)]
    names = distributions_of(context, rows[0].framework)
    builds = (
        part
        for row in sorted(rows, key=lambda row: names.index(row.distribution))
        if not row.stub_for
        for build in (row, *context.matrix.index_builds(row))
        for part in rows_by_extra(build)
    )
    if context.goal != "gpu":
        return [Candidate(row) for row in builds]
    return [
        Candidate(row, tuple(filter(None, (row.gpu_extra or "").split(","))))
        for row in builds
        if row.cuda_build
    ]


def _list_by_plugin(context: Context, row: FrameworkRelease) -> Iterator[Candidate]:
    library = library_of(context, row)
    parts = (library,) if library else ()
    if context.goal != "gpu":
        yield Candidate(
            row, () if identity(row.framework).library in row.requires else ("cpu",), parts
        )
        return
    for extra in sorted(row.extras, reverse=True):
        plugin = plugin_of(context, row, extra)
        if plugin is not None:
            yield Candidate(row, (extra,), (*parts, plugin))


def _middle_python(candidate: Candidate) -> str:
    """Choose the middle one of the Pythons that all parts have wheels for.

    Other packages most likely have one, too.
    """
    shared = [
        item
        for item in candidate.row.pythons
        if all(item in row.pythons for row in candidate.parts)
    ]
    return sorted(shared, key=numbers)[len(shared) // 2] if shared else ""


def describe_obstacle(context: Context, candidate: Candidate, finding: Finding) -> str:
    """Say in a few words what keeps a release from working: "needs driver 570.26"."""
    cure = finding.cure
    if isinstance(cure, InstallDriver) and not cure.exact and cure.floor:
        return f"needs driver {cure.floor}"
    if isinstance(cure, UseBuildForGpu):
        document = documented_gpus(
            candidate.row.distribution, candidate.row.version, context.platform
        )
        if document is not None and document.excludes(cure.capability):
            return f"asks for GPUs from {document.minimum} on"
        return f"has no code for {cure.capability} GPUs"
    python = context.python.version.value
    if finding.id == "python-unsupported" and python:
        return f"is not for Python {python}{'t' if is_free_threaded(context) else ''}"
    text = finding.message.removeprefix(
        f"{candidate.row.distribution} {candidate.row.build_version}"
    )
    reason = text.removeprefix(": ").partition(". ")[0].rstrip(".")
    if text.startswith(" "):
        return reason.lstrip()
    return f"fails: {reason[0].lower()}{reason[1:]}"
