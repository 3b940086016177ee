"""The Python API: what the commands answer, as values.

The command line, the MCP server and notebooks are built on it.

Every function reads and judges; none but `fix(dry=False)` changes the machine. A request that
cannot be carried out raises UserError; its sentence names an argument as the option of the command
line of the same name.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from envcheck import __version__, rules
from envcheck.actions.extras import MissingExtraError
from envcheck.diagnosis.doctor import Diagnosis, Doctor, inspected_options
from envcheck.host.documents import table_in
from envcheck.host.paths import fold_home
from envcheck.model import (
    COMPATIBLE,
    CONDA,
    INCOMPATIBLE,
    PASSED,
    PLANNED,
    RESTORED,
    SCHEMA_VERSION,
    UNDETERMINED,
    UNSETTLED,
    CodecError,
    Facts,
    Finding,
    ImportTest,
    Known,
    Outcome,
    Plan,
    Remedy,  # noqa: F401 - the package hands it out
    Report,
    Snapshot,
    Source,
    Step,
    Unknown,
    UserError,
    dataclass,
    decode,
    encode,
    mark_uncollected,
    replace,
)
from envcheck.proof.imports import can_import, explain_import, prove_imports, with_imports

if TYPE_CHECKING:
    from datetime import date

    from envcheck.check.config import Config
    from envcheck.check.judge import Gate
    from envcheck.diff.compare import Comparison
    from envcheck.explain.judge import LogJudge, Reading
    from envcheck.explain.rule_page import RulePage
    from envcheck.explain.signatures import Event
    from envcheck.gpus.listing import Listing
    from envcheck.install.fix import Fix
    from envcheck.matrix import Matrix
    from envcheck.plan.project import ProjectLines
    from envcheck.plan.requests import PlanOptions
    from envcheck.plan.resolver import Resolver
    from envcheck.plan.wheelhouse import Wheelhouse
    from envcheck.render.document import Document
    from envcheck.rules.matrix_question import (
        Answer,
        NewestRelease,
        ReleasesFound,
        RowsFound,
        TableRow,
        TablesFound,
    )
    from envcheck.smoke.session import Session

Path: TypeAlias = "str | os.PathLike[str]"
Requirements: TypeAlias = "str | Sequence[str]"  # PEP 508, without URL: "torch>=2.4"
Expectation: TypeAlias = Literal["auto", "gpu", "cpu"]
Saved: TypeAlias = "Snapshot | Path"  # a snapshot, or the file of one
OnImport: TypeAlias = "Callable[[Report, str, int, int], None]"


# Who calls: the command line, a program in its own Python (`import envcheck`), an agent.
# An agent's words may be those of a repository.
COMMAND, PROGRAM, AGENT = "command", "program", "agent"
ASKED_BY: ContextVar[str] = ContextVar("asked_by", default=COMMAND)


def as_program(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as a program calls it: the Python that asks is the one that is meant."""

    @wraps(work)
    def ask(*words: object, **named: object) -> Any:
        before = ASKED_BY.set(PROGRAM)
        try:
            return work(*words, **named)
        finally:
            ASKED_BY.reset(before)

    return ask


def is_about_this_python() -> bool:
    """Return whether the Python that asks is meant.

    A program's own, or that of `python -m envcheck`.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_module = getattr(spec, "name", "") == "envcheck.__main__"
    asker = ASKED_BY.get()
    return asker == PROGRAM or (asker == COMMAND and is_module)


class Result:
    """What every answer has: a verdict, a document, a text, and a view for notebooks.

    It never changes.
    """

    if TYPE_CHECKING:  # a property of some answers, a field of others

        @property
        def verdict(self) -> str:
            """The verdict: compatible, incompatible or undetermined."""

    @property
    def ok(self) -> bool:
        """Whether the verdict is compatible."""
        return self.verdict == COMPATIBLE

    @property
    def cause(self) -> Finding | None:
        """The finding that the others follow from; None where nothing is wrong."""
        return None

    @property
    def commands(self) -> tuple[str, ...]:
        """What to type, in order, quoted for the shell of the machine."""
        return ()

    def raise_for_verdict(self) -> None:
        """Raise EnvironmentProblem unless the verdict is compatible."""
        if not self.ok:
            raise EnvironmentProblem(self)

    def to_json(self) -> str:
        """Return the JSON document that the command prints with `--format json`.

        Its schema is part of the package.
        """
        raise NotImplementedError

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes.

        `verbose` and `quiet` are the options -v and -q.
        """
        raise NotImplementedError

    def render(self, form: str) -> str:
        """Return the answer in a format of the command line: text, json, junit …"""
        from envcheck.render.formats import render

        if form == "json":
            return self.to_json()
        return render(self.document(verbose=form != "text"), form)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as a dictionary."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def __str__(self) -> str:
        """Return the text that the command prints."""
        return self.render("text")

    def __repr__(self) -> str:
        """Return two lines: what it says, and what to type first."""
        name, first = type(self).__name__, next(iter(self.commands), "nothing")
        headline = self.document(quiet=True).headline
        return f"<{name} {self.verdict}: {headline}\n  to type: {first}>"

    def _repr_html_(self) -> str:
        from html import escape

        from envcheck.render.html import render_fragment

        try:
            return render_fragment(self.document(verbose=True))
        except MissingExtraError:
            return f"<pre>{escape(str(self))}</pre>"


class EnvironmentProblem(RuntimeError):  # noqa: N818 - what it is, as one says it
    """An environment does not hold what a program needs, or that could not be determined.

    Its text is the cause and what to type; `result` is the whole answer.
    """

    def __init__(self, result: Result) -> None:
        self.result, self.cause, self.commands = result, result.cause, result.commands
        lines = [result.document(quiet=True).headline]
        if self.cause is not None and self.cause.message not in lines:
            lines.append(self.cause.message)
        super().__init__("\n".join([*lines, *(f"    $ {line}" for line in self.commands)]))


