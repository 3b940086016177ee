"""Answer questions to the matrix: the rows of a requirement, and the releases that fit a machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

from envcheck.matrix.query import Matrix
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Citation, dataclass
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
from envcheck.model.versions import at_least, major
from envcheck.rules.architecture_targets import JIT, NONE, build_targets, coverage
from envcheck.rules.pytorch_index import IndexVariant, variants_of
from envcheck.rules.targets import check_requirements

if TYPE_CHECKING:
    from packaging.version import Version


@dataclass(frozen=True)
class Question:
    """What is asked for; what is "" or empty is not asked."""

    python: str = ""  # 3.11, or 3.13t for the free-threaded build
    driver: str = ""  # driver release version
    capabilities: tuple[str, ...] = ()  # compute capabilities the GPU may have
    platform: str = ""  # linux_x86_64 ...
    framework: str = ""

    @property
    def is_about_gpus(self) -> bool:
        """Say whether only builds that use a GPU can answer."""
        return bool(self.driver or self.capabilities)


@dataclass(frozen=True)
class Answer:
    """One release with how it fits; `why` says what could not be told."""

    release: FrameworkRelease
    fit: str  # compatible, undetermined
    why: tuple[str, ...] = ()
    problems: tuple[KnownProblem, ...] = ()
    variants: tuple[IndexVariant, ...] = ()  # builds of it for other CUDA versions, on PyTorch's own index
    companions: tuple[str, ...] = ()  # requirements of what goes with it: "tf-keras==2.15.1"


def answer(matrix: Matrix, question: Question) -> tuple[Answer, ...]:
    """List the releases that fit or may fit, newest first; stubs and yanked releases never do."""
    frameworks = (question.framework,) if question.framework else matrix.frameworks()
    rows = (row for name in frameworks for row in matrix.releases(name, question.platform or None))
    judged = (judge(matrix, question, row) for row in rows if not row.yanked and not row.stub_for)
    return tuple(item for item in judged if item.fit != INCOMPATIBLE)


def judge(matrix: Matrix, question: Question, row: FrameworkRelease) -> Answer:
    """Judge one release by what is asked."""
    if question.python and question.python not in (*row.pythons, *(f"{minor}t" for minor in row.free_threaded_pythons)):
        return Answer(row, INCOMPATIBLE)
    if question.is_about_gpus and not row.cuda_build:
        return Answer(row, INCOMPATIBLE)
    doubts: list[str] = []
    for verdict, doubt in _gpu_checks(matrix, question, row):
        if verdict == INCOMPATIBLE:
            return Answer(row, INCOMPATIBLE)
        doubts += [doubt] if verdict == UNDETERMINED else []
    return Answer(row, UNDETERMINED if doubts else COMPATIBLE, tuple(doubts))


def _gpu_checks(matrix: Matrix, question: Question, row: FrameworkRelease) -> Iterator[tuple[str, str]]:
    served = [_coverage(matrix, row, capability) for capability in question.capabilities]
    if served:
        yield _architecture(row, served)
    if question.driver:
        yield _driver(matrix, question, row, needs_jit=bool(served) and set(served) == {JIT})
        yield from (_drives(matrix.architecture(item), question) for item in question.capabilities)


def _coverage(matrix: Matrix, row: FrameworkRelease, capability: str) -> str:
    def is_tegra(number: str) -> bool:
        found = matrix.architecture(number)
        return found is not None and found.tegra

    targets = build_targets(row.framework, row.compute_capabilities)
    return coverage(targets, capability, is_tegra)


def _architecture(row: FrameworkRelease, served: list[str]) -> tuple[str, str]:
    if not row.compute_capabilities:
        return UNDETERMINED, "its compute capabilities were not read"
    if set(served) == {NONE}:
        return INCOMPATIBLE, ""
    return (UNDETERMINED, "not every GPU of that name") if NONE in served else (COMPATIBLE, "")


def _driver(matrix: Matrix, question: Question, row: FrameworkRelease, *, needs_jit: bool) -> tuple[str, str]:
    toolkit = _toolkit(matrix, row.cuda)
    floor = _floor(toolkit, windows=row.platform == "win_amd64", full=needs_jit) if toolkit else None
    if floor is None:
        return UNDETERMINED, f"the driver that CUDA {row.cuda} needs is not known"
    reached = at_least(question.driver, floor)
    if reached is None:
        return UNDETERMINED, f"it needs driver {floor}"
    return (COMPATIBLE, "") if reached else (INCOMPATIBLE, "")


def _toolkit(matrix: Matrix, cuda: str | None) -> Toolkit | None:
    """Find the toolkit row; a bare major ("12") means the oldest of that major."""
    if cuda is None or "." in cuda:
        return matrix.toolkit(cuda) if cuda else None
    same = [row for row in matrix.toolkits() if major(row.version) == cuda]
    return same[-1] if same else None


def _floor(toolkit: Toolkit, *, windows: bool, full: bool) -> str | None:
    """Return the lowest driver: that of the toolkit where PTX is compiled, else under minor-version compatibility."""
    whole = toolkit.min_driver_windows if windows else toolkit.min_driver_linux
    minor = toolkit.minor_floor_windows if windows else toolkit.minor_floor_linux
    return whole if full else minor or whole


def _drives(architecture: Architecture | None, question: Question) -> tuple[str, str]:
    branch = major(question.driver)
    if architecture is None or not branch.isdigit():
        return UNDETERMINED, "the GPU's architecture is not in the matrix"
    first, last = architecture.first_driver_branch, architecture.last_driver_branch
    outside = (first and int(branch) < int(first)) or (last and int(branch) > int(last))
    return (INCOMPATIBLE, "") if outside else (COMPATIBLE, "")


def look_up(matrix: Matrix, text: str) -> tuple[Answer, ...]:
    """List the rows a requirement admits, newest first, each with its known problems; raises TargetError.

    A build of PyTorch's own index, torch==2.6.0+cu118, is found with the release it is a build of.
    """
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    check_requirements((text,), matrix)
    public, _, local = str(Requirement(text).specifier).partition("+")
    specifier = SpecifierSet(public if _is_index_build(local) else str(Requirement(text).specifier))
    admitted = (
        row
        for row in _held(matrix, text)
        if specifier.contains(row.version, prereleases=True) and (not local or _has_variant(row, local))
    )
    return tuple(
        Answer(
            row,
            COMPATIBLE,
            problems=_problems(matrix, row),
            variants=variants_of(row),
            companions=_companions(matrix, row),
        )
        for row in admitted
    )


def _is_index_build(local: str) -> bool:
    return re.fullmatch(r"cu\d{2,3}", local) is not None


def _has_variant(row: FrameworkRelease, local: str) -> bool:
    return any(variant.index_url.endswith(f"/{local}") for variant in variants_of(row))


def _companions(matrix: Matrix, row: FrameworkRelease) -> tuple[str, ...]:
    """Name the newest release of each distribution that goes with a TensorFlow: Keras, tf-keras, tensorflow-metal."""
    if row.framework != "tensorflow":
        return ()
    newest: dict[str, str] = {}
    for found in matrix.companions_of(row.version, row.platform):
        if not found.yanked:
            newest.setdefault(found.distribution, found.version)
    return tuple(f"{name}=={version}" for name, version in newest.items())


def removed(matrix: Matrix, text: str) -> RemovedDistribution | None:
    """Return why the distribution of a requirement brings nothing any more; None where it still does."""
    return matrix.removed_distribution(_name(text))


def required_by(matrix: Matrix, text: str) -> str:
    """Name who asks for a distribution without rows of its own, as jax-cuda12-plugin for its pjrt; "" for nobody."""
    name = _name(text)
    framework = matrix.framework_of(name)
    rows = matrix.releases(framework) if framework and not any(_held(matrix, text)) else ()
    return next((row.distribution for row in rows if name in row.requires), "")


def nearest(matrix: Matrix, text: str) -> tuple[str, tuple[str, ...], str]:
    """Return the distribution a requirement names, the releases held around the one it pins, and the newest held."""
    from packaging.version import Version

    versions = list(dict.fromkeys(row.version for row in _held(matrix, text)))
    asked = _pinned(text)
    newest = versions[0] if versions else ""
    if asked is None or not versions or asked > Version(newest):
        return _name(text), (), newest
    below = [version for version in versions if Version(version) < asked][:1]
    above = [version for version in versions if Version(version) > asked][-1:]
    return _name(text), (*below, *above), newest


def _pinned(text: str) -> Version | None:
    """Return the release that a requirement such as torch==2.6.9 pins."""
    from packaging.requirements import Requirement
    from packaging.version import InvalidVersion, Version

    pins = [item.version for item in Requirement(text).specifier if item.operator in {"==", "~=", "==="}]
    try:
        return Version(pins[0].removesuffix(".*")) if len(pins) == 1 else None
    except InvalidVersion:
        return None


def _held(matrix: Matrix, text: str) -> Iterator[FrameworkRelease]:
    name = _name(text)
    framework = matrix.framework_of(name)
    rows = matrix.releases(framework) if framework else ()
    return (row for row in rows if row.distribution == name)


def _name(text: str) -> str:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return canonicalize_name(Requirement(text).name)


def _problems(matrix: Matrix, row: FrameworkRelease) -> tuple[KnownProblem, ...]:
    stages = ("install", "run", "advice")
    found = (item for stage in stages for item in matrix.problems(row.distribution, row.version, stage))
    return tuple(item for item in found if not item.platforms or row.platform in (*item.platforms, "any"))


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
    releases = _companion_rows(matrix, text)
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


def _companion_rows(matrix: Matrix, text: str) -> Iterator[TableRow] | None:
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
