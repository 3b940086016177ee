"""Find each framework's newest release for a machine, and why the next one fails."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.frameworks import framework, identity
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.model import (
    COMPATIBLE,
    UNDETERMINED,
    Finding,
    FrameworkRelease,
    dataclass,
    numbers,
)
from envcheck.model.fixes.driver import InstallDriver
from envcheck.model.fixes.hardware import (
    UseBuildForGpu,
)
from envcheck.rules.builds import is_free_threaded, library_of, plugin_of, rows_by_extra
from envcheck.rules.context import Context
from envcheck.rules.described_machine import LINUX
from envcheck.rules.row_judge import Candidate, Fit, RowJudge


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