def _type_steps(
    steps: Iterable[Step], system: str, fix_command: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Write the commands of steps; `envcheck fix` takes those that change the environment."""
    from envcheck.actions import RunEnvcheck, action_line, changes_environment

    lines = []
    for step in steps:
        is_fixed = bool(fix_command) and changes_environment(step.action)
        lines.append(action_line(RunEnvcheck(fix_command) if is_fixed else step.action, system))
    return tuple(dict.fromkeys(filter(None, lines)))


def _type_report(report: Report) -> tuple[str, ...]:
    return _type_steps(report.steps, report.system, report.fix_command)


@dataclass
class DoctorResult(Result):
    """The answer of `doctor`: the report on a machine, and the facts that it rests on."""

    report: Report
    snapshot: Snapshot

    @property
    def verdict(self) -> str:
        """The verdict: compatible, incompatible or undetermined."""
        return self.report.verdict

    @property
    def cause(self) -> Finding | None:
        """The finding that the others follow from; None where nothing is wrong."""
        return next((item for item in self.findings if item.primary), None)

    @property
    def commands(self) -> tuple[str, ...]:
        """What to type, in order, quoted for the shell of the machine."""
        return _type_report(self.report)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, the primary cause first."""
        return self.report.findings

    @property
    def steps(self) -> tuple[Step, ...]:
        """What to do about it, in order."""
        return self.report.steps

    @property
    def project(self) -> dict[str, Any] | None:
        """The project that the report is about, as JSON states it; None for a machine."""
        return None

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes."""
        from envcheck.render.report import describe_report

        return describe_report(
            self.report,
            self.snapshot,
            verbose=verbose,
            quiet=quiet,
            file=(self.project or {}).get("file", ""),
        )

    def to_json(self) -> str:
        """Return the JSON document: the report and the snapshot that it rests on."""
        from envcheck.render.json_contracts import render_json

        return render_json(self.report, self.snapshot, project=self.project)


@dataclass
class CheckResult(DoctorResult):
    """The answer of `check`: the report on what a project requires."""

    report: Report
    snapshot: Snapshot
    config: Config  # what the project requires
    file: str  # that the findings are about: the configuration, or the file that was judged
    ignored: tuple[str, ...]  # ids of findings that the project ignores today
    expired: tuple[tuple[str, date], ...]  # ids that it no longer ignores, each with its last day

    @property
    def project(self) -> dict[str, Any]:
        """The project that the report is about, as the JSON document states it."""
        return {
            "file": self.file,
            "ignored": list(self.ignored),
            "expired": [name for name, _ in self.expired],
        }


@dataclass
class ExplainResult(Result):
    """The answer of `explain`: the root cause that a log shows."""

    reading: Reading

    @property
    def verdict(self) -> str:
        """The verdict: incompatible with a known cause, undetermined where nothing is known."""
        return self.reading.report.verdict

    @property
    def report(self) -> Report:
        """The report: findings, remedies, steps."""
        return self.reading.report

    @property
    def cause(self) -> Finding | None:
        """The root cause; None where none was found."""
        return self.reading.cause

    @property
    def commands(self) -> tuple[str, ...]:
        """What to type, in order, quoted for the shell of the machine."""
        return _type_report(self.report)

    @property
    def line(self) -> Event | None:
        """The line of the log that matters.

        Return None where the cause rests on the machine's facts alone.
        """
        return self.reading.line

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes."""
        from envcheck.render.explain import describe_explanation

        return describe_explanation(self.reading, verbose=verbose, quiet=quiet)

    def to_json(self) -> str:
        """Return the JSON document."""
        from envcheck.render.explain import render_explanation

        return render_explanation(self.redact().reading)

    def render(self, form: str) -> str:
        """Return the answer in a format.

        All but a text hold no user names and homes: they are sent to others.
        """
        if form == "text":
            return super().render(form)
        return Result.render(self.redact(), form)

    def redact(self) -> ExplainResult:
        """Return the answer without user names and homes."""
        from envcheck.probes.collection import Redactor

        return replace(self, reading=Redactor.from_environment(os.environ).redact(self.reading))


@dataclass
class PlanResult(Result):
    """The answer of `plan`: the releases that fit, and the steps that install them."""

    plan: Plan
    verdict: str  # compatible, incompatible or undetermined
    # `verify` was asked for, and nothing tells whether the plan resolves, or it does not
    unverified: bool = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps, in order; none where there is no plan."""
        return self.plan.steps

    @property
    def commands(self) -> tuple[str, ...]:
        """What to type, in order, quoted for the shell of the machine."""
        return _type_steps(self.steps, self.plan.system)

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:  # noqa: ARG002 - all have both
        """Return what every format but JSON and the files of a plan writes."""
        from envcheck.render.plan import describe_plan

        return describe_plan(self.plan, self.verdict, verbose=verbose)

    def to_json(self) -> str:
        """Return the JSON document of the plan."""
        from envcheck.render.plan import render_plan_json

        return render_plan_json(self.plan, self.verdict)

    def render(self, form: str, *, verbose: bool = False, cpu: PlanResult | None = None) -> str:
        """Return the plan in any answer's format, or as a script or a file that builds it.

        These are requirements, dockerfile, environment-yml and uv. `cpu` is a plan of the same
        releases for the CPU, which uv's settings hold beside it.
        """
        from envcheck.render.plan import FILES, render_file

        if form not in FILES:
            return super().render(form)
        try:
            return render_file(self.plan, form, verbose=verbose, cpu=cpu.plan if cpu else None)
        except ValueError as error:
            raise UserError(f"--format {form}: {error}") from None

    @property
    def cpu_requirements(self) -> tuple[str, ...]:
        """The same releases, as a plan for the CPU asks for them."""
        return tuple(
            text
            for made in self.plan.releases
            for text in (f"{made.framework}=={made.version.partition('+')[0]}", *made.companions)
        )

    def lock(self, seconds: float = 300.0) -> str:
        """Return the text of a pylock.toml (PEP 751): the plan for its machine, with hashes.

        uv resolves it. Raises NotLockedError where it does not.
        """
        from envcheck.plan.uv_project import lock

        with _resolving("--lock", "not locked"):
            return lock(self.plan, os.environ, seconds)

    def download(
        self, folder: Path, seconds: float = 300.0, heard: Callable[[str], object] = str
    ) -> Wheelhouse:
        """Fill a folder with the wheels of the plan, for a machine without a network.

        uv resolves them for `seconds`, pip downloads them, and `heard` gets each line that it
        prints. `install --from` installs from it. Raises NotLockedError where that fails.
        """
        import pathlib

        from envcheck.host.file_changes import write_atomically
        from envcheck.plan.wheelhouse import MANIFEST, download

        place = pathlib.Path(folder)
        with _resolving("--download", "not downloaded"):
            made = download(self.plan, place, os.environ, seconds, heard)
        write_atomically(place / MANIFEST, json.dumps(encode(made), indent=1) + "\n")
        return made


@contextmanager
def _resolving(option: str, failed: str) -> Iterator[None]:
    """Name the option where a plan cannot be resolved into a file."""
    from envcheck.plan.verify import UnreachableError, UnresolvableError

    try:
        yield
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    except UnresolvableError as error:
        raise NotLockedError(f"{failed}: {error}", INCOMPATIBLE) from None
    except UnreachableError as error:
        raise NotLockedError(f"{failed}: {error}", UNDETERMINED) from None


class NotLockedError(UserError):
    """A plan that is not resolved or downloaded; `verdict`: undetermined without an answer."""

    def __init__(self, message: str, verdict: str) -> None:
        """Take the reason."""
        super().__init__(message)
        self.verdict = verdict


@dataclass
class MatrixResult(Result):
    """The answer of `matrix`: rows of releases, or of a table, each with its citations."""

    found: RowsFound | ReleasesFound | TablesFound

    @property
    def verdict(self) -> str:
        """The verdict: compatible with rows, undetermined where the matrix does not tell."""
        return self.found.verdict

    @property
    def message(self) -> str:
        """One sentence about the rows."""
        return self.found.message

    @property
    def rows(self) -> tuple[Answer, ...] | tuple[TableRow, ...]:
        """The rows, newest first."""
        return self.found.rows

    @property
    def newest(self) -> tuple[NewestRelease, ...]:
        """The newest release of each framework that meets the conditions; () for a requirement."""
        return getattr(self.found, "newest", ())

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes."""
        from envcheck.render.matrix import MatrixOptions, describe_found

        return describe_found(self.found, MatrixOptions(verbose, quiet, verbose, verbose))

    def to_json(self) -> str:
        """Return the JSON document of the rows."""
        from envcheck.render.matrix import render_found_json

        return render_found_json(self.found)


@dataclass
class DiffResult(Result):
    """The answer of `diff`: what differs between two machines, most likely cause first."""

    comparison: Comparison
    names: tuple[str, str]  # of the two machines

    @property
    def verdict(self) -> str:
        """The verdict: incompatible if a difference affects the installed frameworks."""
        return self.comparison.verdict

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes."""
        from envcheck.render.diff import describe_comparison

        return describe_comparison(self.comparison, self.names, verbose=verbose, quiet=quiet)

    def to_json(self) -> str:
        """Return the JSON document of the differences."""
        from envcheck.render.diff import render_diff_json

        return render_diff_json(self.comparison, self.names)


@dataclass
class RuleResult(Result):
    """The answer of `rule`: what is known of a finding in general."""

    page: RulePage

    @property
    def verdict(self) -> str:
        """The verdict: compatible, as nothing is judged."""
        return COMPATIBLE

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes."""
        from envcheck.render.rule_page import describe_rule_page

        return describe_rule_page(self.page, verbose=verbose, quiet=quiet)

    def to_json(self) -> str:
        """Return the JSON document of the finding."""
        from envcheck.render.rule_page import render_rule_json

        return render_rule_json(self.page)


@dataclass
class GpusResult(Result):
    """The answer of `gpus`: each GPU, and the processes that hold its memory."""

    listing: Listing

    @property
    def verdict(self) -> str:
        """The verdict: compatible where the GPUs could be read."""
        from envcheck.gpus.listing import judge

        return judge(self.listing)[0]

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes."""
        from envcheck.render.gpus import describe_listing

        return describe_listing(self.listing, verbose=verbose, quiet=quiet)

    def to_json(self) -> str:
        """Return the JSON document of the GPUs, without users' homes."""
        from envcheck.probes.collection import Redactor
        from envcheck.render.gpus import render_gpus_json

        return render_gpus_json(Redactor("", "").redact(self.listing))


@dataclass
class FixResult(DoctorResult):
    """The answer of `fix`: what came of it, and the report on the environment as it is now."""

    report: Report
    snapshot: Snapshot
    fix: Fix
    outcome: Outcome

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change the environment and were not taken, or were taken back."""
        if self.fix.transaction and self.outcome.outcome in (PLANNED, RESTORED, UNSETTLED):
            return self.fix.transaction.plan.steps
        return ()

    def to_json(self) -> str:
        """Return the JSON document that `envcheck fix` prints."""
        from envcheck.diagnosis.repair import remaining_steps
        from envcheck.render.plan import render_fix_json

        left = remaining_steps(self.report)
        return render_fix_json(self.outcome, self.changes, left, self.report, self.snapshot)


@dataclass
class SmokeResult(Result):
    """The answer of `smoke`: what each framework computed on each device."""

    session: Session

    @property
    def verdict(self) -> str:
        """The verdict: compatible where all that was asked for computed right."""
        from envcheck.smoke.findings import verdict_of

        return verdict_of(self.session)

    @property
    def cause(self) -> Finding | None:
        """What explains the first failure; None where nothing failed."""
        return next(iter(self.session.findings), None)

    @property
    def commands(self) -> tuple[str, ...]:
        """What to type, in order, quoted for the shell of the machine."""
        return _type_steps(self.session.steps, self.session.system)

    def document(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Return what every format but JSON writes."""
        from envcheck.render.smoke import describe_session

        return describe_session(self.session, verbose=verbose, quiet=quiet)

    def to_json(self) -> str:
        """Return the JSON document."""
        from envcheck.render.smoke import render_smoke_json

        return render_smoke_json(self.session)


def smoke(
    *,
    python: Path = "",
    env: Path = "",
    frameworks: Sequence[str] = (),
    gpus: Sequence[str] = (),
    level: Literal["quick", "full", "bench"] = "quick",
    expect: Expectation = "auto",
    timeout: float | None = None,
    memory: float | None = None,
) -> SmokeResult:
    """Compute on each GPU and the CPU, each in its own process, and check where and how right.

    `gpus` are numbers of nvidia-smi or UUIDs; `timeout` is in seconds and `memory` in GiB, for each
    process. The other arguments are those of `doctor`.
    """
    from envcheck.proof.smoke import SmokeRequest, Watch, run_session

    named = (_list_texts(frameworks), _list_texts(gpus))
    asked = SmokeRequest(os.fspath(python), os.fspath(env), *named, level, expect, timeout, memory)
    asks = is_about_this_python()
    return SmokeResult(run_session(asked, lambda path: snapshot(python=path), Watch(), asks=asks))


def gpus(*, timeout: float = 10.0) -> GpusResult:
    """Read the GPUs, their memory and the processes that hold it, within `timeout` seconds."""
    from envcheck.gpus.reading import Question, read_listing

    return GpusResult(read_listing(Question(timeout=timeout)))


def fix(
    *,
    python: Path = "",
    env: Path = "",
    expect: Expectation = "auto",
    requirements: Requirements = (),
    matrix: Path | None = None,
    dry: bool = True,
) -> FixResult:
    """Say which steps fix an environment: `changes`; the other arguments are those of `doctor`.

    With `dry=False` they are taken, in one transaction: it ends with an environment in which less
    is wrong, or with the one that was there. What changes the machine is left to a person.
    """
    from envcheck.install.fix import FixRequest, fix_environment
    from envcheck.install.transaction import Transaction, Watch

    def take(_: Fix, transaction: Transaction) -> Outcome:
        transaction.prepare(as_root=False)
        return transaction.planned if dry else transaction.run(Watch())

    asked = FixRequest(os.fspath(python), os.fspath(env), dry_run=dry)
    done = fix_environment(make_doctor(expect, requirements, matrix), asked, Watch(), take)
    return make_fix_result(*done)


def make_fix_result(fix: Fix, outcome: Outcome) -> FixResult:
    """Return the answer that a fix and what came of it make."""
    return FixResult(fix.diagnosis.report, fix.diagnosis.snapshot, fix, outcome)


def rule(finding: str) -> RuleResult:
    """Explain a finding in general: its messages, how it is decided, what to do about it."""
    from envcheck.explain.rule_page import describe_rule

    return RuleResult(describe_rule(finding))


def snapshot(*, python: Path = "", env: Path = "") -> Snapshot:
    """Read this machine: its driver, GPUs, libraries, and one Python environment.

    `python` names an interpreter, `env` a venv or conda environment by folder or name; without
    either, the Python that asks is read. The snapshot holds no user names, home folders or
    credentials.
    """
    return read_machine(os.fspath(python), os.fspath(env))


def load_snapshot(file: Path) -> Snapshot:
    """Read a file that `envcheck snapshot` or `envcheck doctor --format json` wrote."""
    path = os.fspath(file)
    document = _load_json(path)
    schema = document.get("schema", "")
    if schema == "envcheck/report/1":
        document = table_in(document, "snapshot")
        schema = document.get("schema", "")
    if schema != f"envcheck/snapshot/{SCHEMA_VERSION}":
        advice = "Take a new one: envcheck snapshot -o FILE"
        raise UserError(f"{path} is no snapshot this version reads (schema {schema!r}). {advice}")
    body = {key: value for key, value in document.items() if key != "schema"}
    try:
        return mark_uncollected(decode(Snapshot, body))
    except CodecError as error:
        raise UserError(f"{path} is not a valid snapshot: {error}") from None


def doctor(
    *,
    python: Path = "",
    env: Path = "",
    expect: Expectation = "auto",
    requirements: Requirements = (),
    snapshot: Saved | None = None,
    only: Collection[str] = (),
    baseline: Path = "",
    matrix: Path | None = None,
    prove: bool | None = None,
    import_timeout: float = 20.0,
    on_import: OnImport | None = None,
) -> DoctorResult:
    """Check whether GPU deep learning works on this machine.

    If not, report what is wrong, why, and what to type.

    `python` and `env` name the environment to inspect, as in `snapshot`. `expect` says what must
    work; "auto": a GPU if there is one. `requirements` are judged too, installed or not, and
    packages such as vllm with the framework that they bring. `snapshot` judges a saved machine
    instead. `only` limits the checks to some finding ids. What the file `baseline` holds does not
    count. `matrix` is a file that replaces the built-in matrix. `prove` imports each installed
    framework, and what requires it, for real, all of them within `import_timeout` seconds; False
    says in the report that nothing was. `on_import` hears the report that rests on files alone,
    what is imported now, and how many were of how many.
    """
    python, env = os.fspath(python), os.fspath(env)
    unknown = frozenset(only) - set(rules.catalogue())
    if unknown:
        names = ", ".join(sorted(unknown))
        raise UserError(f"--only: no finding has the id {names}; `envcheck rule` lists them.")
    judged = make_doctor(expect, requirements, matrix)
    count = _count_beside(os.fspath(baseline))
    machine = _read_judged(snapshot, python, env)
    inspected = _inspected(python, env, snapshot)
    if prove is False and not snapshot:
        machine = with_imports(machine, Unknown("denied", "--no-import, or a setting"))
    found = judged.judge(machine, inspected, only=frozenset(only), is_here=not snapshot)
    if prove and not snapshot and not found.report.asked and can_import(machine.facts.python):

        def hear(name: str, done: int, total: int) -> None:
            if on_import is not None:
                on_import(count(found), name, done, total)

        machine = prove_imports(machine, import_timeout, hear)
        found = judged.judge(machine, inspected, only=frozenset(only))
    return DoctorResult(count(found), machine)


def _count_beside(baseline: str) -> Callable[[Diagnosis], Report]:
    """Return what makes a report of a diagnosis, without what a baseline holds."""
    if not baseline:
        return lambda found: found.report
    from envcheck.check.baseline import read_baseline, with_baseline

    rows = read_baseline(_read_text(baseline), baseline)
    return lambda found: with_baseline(found, rows, baseline)


def require(
    *requirements: str,
    gpu: bool | None = None,
    memory: str | int = 0,
    compute_capability: str = "",
    driver: str = "",
    prove: bool = False,
    matrix: Path | None = None,
    **frameworks: str,
) -> DoctorResult:
    """Return the report on the Python that runs, or raise EnvironmentProblem: cause and commands.

    require(gpu=True, torch=">=2.6", memory="16 GiB") stands first in a program. It starts no
    program and imports no framework: one that the program has imported is proven by that. `gpu`
    says whether a GPU must work; None: if there is one. `frameworks` are releases by name, as are
    `requirements`: "onnxruntime-gpu>=1.20". `memory` must be free on a GPU; `compute_capability`
    and `driver` are minima. `prove` imports the installed frameworks in a process of their own.
    """
    from envcheck.check.config import Config
    from envcheck.check.judge import is_of_project, make_gate

    asked = (*requirements, *map(_name_release, frameworks.items()))
    expect = {None: "auto", True: "gpu", False: "cpu"}.get(gpu)
    if expect is None:
        raise UserError(f"gpu is True, False or None, not {gpu!r}.")
    config = Config(asked, expect, driver, compute_capability, min_memory=_read_memory(memory))
    gate = make_gate(config, "envcheck.require", load_matrix(matrix))
    machine = _with_loaded(read_machine("", "", starts_programs=False))
    if prove and can_import(machine.facts.python):
        machine = prove_imports(machine, 20.0, lambda *_: None)
    report = make_doctor(gate=gate).judge(machine, _inspected()).report
    if report.fix_command:
        prefix = machine.facts.python.prefix.value or sys.prefix
        words = ("install", *asked, "--env", prefix)
        if not any(map(is_of_project, report.findings)):
            words = ("fix", *_inspected(), "--expect", expect)
        report = replace(report, fix_command=words)
    result = DoctorResult(report, machine)
    result.raise_for_verdict()
    return result


def _name_release(framework: tuple[str, str]) -> str:
    name, specifier = framework
    if specifier and specifier[0] not in "=<>!~":
        raise UserError(f"{name}={specifier!r}: give a specifier, such as '>={specifier}'.")
    return f"{name.replace('_', '-')}{specifier}"


_UNITS = {"": 1, "MiB": 1 << 20, "MB": 10**6, "GiB": 1 << 30, "GB": 10**9}


def _read_memory(memory: str | int) -> int:
    """Return a size in bytes.

    Samples: 16 GiB, 40GB, 17179869184
    """
    parts = re.fullmatch(r"(\d+(?:\.\d+)?) ?([MG]?i?B?)", str(memory))
    if parts is None or parts[2] not in _UNITS:
        raise UserError(f"memory={memory!r}: give a size, such as '16 GiB'.")
    return int(float(parts[1]) * _UNITS[parts[2]])


def _with_loaded(machine: Snapshot) -> Snapshot:
    """Add that what this program has imported can be imported."""
    from envcheck.probes.imports import list_imports

    tests = tuple(
        ImportTest(item.name, item.version, modules[0].rstrip(":"), PASSED)
        for item, modules in list_imports(machine.facts.python)
        if all(module.rstrip(":") in sys.modules for module in modules)
    )
    if tests:
        return with_imports(machine, Known(tests, Source("command", "sys.modules")))
    return machine


def _inspected(python: str = "", env: str = "", saved: Saved | None = None) -> tuple[str, ...]:
    """Return the options with which a command inspects the same environment."""
    if not (python or env or saved) and ASKED_BY.get() == PROGRAM:
        python = sys.executable
    return inspected_options(fold_home(python), fold_home(env))


def check(
    config: Path = "",
    *,
    file: Path = "",
    python: Path = "",
    env: Path = "",
    expect: Expectation | None = None,
    driver: str = "",
    gpu: str | Sequence[str] = (),
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
    snapshot: Saved | None = None,
    matrix: Path | None = None,
) -> CheckResult:
    """Check whether this machine, or what a file will build, meets the requirements of a project.

    `config` is the file with the [tool.envcheck] table; "" is pyproject.toml here. `file` judges a
    Dockerfile, a compose file, an environment.yml or a requirements file before it is built.
    `driver` and `gpu` state the machines that run it; without them, the minima of the table count.
    `extras` and `groups` are what is installed of a project or a lock file. `expect` overrides the
    table. The other arguments are those of `doctor`.
    """
    config = os.fspath(config)
    python = os.fspath(python)
    env = os.fspath(env)
    file = _make_relative(os.fspath(file))
    gate = read_gate(config, matrix, required=not file)
    if expect is not None:
        gate = replace(gate, config=replace(gate.config, expect=_make_target(expect).expect))
    if file:
        named = (tuple(extras), tuple(groups))
        report, machine = _judge_file(gate, file, driver, _list_texts(gpu), named)
    elif driver or gpu or extras or groups:
        raise UserError("--driver, --gpu, --extra and --group are about a file: name it.")
    else:
        machine = _read_judged(snapshot, python, env)
        inspected = _inspected(python, env, snapshot)
        report = make_doctor(gate=gate).judge(machine, inspected, is_here=not snapshot).report
    return CheckResult(
        report, machine, gate.config, file or gate.path, gate.ignored(), gate.expired()
    )


def explain(
    text: str | bytes = "",
    *,
    files: Sequence[Path] = (),
    snapshot: Saved | None = None,
    here: bool = False,
    expect: Expectation = "auto",
    matrix: Path | None = None,
) -> ExplainResult:
    """Find the line of a log that matters, its cause, what to type, and the harmless lines.

    `text` is the log, or `files` names logs, gzip files and folders of logs too; "-" is standard
    input. `snapshot`, or `here` for this machine, adds the facts of the machine that wrote it.
    """
    from envcheck.host.log_files import list_logs, read_named_log

    if not isinstance(text, (str, bytes)):
        raise UserError("a log is a text; `explain(files=['train.log'])` reads a file.")
    judge = log_judge(snapshot, here=here, expect=expect, matrix=matrix)
    notes: list[str] = []
    sources: list[tuple[str, Iterable[bytes]]] = [
        (name, read_named_log(name, notes)) for file in files for name in list_logs(os.fspath(file))
    ]
    if text or not sources:
        sources.append(("-", [text.encode("utf-8", "replace") if isinstance(text, str) else text]))
    return ExplainResult(judge.read(sources, notes))


def log_judge(
    snapshot: Saved | None, *, here: bool, expect: Expectation, matrix: Path | None
) -> LogJudge:
    """Return what judges scanned logs, with the facts of a machine if they are given."""
    from envcheck.explain.judge import LogJudge

    if here and snapshot:
        raise UserError(
            "--here and --snapshot exclude each other: a log was written on one machine."
        )
    facts: Facts | None = None
    if snapshot:
        facts = _read_saved(snapshot).facts
    elif here:
        facts = read_machine("", "").facts
    return LogJudge(load_matrix(matrix), facts, _make_target(expect))


def plan(
    *requirements: Requirements,
    with_requirements: Requirements = (),
    requirement_files: Sequence[Path] = (),
    constraint_files: Sequence[Path] = (),
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
    python: str = "",
    driver: str = "",
    gpu: str | Sequence[str] = (),
    glibc: str = "",
    platform: str = "",
    expect: Expectation = "auto",
    snapshot: Saved | None = None,
    installer: Literal["", "pip", "uv", "conda"] = "",
    env: Path = "",
    container: bool = False,
    verify: bool | Literal["wheels"] = False,
    verify_timeout: float = 300,
    torch_index: str = "",
    upgrade: bool = False,
    matrix: Path | None = None,
) -> PlanResult:
    """Plan the exact commands that install releases on this machine, and say why no newer release.

    A requirement names a framework, or a package on top of one: plan("vllm>=0.20", driver="580",
    gpu="L4"). `with_requirements` are chosen together with them, as if named beside them:
    plan("flash-attn", with_requirements="torch==2.8.*"). The lines of `requirement_files`, and what
    a project requires (plan("."), with its `extras` and dependency `groups`), are planned together,
    within the bounds of `constraint_files`. `python`, `driver`, `gpu`, `glibc` and `platform`
    describe another machine; `snapshot` names a saved one. `env` is the folder of the environment;
    `container` plans for an image. `verify` resolves the plan on the package index for at most
    `verify_timeout` seconds, and pins the result. "wheels" does the same but asks no channel of
    conda, and an index that does not answer leaves the verdict as it is. Without it, no network is
    asked. `torch_index` is a mirror of PyTorch's own index. `upgrade` plans for what the
    environment `env` holds (.venv): the newest releases that work there. Nothing is installed.
    """
    from envcheck.plan.build import use_mirror
    from envcheck.plan.planner import make_resolver
    from envcheck.plan.requests import PlanOptions
    from envcheck.rules.described_machine import Description

    if installer not in ("", "pip", "uv", "conda"):
        raise UserError(f"--installer {installer!r}: give pip, uv or conda.")
    is_here = not (platform or snapshot or container)
    if upgrade and (python or not is_here):
        raise UserError("--upgrade is of an environment here: describe no other machine.")
    given = {"--snapshot": snapshot, "--matrix": matrix, "--installer": installer, "--env": env}
    given["--torch-index"] = torch_index
    said = Description(python, driver, _list_texts(gpu), glibc, platform)
    options = PlanOptions(_make_target(expect).expect, installer, os.fspath(env), container, said)
    options = replace(options, repeat_options=_list_typed(given), upgrade=upgrade)
    named = [text for each in requirements for text in _list_texts(each)]
    texts = (*named, *_list_texts(with_requirements))
    asked = read_project(texts, requirement_files, constraint_files, extras, groups)
    finish = partial(use_mirror, mirror=check_mirror(torch_index))
    resolver = make_resolver(verify, verify_timeout, finish, keeps=upgrade)
    made = _make_plan(asked, options, matrix, snapshot, resolver, is_here=is_here)
    return _judge_plan(finish(made), verify)


def _make_plan(
    asked: tuple[tuple[str, ...], ProjectLines | None],
    options: PlanOptions,
    matrix: Path | None,
    snapshot: Saved | None,
    resolver: Resolver | None,
    *,
    is_here: bool,
) -> Plan:
    """Plan for a saved machine, this one, or an environment that is to be upgraded."""
    from envcheck.plan.planner import for_this_machine, in_place, plan_project, typed_here

    texts, project = asked
    if not texts and project is None:
        raise UserError("name what to plan, such as plan('torch').")
    if is_here:
        options = for_this_machine(options, os.environ)
    machine: Any = _read_saved(snapshot).facts if snapshot else _read_for_plan
    installed: Facts | None = None
    if options.upgrade:
        options = _with_environment(options)
        machine = installed = read_machine("", options.folder).facts
    with _blamed_on(matrix):
        known = load_matrix(matrix)
        made = plan_project(
            project, texts, options, known, machine, resolver=resolver, installed=installed
        ).plan
    if options.upgrade:
        return in_place(made)
    words = (*texts, *project.words) if project else ()
    return typed_here(made, options.installer, words) if is_here else made


def _with_environment(options: PlanOptions) -> PlanOptions:
    """Name the environment to upgrade, and conda where it is one of conda."""
    folder = options.folder or ".venv"
    is_condas = os.path.isdir(os.path.join(folder, "conda-meta"))  # noqa: PTH112, PTH118 - pathlib is slow to import
    installer = options.installer or (CONDA if is_condas else "")
    return replace(options, folder=folder, installer=installer)


def plan_driver(
    *,
    requirements: Requirements = (),
    gpu: str | Sequence[str] = (),
    driver: str = "",
    system: str = "",
    platform: str = "",
    containers: str = "",
    snapshot: Saved | None = None,
    matrix: Path | None = None,
) -> PlanResult:
    """Plan what makes NVIDIA's driver work on this machine, or brings one that serves.

    `driver` is the lowest release or branch to bring, `requirements` are releases that it must
    run: plan_driver(requirements="torch", gpu="RTX 5090"). `system` ("debian 12") and `platform`
    describe another machine, which has no driver; `snapshot` names a saved one. `containers` is
    the engine whose containers are to get the GPUs: docker, containerd or podman. Nothing is
    installed.
    """
    from envcheck.plan.driver import DriverRequest
    from envcheck.plan.driver import plan_driver as plan_it
    from envcheck.rules.described_machine import Description, driver_facts

    said = Description("", "", _list_texts(gpu), "", platform, system)
    base = _read_saved(snapshot).facts if snapshot else None
    if base is None and not (platform or system):
        base = read_machine("", "").facts
    with _blamed_on(matrix):
        loaded = load_matrix(matrix)
        facts = driver_facts(base, said, loaded)
        context = rules.Context(facts, loaded, _make_target("gpu", requirements))
        return _judge_plan(plan_it(DriverRequest(driver, containers), context), verify=False)


def _judge_plan(made: Plan, verify: bool | Literal["wheels"]) -> PlanResult:  # noqa: FBT001 - as `plan` has it
    from envcheck.plan.build import verdict_on

    verdict = verdict_on(made)
    unverified = verify is True and bool(made.releases) and not made.is_resolved
    if unverified and verdict == COMPATIBLE:
        verdict = UNDETERMINED
    return PlanResult(made, verdict, unverified)


def matrix(
    requirement: str = "",
    *,
    python: str = "",
    driver: str = "",
    gpu: str = "",
    platform: str = "",
    framework: str = "",
    matrix: Path | None = None,
) -> MatrixResult:
    """Query the matrix of releases that work together.

    The rows of a requirement, or those that meet all conditions.

    `requirement` is a release such as "tensorflow==2.15.*", or a table: cuda, driver, architecture,
    cudnn, tensorrt, conda. Otherwise the newest releases for a `python` ("3.11"), `driver` release,
    `gpu` (a product or a compute capability), `platform` ("linux_x86_64") and `framework` are
    listed.
    """
    from envcheck.rules.matrix_question import ReleasesFound, answer_requirement

    conditions = {
        "python": python,
        "driver": driver,
        "gpu": gpu,
        "platform": platform,
        "framework": framework,
    }
    if requirement and any(conditions.values()):
        raise UserError("a requirement and conditions exclude each other: ask two questions.")
    loaded = load_matrix(matrix)
    if requirement:
        return MatrixResult(answer_requirement(loaded, requirement))
    conditions["framework"] = loaded.framework_of(framework) or framework
    return MatrixResult(ReleasesFound(loaded, conditions))


def diff(
    a: Saved,
    b: Saved,
    *,
    requirements: Requirements = (),
    expect: Expectation = "auto",
    matrix: Path | None = None,
) -> DiffResult:
    """Report what differs between two saved machines, most likely cause first."""
    from envcheck.diff.compare import compare

    found = compare(
        _read_saved(a), _read_saved(b), load_matrix(matrix), _make_target(expect, requirements)
    )
    names = [
        letter if isinstance(item, Snapshot) else os.fspath(item)
        for letter, item in (("A", a), ("B", b))
    ]
    return DiffResult(found, (names[0], names[1]))


def load_matrix(file: Path | None = None) -> Matrix:
    """Load the built-in matrix, or that of a file or a pinned URL."""
    from envcheck.matrix import load_matrix as load  # snapshot and gpus need no matrix: 3 ms

    return load(None if file is None else os.fspath(file))


def read_machine(
    python: str,
    env: str,
    without: Collection[str] = (),
    *,
    without_packages: bool = False,
    is_found: bool = False,
    starts_programs: bool = True,
) -> Snapshot:
    """Read this machine without the probes named in `without`.

    Raises UserError for an unknown --python or --env.

    `without_packages`: read the interpreter but not its packages. `is_found`: nobody named `env`,
    so that nothing of it may be run. `starts_programs`: ask nvidia-smi, compilers and the like.
    """
    from envcheck.probes.collection import collect_here  # a saved machine needs no probes: 9 ms

    for option, value in (("--python", python), ("--env", env)):
        if "\0" in value:
            raise UserError(f"{option} {value!r}: no file has such a name.")
    if python and env:
        raise UserError("--python and --env exclude each other: choose one of them.")
    options = {
        "without_packages": without_packages,
        "asks": is_about_this_python(),
        "is_found": is_found or ASKED_BY.get() == AGENT,
        "starts_programs": starts_programs,
    }
    found = collect_here(python, env, without, **options)
    executable = found.facts.python.executable
    # A probe that crashed or had no time is not the user's error: the report says it.
    failed = isinstance(executable, Unknown) and executable.why in ("crashed", "timeout")
    if (python or env) and not isinstance(executable, Known) and not failed:
        option = f"--python {python}" if python else f"--env {env}"
        raise UserError(f"{option}: {_describe_missing(executable)}")
    return found


def _describe_missing(fact: object) -> str:
    """Say why there is no environment: what was looked at, or what this user may not read."""
    tried = getattr(fact, "tried", ())
    for path in filter(_is_denied, tried):
        return f"this user may not read {path}, or the file that it leads to."
    detail = getattr(fact, "detail", "") or (f"Looked at {', '.join(tried)}." if tried else "")
    return f"no Python environment found. {detail}"


def _is_denied(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - pathlib is slow to import
    except OSError as error:
        return isinstance(error, PermissionError)
    except ValueError:  # a NUL in the name
        pass
    return False


def make_doctor(
    expect: str = "auto",
    requirements: Requirements = (),
    matrix: Path | None = None,
    gate: Gate | None = None,
) -> Doctor:
    """Return what judges environments: as `doctor` does, or by a project's gate as `check`."""
    if gate is None:
        target, used = _make_target(expect, requirements), load_matrix(matrix)
        return Doctor(used, target, read_machine, prove=prove_imports, explain=explain_import)
    target = rules.Target(gate.config.expect, gate.config.requires)
    return Doctor(
        gate.matrix, target, read_machine, gate.judge, gate.path, prove_imports, explain_import
    )


def _read_saved(saved: Saved) -> Snapshot:
    return saved if isinstance(saved, Snapshot) else load_snapshot(saved)


def _read_judged(saved: Saved | None, python: str, env: str) -> Snapshot:
    if saved and (python or env):
        raise UserError(
            "--snapshot and --env exclude each other: a saved machine holds one environment."
        )
    return _read_saved(saved) if saved else read_machine(python, env)


def _make_target(expect: str, requirements: Requirements = ()) -> rules.Target:
    if expect not in ("auto", "gpu", "cpu"):
        raise UserError(f"--expect {expect!r}: give auto, gpu or cpu.")
    return rules.Target(expect, _list_texts(requirements))


def read_lock(file: Path) -> ProjectLines:
    """Read a pylock.toml to install: what it pins is judged before it is installed."""
    from envcheck.check.requirement_files import parse_project
    from envcheck.plan.project import ProjectLines
    from envcheck.plan.uv_project import is_lock_name

    path = os.fspath(file)
    if not is_lock_name(path):
        raise UserError(
            f"--lock {path[:80]!r}: name a pylock.toml, or a pylock.NAME.toml (PEP 751). `uv export"
            " --format pylock.toml` writes one from a uv.lock."
        )
    found = parse_project(_read_text(path), path)
    if found.kind != "lock file":
        raise UserError(f"{path} locks no packages.")
    lines = tuple((line.text, line.location) for line in found.requirements)
    return ProjectLines(("--lock", path), lines, lock=path)


def read_wheelhouse(folder: Path) -> ProjectLines:
    """Read a folder that `plan --download` made: what it pins is judged before it is installed."""
    from envcheck.plan.wheelhouse import MANIFEST, PINS, read_manifest

    path = os.path.join(os.fspath(folder), "")  # noqa: PTH118 - pathlib is slow to import
    made = read_manifest(os.fspath(folder), _load_json(path + MANIFEST))
    _, found = read_project((), (path + PINS,))
    assert found is not None  # noqa: S101 - a file was named
    return replace(found, words=("--from", path), lock=path + PINS, made_for=made)


_FOLDER = r"\.{0,2}[/\\]|\.{1,2}(\[|$)"  # ., ./server, ../server[gpu], /srv/app


def read_project(
    texts: Sequence[str],
    requirement_files: Sequence[Path] = (),
    constraint_files: Sequence[Path] = (),
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> tuple[tuple[str, ...], ProjectLines | None]:
    """Read the files that a plan is asked for with; None where only requirements are named.

    Of `texts`, those that name a folder are projects: ".", "./server[gpu]". The others come back.
    """
    is_open = ASKED_BY.get() != AGENT  # whose words may lead anywhere
    folders = tuple(
        text for text in texts if is_open and re.match(_FOLDER, text) and not text.endswith(".whl")
    )
    asked = tuple(text for text in texts if text not in folders)
    if not (folders or requirement_files or constraint_files or extras or groups):
        _refuse_file(asked)
        return asked, None
    from envcheck.check.project_files import AskedFiles, read_asked  # few plans are for files: 8 ms
    from envcheck.plan.project import ProjectLines

    files = AskedFiles(
        tuple(os.fspath(file) for file in requirement_files),
        tuple(os.fspath(file) for file in constraint_files),
        folders,
        tuple(extras),
        tuple(groups),
    )
    found = read_asked(files, _read_text, lambda file: partial(_read_beside, file))
    lines = tuple((line.text, line.location) for line in found.lines)
    project = ProjectLines(files.words, lines, found.constraints, found.bounds, found.notes)
    return asked, project


def _refuse_file(texts: Sequence[str]) -> None:
    """Say how a file is named that stands in the place of a requirement."""
    for text in texts:
        if re.search(r"\.(txt|in|toml|lock|ya?ml)$", text) and os.path.isfile(text):  # noqa: PTH113 - pathlib is slow to import
            option = "-r " if text.endswith((".txt", ".in")) else ""
            folder = os.path.dirname(text) or "."  # noqa: PTH120 - same
            raise UserError(f"{text} is a file: plan it with {option}{text if option else folder}.")


def _list_typed(given: Mapping[str, Path | Snapshot | None]) -> tuple[str, ...]:
    """List options with their values, as a command repeats them."""
    typed: list[str] = []
    for name, value in given.items():
        if value and not isinstance(value, Snapshot):
            typed += (name, os.fspath(value))
    return tuple(typed)


@contextmanager
def _blamed_on(matrix: Path | None) -> Iterator[None]:
    """Name the given matrix where one of its values may stand in no command."""
    try:
        yield
    except ValueError as error:
        if not matrix:
            raise
        message = "holds a value that no command may contain"
        raise UserError(f"{os.fspath(matrix)} {message}: {str(error)[:200]}") from None


def _list_texts(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) and value else tuple(value)


_MIRROR = r"(?:https?|file)://[\w.:/@%~+-]+"


def check_mirror(address: str) -> str:
    """Return the address of a mirror of PyTorch's index; raises UserError for what is none."""
    if address and not re.fullmatch(_MIRROR, address):
        raise UserError(
            f"--torch-index {address[:80]!r} is no address, such as https://mirror.example/whl."
        )
    return address


def _read_for_plan(without: Collection[str]) -> Facts:
    return read_machine("", "", without, without_packages=True).facts


CONFIG = "pyproject.toml"
SYSTEM_CONFIG = "/etc/envcheck.toml"


def read_gate(config: str, matrix: Path | None, *, required: bool) -> Gate:
    """Read what a project requires before the machine, to report mistakes at once.

    Unless `required`, a project without a [tool.envcheck] table is fine: a file can be judged
    without one.
    """
    from envcheck.check.judge import load_gate

    has_table = os.path.isfile(CONFIG) and "[tool.envcheck" in _read_text(CONFIG)  # noqa: PTH113 - pathlib is slow to import
    path = config or CONFIG
    text = _read_text(path) if required or config or has_table else None
    return load_gate(text, path, load_matrix(matrix))


def allows_imports() -> bool:
    """Return whether `doctor` may import frameworks unasked.

    A file of the system or of the project can forbid it.

    A table of /etc/envcheck.toml, for the login nodes of a cluster, counts as much as that of
    pyproject.toml here.
    """
    for path in (SYSTEM_CONFIG, CONFIG):
        text = _read_text(path) if os.path.isfile(path) else ""  # noqa: PTH113 - pathlib is slow to import
        if "[tool.envcheck" in text:
            from envcheck.check import config

            try:
                if not config.allows_imports(text):
                    return False
            except config.ConfigError as error:
                raise UserError(f"{path}: {error}") from None
    return True


def _judge_file(
    gate: Gate,
    file: str,
    driver: str,
    gpus: tuple[str, ...],
    named: tuple[tuple[str, ...], tuple[str, ...]],
) -> tuple[Report, Snapshot]:
    from envcheck.check.judge_file import judge_text  # only a file to build needs it: 8 ms
    from envcheck.check.selection import Selection

    report, facts = judge_text(
        _read_text(file),
        file,
        lambda name: _read_beside(file, name),
        gate,
        driver=driver,
        gpus=gpus,
        selection=Selection(*named) if any(named) else None,
    )
    return report, Snapshot(SCHEMA_VERSION, __version__, "not built yet", "", facts)


def _make_relative(file: str) -> str:
    """Name a file below this folder relative to it, as code scanning and annotations need it."""
    try:
        below = os.path.relpath(file) if file else ""
    except (ValueError, FileNotFoundError):  # another drive; a working folder that was deleted
        return file
    return file if below.startswith("..") else below.replace(os.sep, "/")


def _real_path(path: str) -> str:
    """Return the real path; "" for none: a NUL, or a relative one in a folder that was deleted."""
    try:
        return os.path.realpath(path)
    except (FileNotFoundError, ValueError):
        return ""


def _read_beside(file: str, name: str) -> str | None:
    """Read a file that the judged one names, in or below its folder or this one.

    Return None if it is not there.
    """
    folders = {_real_path(os.path.dirname(file) or "."), _real_path(".")} - {""}  # noqa: PTH120 - pathlib is slow to import
    path = _real_path(name)
    within = any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
    return _read_text(path) if within and os.path.isfile(path) else None  # noqa: PTH113


_TEXT_LIMIT = 1 << 20  # bytes of a pyproject.toml or a Dockerfile
_LOCK_LIMIT = 32 << 20  # bytes of a lock file: real ones of uv reach two megabytes
_SNAPSHOT_LIMIT = 64 << 20  # bytes of a snapshot file; the largest real ones are below one megabyte


_PROJECT_FILES = (
    CONFIG,
    *("requirements.txt", "Dockerfile", "environment.yml", "environment.yaml"),
    *("docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml"),
    *("uv.lock", "pylock.toml", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock"),
    "pixi.toml",
    *("conda-lock.yml", "setup.py"),
)


def list_project_files(folder: str) -> list[str]:
    """List the paths of the files in a folder that `envcheck check FOLDER` judges."""
    files = [os.path.normpath(os.path.join(folder, name)) for name in _PROJECT_FILES]  # noqa: PTH118
    return list(filter(os.path.isfile, files))


def _advise(path: str) -> str:
    """Say what can be checked where there is no pyproject.toml."""
    if path != CONFIG:
        return "."
    if list_project_files("."):
        return ". `envcheck check .` checks what is there."
    return ". Name the project's file with --config."


def _read_text(path: str) -> str:
    advice = _advise(path)
    try:
        is_lock = re.search(r"(\.lock|(^|[\\/])pylock[^\\/]*\.toml|conda-lock\.ya?ml)$", path)
        limit = _LOCK_LIMIT if is_lock else _TEXT_LIMIT
        return read_bytes(path, limit, advice).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None


def read_bytes(path: str, limit: int, advice: str = "") -> bytes:
    """Read a file that the user names, of at most `limit` bytes.

    Raises UserError, with advice if it is missing.
    """
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib costs a third of a bare start
            data = stream.read(limit + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}{advice}") from None
    except ValueError:  # a NUL in the name
        raise UserError(f"cannot read {path!r}: no file has such a name.") from None
    if len(data) > limit:
        raise UserError(f"{path} is larger than {limit >> 20} MiB, the limit for such a file.")
    return data


def _load_json(path: str) -> dict[str, object]:
    try:
        document = json.loads(read_bytes(path, _SNAPSHOT_LIMIT))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path} holds no JSON object.")
    return document
