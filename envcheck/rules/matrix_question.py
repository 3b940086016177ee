"""Which releases of the matrix fit a Python, driver, GPU and platform that someone names."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.matrix.query import Matrix
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, UNDETERMINED
from envcheck.model.records import dataclass
from envcheck.model.releases import Architecture, FrameworkRelease, KnownProblem, Toolkit
from envcheck.rules.architecture_targets import JIT, NONE, build_targets, coverage
from envcheck.rules.driver_release import at_least
from envcheck.rules.pytorch_index import IndexVariant


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
    same = [row for row in matrix.toolkits() if row.version.split(".")[0] == cuda]
    return same[-1] if same else None


def _floor(toolkit: Toolkit, *, windows: bool, full: bool) -> str | None:
    """Return the lowest driver: that of the toolkit where PTX is compiled, else under minor-version compatibility."""
    whole = toolkit.min_driver_windows if windows else toolkit.min_driver_linux
    minor = toolkit.minor_floor_windows if windows else toolkit.minor_floor_linux
    return whole if full else minor or whole


def _drives(architecture: Architecture | None, question: Question) -> tuple[str, str]:
    branch = question.driver.split(".", maxsplit=1)[0]
    if architecture is None or not branch.isdigit():
        return UNDETERMINED, "the GPU's architecture is not in the matrix"
    first, last = architecture.first_driver_branch, architecture.last_driver_branch
    outside = (first and int(branch) < int(first)) or (last and int(branch) > int(last))
    return (INCOMPATIBLE, "") if outside else (COMPATIBLE, "")
