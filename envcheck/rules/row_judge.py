"""Judge releases of the matrix on a described machine.

Cheap bounds first, releases that differ in name alone once.
"""

from __future__ import annotations

from collections.abc import Hashable

from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.query import Matrix
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    Facts,
    Finding,
    FrameworkRelease,
    KnownProblem,
    dataclass,
    numbers,
    replace,
)
from envcheck.model.versions import matches
from envcheck.rules.builds import build_of, supports_python
from envcheck.rules.context import RULES, Context, Target, UndecidedError, once
from envcheck.rules.described_machine import Description, planned_facts
from envcheck.rules.driver import is_below_floor, is_ptx_too_new
from envcheck.rules.extras import extra_rows, has_extras
from envcheck.rules.gpu_architecture import cuda_of_ptx, serves_no_gpu, verdict_on
from envcheck.rules.gpu_releases import fits_machine, toolkit_of
from envcheck.rules.gpus import judged_gpus
from envcheck.rules.judgement import ReleaseJudge


@dataclass
class Question:
    """What the user asks for; "" or empty: not asked."""

    python: str = ""  # 3.11, or 3.13t for the free-threaded build
    driver: str = ""  # driver release version
    capabilities: tuple[str, ...] = ()  # compute capabilities the GPU may have
    platform: str = ""  # linux_x86_64 ...
    framework: str = ""
    gpu: str = ""  # as it was typed

    @property
    def is_about_gpus(self) -> bool:
        """Return whether only builds that use a GPU can answer."""
        return bool(self.driver or self.capabilities)


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
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.row.distribution}{extras}=={self.row.build_version}"

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
    """Judges candidates on the machines that a question describes.

    One for each platform, and each GPU of a name.
    """

    def __init__(self, matrix: Matrix, question: Question) -> None:
        self.matrix, self.question = matrix, question
        self._judges: dict[str, tuple[ReleaseJudge, ...]] = {}
        self._known: dict[Hashable, tuple[Candidate, Fit]] = {}

    def context(self, platform: str) -> Context:
        """Return a machine of a platform."""
        return self._machines(platform)[0].context

    def judge(self, candidate: Candidate, platform: str) -> Fit:
        """Judge a candidate, or reuse the findings of one with the same decisive cells."""
        contexts = [judge.context for judge in self._machines(platform)]
        extras = candidate.extras
        cells = [
            decisive_cells(context, row, extras) for context in contexts for row in candidate.rows
        ]
        key = (platform, extras, *cells)
        if key not in self._known:
            self._known[key] = candidate, self._judge(candidate, platform)
        judged, fit = self._known[key]
        if judged is candidate or not (fit.why or fit.errors):
            return fit
        return Fit(fit.verdict, tuple(_rename(text, judged, candidate) for text in fit.why))

    def judge_fully(self, candidate: Candidate, platform: str) -> Fit:
        """Judge a candidate by all rules, without bounds and without what was found of others."""
        return _join([_judge_on(judge, candidate) for judge in self._machines(platform)])

    def _judge(self, candidate: Candidate, platform: str) -> Fit:
        judges = self._machines(platform)
        return _join(
            [
                _REFUSED if _is_refused(one.context, candidate) else _judge_on(one, candidate)
                for one in judges
            ]
        )

    def _machines(self, platform: str) -> tuple[ReleaseJudge, ...]:
        if platform not in self._judges:
            gpus = self.question.capabilities or ("",)
            self._judges[platform] = tuple(
                ReleaseJudge(self._describe(platform, gpu)) for gpu in gpus
            )
        return self._judges[platform]

    def _describe(self, platform: str, gpu: str) -> Context:
        question = self.question
        description = Description(
            question.python, question.driver, (gpu,) if gpu else (), platform=platform
        )
        machine = planned_facts(None, description, self.matrix, expects_gpu=question.is_about_gpus)
        empty = Facts()  # nobody said what lies on its disk
        facts = replace(
            machine, toolkits=empty.toolkits, cudnn=empty.cudnn, tensorrt=empty.tensorrt
        )
        if question.is_about_gpus:
            return Context(facts, self.matrix, Target("gpu"))
        return Context(replace(facts, gpus=empty.gpus), self.matrix, Target("cpu"))


def _join(fits: list[Fit]) -> Fit:
    """Join what several machines say: what works on some of them alone is undetermined."""
    matches = [item for item in fits if item.verdict != INCOMPATIBLE]
    if not matches or len(fits) == 1:
        return fits[0]
    doubts = tuple(dict.fromkeys(doubt for item in matches for doubt in item.why))
    if len(matches) < len(fits):
        return Fit(UNDETERMINED, (*doubts, "not every GPU of that name"))
    is_open = any(item.verdict == UNDETERMINED for item in fits)
    return Fit(UNDETERMINED if is_open else fits[0].verdict, doubts)


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
    if row.cuda and is_below_floor(context, row.cuda):
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
    "cpu_features",
    "finds_cuda_wheels",
    "gpu_extra",
    "extras",
)
CELLS_OF_GPUS = ("cuda", "compute_capabilities")  # decide by how they serve the GPUs


def decisive_cells(context: Context, row: FrameworkRelease, extras: tuple[str, ...]) -> Hashable:
    """Return what the rules ask of a release on a machine.

    Releases for which it is equal get equal findings.
    """
    cells = [getattr(row, name) for name in JUDGED_CELLS]
    if row.cuda and context.goal == "gpu":
        cells += [is_below_floor(context, row.cuda), toolkit_of(context, row.cuda) is None]
    if context.gpus:
        cells.append(_describe_service(context, row))
    has_cuda = row.cuda_build or bool(
        context.matrix.cudas(row.framework, row.version, row.platform)
    )
    cells += [
        bool(row.local),
        bool(row.cuda),
        bool(row.cuda_wheels),
        has_cuda,
        supports_python(context, row),
    ]
    return (*cells, _of_version(context, row, extras))


def _describe_service(context: Context, row: FrameworkRelease) -> Hashable:
    """Return how a release serves the GPUs.

    The kind of its code for each, and whether the driver compiles its PTX.
    """
    ptx = cuda_of_ptx(row.framework, row.version)
    document = documented_gpus(row.distribution, row.version, context.platform)
    minimum = document.minimum if document else ""
    cells = (
        row.framework,
        bool(row.local),
        ptx,
        minimum,
        *(getattr(row, name) for name in CELLS_OF_GPUS),
    )
    known = _hold_services(context)
    if cells not in known:
        build = build_of(row)
        try:
            kinds = tuple(
                verdict_on(context, build, item).kind
                for item in judged_gpus(context)
                if item.architecture
            )
            known[cells] = kinds, minimum, is_ptx_too_new(context, build)
        except UndecidedError:
            known[cells] = cells
    return known[cells]


@once
def _hold_services(_: Context) -> dict[Hashable, Hashable]:
    """Hold what `_service` returned for the cells of releases."""
    return {}


def _of_version(context: Context, row: FrameworkRelease, extras: tuple[str, ...]) -> Hashable:
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
