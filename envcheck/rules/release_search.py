"""Judge releases of the matrix on a described machine, and find each framework's newest that works.

Cheap bounds first, releases that differ in name alone once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from envcheck.frameworks import framework, identity
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
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
from envcheck.model.fixes import (
    InstallDriver,
    UseBuildForGpu,
)
from envcheck.model.versions import matches, write_pin
from envcheck.rules.builds import (
    build_of,
    is_free_threaded,
    library_of,
    plugin_of,
    rows_by_extra,
    supports_python,
)
from envcheck.rules.context import RULES, Context, Target, UndecidedError, once
from envcheck.rules.described_machine import LINUX, Description, planned_facts
from envcheck.rules.driver import is_ptx_too_new
from envcheck.rules.gpu_architecture import cuda_of_ptx, serves_no_gpu
from envcheck.rules.gpu_releases import driver_runs, fits_machine
from envcheck.rules.judgement import ReleaseJudge
from envcheck.rules.requirements import extra_rows, has_extras


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
