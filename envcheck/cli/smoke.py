"""`envcheck smoke`: compute something small on each device and check the result."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, STEP_FAILED, UserError
from envcheck.frameworks import framework_names
from envcheck.host.file_changes import remove_tree
from envcheck.host.local import LocalHost
from envcheck.host.process import interrupt_on_signal, start_thread
from envcheck.host.protocol import Host
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    NOTE,
    Absent,
    Distribution,
    Fact,
    Gpu,
    Known,
    Unknown,
    dataclass,
    numbers,
    replace,
)
from envcheck.model.text import inert
from envcheck.probes.collection import Redactor
from envcheck.probes.gpus import collect_gpus
from envcheck.probes.packages import read_installation
from envcheck.probes.python import PythonChoice, PythonSelection, choose_python
from envcheck.smoke.devices import (
    DRIVER,
    DeviceChoice,
    DeviceError,
    Job,
    Run,
    Session,
    Subject,
    choose_devices,
    hidden_folders,
    installed_frameworks,
)
from envcheck.smoke.protocol import LEVELS
from envcheck.smoke.runner import TEMPORARY, Task, jobs_of, run_jobs, usual_limits
from envcheck.smoke.verdict import findings_of, verdict_of

if TYPE_CHECKING:
    from envcheck.rules.context import Context


def explain_words(text: str) -> tuple[str, ...]:
    """Return the ids of what a log names, the root cause first; nothing where it names no root cause."""
    from envcheck.explain.judge import judge_log
    from envcheck.explain.scan import scan
    from envcheck.explain.signatures import load_signatures
    from envcheck.matrix.load import load_matrix

    found = scan([("smoke test", [text.encode("utf-8", "replace")])], load_signatures())
    findings = judge_log(found.events, load_matrix(None), None).findings
    if not any(finding.primary for finding in findings):
        return ()
    told = [finding for finding in findings if finding.severity != NOTE]
    return tuple(finding.id for finding in sorted(told, key=lambda finding: not finding.primary))


FORMATS = ("text", "json", "junit")


@dataclass(frozen=True)
class SmokeOptions:
    """What the user asked for."""

    python: str = ""
    env: str = ""
    frameworks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    level: str = "quick"
    expect: str = "auto"
    seconds: float | None = None
    memory: float | None = None  # GiB
    quiet: bool = False


def printer_of(form: str, *, color: bool, verbose: bool, quiet: bool) -> Callable[[Session], None]:
    """Import what prints a session in a format, and return it."""
    if form == "text":
        from envcheck.render.smoke import print_smoke

        return lambda session: print_smoke(session, color=color, verbose=verbose, quiet=quiet)
    if form == "json":
        from envcheck.render.smoke import render_smoke_json

        return lambda session: click.echo(render_smoke_json(session))
    from envcheck.render.junit import render_smoke_junit

    return lambda session: click.echo(render_smoke_junit(session))


def save_placements(session: Session | None, path: str | None) -> None:
    """Write every operation and where it ran to a file, where one was asked for; before the test, that it can be."""
    if path is None:
        return
    from envcheck.render.smoke import placement_lines

    try:
        with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123 - pathlib for one open is a price
            stream.writelines(f"{line}\n" for line in (placement_lines(session) if session else ()))
    except OSError as error:
        raise UserError(f"--log-placement: cannot write {path}: {error.strerror}") from None


def exit_code(session: Session) -> int:
    """Return what the command exits with."""
    from envcheck.smoke.verdict import verdict_of

    verdict = verdict_of(session)
    return STEP_FAILED if verdict == INCOMPATIBLE else OF_VERDICT[verdict]


class SmokeProgress:
    """Say which check begins where somebody watches, and how each run ended in any case; nothing when quiet."""

    def __init__(self, total: int, while_it_runs: Callable[[], object], *, quiet: bool) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._waiting: list[Callable[[], object]] = [while_it_runs]
        self._watched = sys.stderr.isatty()
        self._lock = threading.Lock()

    def begins(self, job: Job, check: str, device: str) -> None:
        """Say that a check begins."""
        if self._watched:
            self._say(f"{job.title}: {check} {device}".rstrip() + " ...")
        with self._lock:  # once: the process that says this has just begun to import its framework
            work, self._waiting = self._waiting, []
        for each in work:
            each()

    def ends(self, run: Run) -> None:
        """Say how a run ended."""
        self._done += 1
        self._say(f"[{self._done}/{self._total}] {run.job.title}: {run.outcome} ({run.seconds:.1f} s)")

    def _say(self, line: str) -> None:
        if self._quiet:
            return
        with self._lock:  # runs report from threads of their own
            sys.stderr.write(inert(line) + "\n")
            sys.stderr.flush()


_GIB = 1 << 30


@dataclass(frozen=True)
class Inspected:
    """The Python to test, and what is installed for it; its builds are not opened: computing tells more."""

    python: str
    distributions: tuple[Distribution, ...]
    system: str = ""

    @classmethod
    def by(cls, host: Host, python: str, told: Mapping[str, Any]) -> Inspected:
        """Read what a Python told."""
        return cls(python, read_installation(host, told).distributions, host.system)


def gpus_of(host: Host, wanted: SmokeOptions) -> Fact[tuple[Gpu, ...]]:
    """Read the GPUs of this machine, where they matter."""
    return collect_gpus(host) if wanted.expect != "cpu" else Absent(("the CPU was asked for",))


def run(
    wanted: SmokeOptions, inspected: Inspected, gpus: Fact[tuple[Gpu, ...]], while_it_runs: Callable[[], object]
) -> Session:
    """Run every job and redact what came of it."""
    choice = _choice(gpus.value if isinstance(gpus, Known) else (), wanted)
    frameworks = _chosen(installed_frameworks(inspected.distributions), choice, wanted)
    unread = gpus.detail if isinstance(gpus, Unknown) else ""
    titles = tuple(item.title for item in frameworks)
    session = Session(wanted.level, (), choice.left_out, unread, wanted.expect, titles, inspected.system)
    jobs = jobs_of(frameworks, choice.devices, wanted.level, cpu=not wanted.gpus)
    with interrupt_on_signal():  # else what the processes wrote would stay
        session = _run(session, wanted, inspected, jobs, while_it_runs)
    redacted: Session = Redactor.from_environment(os.environ).redact(session)
    return with_findings(redacted)


def with_findings(session: Session, context: Context | None = None) -> Session:
    """Give a session the findings of what failed, with remedies for the machine as far as it is known."""
    found = findings_of(session)
    if not found:
        return session
    from envcheck.remedies import with_remedy
    from envcheck.remedies.situation import Situation

    situation = Situation(context or _unread_machine(session.system))
    told: Session = replace(session, findings=tuple(with_remedy(item, situation) for item in found))
    return told


def _unread_machine(system: str) -> Context:
    from envcheck.matrix.load import load_matrix
    from envcheck.model import Facts, HostFacts, Source
    from envcheck.rules.context import Context

    known = Known(system, Source("command", "envcheck smoke"))
    return Context(Facts(host=HostFacts(os=known)), load_matrix(None))


def _choice(gpus: tuple[Gpu, ...], wanted: SmokeOptions) -> DeviceChoice:
    visible, order = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER", "")
    try:
        return choose_devices(gpus, visible, wanted.gpus, order)
    except DeviceError as error:
        raise UserError(str(error)) from None


def _chosen(installed: tuple[Subject, ...], choice: DeviceChoice, wanted: SmokeOptions) -> tuple[Subject, ...]:
    if not wanted.frameworks:
        return installed or ((Subject(DRIVER),) if choice.devices else ())
    there = {framework.name: framework for framework in (*installed, Subject(DRIVER))}
    missing = [name for name in wanted.frameworks if name not in there]
    if missing:
        has = ", ".join(item.title for item in installed) or "none"
        raise UserError(f"--framework {missing[0]}: not installed in the inspected environment (it holds: {has}).")
    return tuple(there[name] for name in dict.fromkeys(wanted.frameworks))


def _run(
    session: Session,
    wanted: SmokeOptions,
    inspected: Inspected,
    jobs: tuple[Job, ...],
    while_it_runs: Callable[[], object],
) -> Session:
    folder = tempfile.mkdtemp(prefix="envcheck-smoke-")
    keep = False
    try:
        task = _task(wanted, inspected, folder)
        progress = SmokeProgress(len(jobs), while_it_runs, quiet=wanted.quiet)
        runs = []
        for each in run_jobs(task, jobs, progress.begins):
            progress.ends(each)
            runs.append(each)
        done: Session = replace(session, runs=tuple(runs))
        keep = verdict_of(done) != COMPATIBLE
        return done if keep else _without_logs(done)
    finally:
        with suppress(OSError):
            remove_tree(f"{folder}/{TEMPORARY}" if keep else folder)


def _task(wanted: SmokeOptions, inspected: Inspected, folder: str) -> Task:
    memory = None if wanted.memory is None else int(wanted.memory * _GIB)
    return Task(
        python=inspected.python,
        level=wanted.level,
        folder=folder,
        environment=dict(os.environ),
        limits=usual_limits(wanted.level, wanted.seconds, memory),
        paths=hidden_folders(inspected.distributions),
        explain=explain_words,
    )


def _without_logs(session: Session) -> Session:
    without: Session = replace(session, runs=tuple(replace(each, log="") for each in session.runs))
    return without


def run_session(wanted: SmokeOptions, while_it_runs: Callable[[], object] = lambda: None) -> Session:
    """Look at the machine, run every job, and return what came of it with user names and homes taken out.

    `while_it_runs` is called once a framework is being imported: what is needed later can be imported then.
    """
    host = LocalHost()
    asked = _Asked(host, wanted)
    # half of what this command costs: the Python answers meanwhile

    gpus = gpus_of(host, wanted)
    inspected = Inspected.by(host, *_told(asked.answer(), named=bool(wanted.python or wanted.env)))
    return run(wanted, inspected, gpus, while_it_runs)


class _Asked:
    """A question to the Python to test, on its way."""

    def __init__(self, host: LocalHost, wanted: SmokeOptions) -> None:
        self._host, self._selection = host, PythonSelection(python=wanted.python, env=wanted.env)
        self._answers: list[PythonChoice] = []
        self._thread = start_thread(self._ask)

    def _ask(self) -> None:
        self._answers.append(choose_python(self._host, self._selection))

    def answer(self) -> PythonChoice:
        """Wait for the answer."""
        if self._thread is not None:
            self._thread.join()
        if not self._answers:  # its thread died: here the error is seen
            self._ask()
        return self._answers[0]


def _told(chosen: PythonChoice, *, named: bool) -> tuple[str, dict[str, object]]:
    """Return the Python and its answer; UserError where there is none, or one that is too old."""
    told = dict(chosen.answer.value) if isinstance(chosen.answer, Known) else {}
    version = str(told.get("version", ""))
    if not isinstance(chosen.executable, Known) or not version:
        raise UserError(_why_none(chosen, named=named))
    if "distributions" not in told or numbers(version) < (3, 6):
        raise UserError(f"Python {version} is too old: the smoke test runs on Python 3.6 and newer.")
    return chosen.executable.value, told


def _why_none(chosen: PythonChoice, *, named: bool) -> str:
    tried = getattr(chosen.executable, "tried", ())
    detail = getattr(chosen.answer, "detail", "").rstrip(".")
    why = f"no Python to test was found{': ' if detail else ''}{detail}."
    looked = f" Looked at {', '.join(tried)}." if tried else ""
    return f"{why}{looked}{'' if named else ' Name one with --python or --env.'}"


EXAMPLE = "Example: envcheck smoke --env .venv --gpu 0 --level full"


def _finite(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no limit.")
    return value


@click.command(epilog=EXAMPLE)
@options.inspected_python
@click.option(
    "--framework",
    "frameworks",
    multiple=True,
    type=click.Choice((*framework_names(), DRIVER)),
    help="Test this one [what is there].",
)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="N",
    help="Test this GPU, as nvidia-smi numbers it, or by UUID, MIG-... too.",
)
@click.option("--level", type=click.Choice(LEVELS), default="quick", help="How much to compute.")
@click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", help="What must work.")
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(1),
    callback=_finite,
    metavar="SECONDS",
    help="Time limit of each process.",
)
@click.option(
    "--memory",
    type=click.FloatRange(0.01),
    callback=_finite,
    metavar="GIB",
    help="Memory limit of each process [90 % of free].",
)
@click.option("--log-placement", metavar="FILE", help="Write every operation and where it ran to FILE.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the result.")
@options.color
@options.verbosity
def smoke(
    python: str,
    env: str,
    frameworks: tuple[str, ...],
    gpus: tuple[str, ...],
    level: str,
    expect: str,
    seconds: float | None,
    memory: float | None,
    log_placement: str | None,
    form: str,
    color_mode: str,
    verbose: bool,
    quiet: bool,
) -> int:
    """Compute on each GPU and the CPU, each in a process of its own, and say where it ran and whether it is right."""
    style = {"color": options.wants_color(color_mode), "verbose": verbose, "quiet": quiet}
    wanted = SmokeOptions(python, env, frameworks, gpus, level, expect, seconds, memory, quiet)
    save_placements(None, log_placement)  # a path that cannot be written is told before minutes of work, not after
    session = run_session(wanted, lambda: printer_of(form, **style))
    save_placements(session, log_placement)
    printer_of(form, **style)(session)
    return exit_code(session)
