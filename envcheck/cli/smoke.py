"""`envcheck smoke`: compute something small on each device and check the result."""

from __future__ import annotations

import functools
import math
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError
from envcheck.frameworks import identities
from envcheck.frameworks.packages import read_installation
from envcheck.host.file_changes import remove_tree
from envcheck.host.local import LocalHost
from envcheck.host.paths import type_path
from envcheck.host.process import interrupt_on_signal, start_thread
from envcheck.host.protocol import Host
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    Absent,
    Distribution,
    Fact,
    Gpu,
    Unknown,
    dataclass,
    numbers,
    replace,
)
from envcheck.model.quoting import quote
from envcheck.probes.collection import Redactor
from envcheck.probes.environment_choice import PythonChoice, PythonSelection, choose_python
from envcheck.probes.gpus import collect_gpus
from envcheck.render.formats import FORMATS
from envcheck.smoke.devices import DeviceChoice, DeviceError, choose_devices
from envcheck.smoke.events import LEVELS
from envcheck.smoke.findings import Explain, verdict_of
from envcheck.smoke.runner import TEMPORARY, Task, default_limits, list_jobs, run_jobs
from envcheck.smoke.session import (
    DRIVER,
    Job,
    Run,
    Session,
    Subject,
    hidden_folders,
    installed_frameworks,
)

if TYPE_CHECKING:
    from envcheck.cli.smoke_causes import CauseFinder
    from envcheck.rules import Context


@dataclass
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


def _load_printer(printing: common.Printing) -> Callable[[Session], None]:
    """Import what prints a session in a format, and return it."""
    from envcheck.cli.report import print_answer  # imported while the framework is being imported
    from envcheck.render.smoke import describe_session, render_smoke_json

    def show(session: Session) -> None:
        print_answer(
            printing,
            functools.partial(describe_session, session),
            functools.partial(render_smoke_json, session),
        )

    return show


def _check_writable(path: str) -> None:
    """Raise UserError for a file that cannot be written, before minutes of work.

    What is in it stays.
    """
    is_new = not os.path.lexists(path)
    try:
        with open(path, "a", encoding="utf-8"):  # noqa: PTH123 - pathlib is slow to import
            pass
        if is_new:
            os.remove(path)  # noqa: PTH107
    except OSError as error:
        raise UserError(f"--log-placement: cannot write {path}: {error.strerror}") from None


def _save_placements(path: str, session: Session) -> None:
    """Write every operation of a session and where it ran to a file, whole or not at all."""
    from envcheck.render.smoke import placement_lines  # few runs ask for it

    common.write_file(path, "".join(f"{line}\n" for line in placement_lines(session)))


class SmokeProgress:
    """Reports how each run ended, and on a terminal which check runs; nothing with -q."""

    def __init__(self, total: int, while_it_runs: Callable[[], object], *, quiet: bool) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._waiting: list[Callable[[], object]] = [while_it_runs]
        self._line = common.ProgressLine(quiet=quiet, total=total)
        self._lock = threading.Lock()  # runs report from threads of their own

    def begins(self, job: Job, check: str, device: str) -> None:
        """Report that a check begins."""
        self._line.show(
            f"{job.title}: {job.device.rename_gpus(f'{check} {device}')}".rstrip(), self._done
        )
        with self._lock:  # once: the process has just begun to import its framework
            work, self._waiting = self._waiting, []
        for each in work:
            each()

    def ends(self, run: Run) -> None:
        """Report how a run ended."""
        with self._lock:
            self._done += 1
        if not self._quiet:
            self._line.print(
                f"[{self._done}/{self._total}] {run.job.title}: {run.outcome} ({run.seconds:.1f} s)"
            )

    def close(self) -> None:
        """Remove what shows which check runs."""
        self._line.close()


_GIB = 1 << 30


@dataclass
class Inspected:
    """The Python to test, and what is installed for it.

    Builds are not opened, as computing tells more.
    """

    python: str
    distributions: tuple[Distribution, ...]
    system: str = ""
    untestable: str = ""  # why no framework can be tested in it


def _read_gpus(host: Host, wanted: SmokeOptions) -> Fact[tuple[Gpu, ...]]:
    """Read the GPUs of this machine unless only the CPU was asked for."""
    if wanted.expect != "cpu":
        return collect_gpus(host)
    return Absent(("the CPU was asked for",))


def run(
    wanted: SmokeOptions,
    inspected: Inspected,
    gpus: Fact[tuple[Gpu, ...]],
    while_it_runs: Callable[[], object],
    context: Context | None,
) -> Session:
    """Run every job and redact the results.

    What failed is explained by `context`, which is read where it is None.
    """
    choice = _choose_devices(gpus.value or (), wanted)
    frameworks = _choose_frameworks(installed_frameworks(inspected.distributions), choice, wanted)
    unread = gpus.detail if isinstance(gpus, Unknown) else ""
    titles = tuple(item.title if item.framework else f"the {item.title}" for item in frameworks)
    session = Session(
        level=wanted.level,
        runs=(),
        left_out=choice.left_out,
        gpus_unread=unread,
        expect=wanted.expect,
        frameworks=titles,
        untestable=inspected.untestable,
        system=inspected.system,
    )
    jobs = list_jobs(frameworks, choice.devices, wanted.level, cpu=not wanted.gpus)

    @functools.cache
    def causes() -> CauseFinder:
        # a test that passes explains nothing: 25 ms
        from envcheck.cli.smoke_causes import CauseFinder, read_context

        return CauseFinder(
            context or read_context(inspected.python, wanted.expect, inspected.system)
        )

    with interrupt_on_signal():  # else the files of the processes would stay
        task = _make_task(
            wanted, inspected, lambda words, log, on_gpu: causes().find(words, log, on_gpu=on_gpu)
        )
        progress = SmokeProgress(len(jobs), while_it_runs, quiet=wanted.quiet)
        try:
            session = _run(session, task, jobs, progress)
        finally:
            progress.close()
    redacted = _quote_runs(Redactor.from_environment(os.environ).redact(session))
    if any(each.bad for each in redacted.runs):
        return causes().with_findings(redacted)
    return redacted


def _quote_runs(session: Session) -> Session:
    """Keep of a framework's words what may be shown: their cause is known by now."""
    runs = []
    for each in session.runs:
        results = []
        for result in each.results:
            error, message = quote(result.error), quote(result.message)
            results.append(replace(result, error=error, message=message))
        runs.append(replace(each, results=tuple(results)))
    return replace(session, runs=tuple(runs))


def _choose_devices(gpus: tuple[Gpu, ...], wanted: SmokeOptions) -> DeviceChoice:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    order = os.environ.get("CUDA_DEVICE_ORDER", "")
    try:
        return choose_devices(gpus, visible, wanted.gpus, order)
    except DeviceError as error:
        raise UserError(str(error)) from None


def _choose_frameworks(
    installed: tuple[Subject, ...], choice: DeviceChoice, wanted: SmokeOptions
) -> tuple[Subject, ...]:
    if not wanted.frameworks:
        return installed or ((Subject(DRIVER),) if choice.devices else ())
    known = {subject.name: subject for subject in (*installed, Subject(DRIVER))}
    missing = [name for name in wanted.frameworks if name not in known]
    if missing:
        has = ", ".join(item.title for item in installed) or "none"
        raise UserError(
            f"--framework {missing[0]}:"
            f" not installed in the inspected environment (it holds: {has})."
        )
    return tuple(known[name] for name in dict.fromkeys(wanted.frameworks))


def _run(session: Session, task: Task, jobs: tuple[Job, ...], progress: SmokeProgress) -> Session:
    folder = tempfile.mkdtemp(prefix="envcheck-smoke-")
    keep = False
    try:
        runs = []
        for each in run_jobs(replace(task, folder=folder), jobs, progress.begins):
            progress.ends(each)
            runs.append(each)
        done: Session = replace(session, runs=tuple(runs))
        keep = bool(runs) and verdict_of(done) != COMPATIBLE
        return done if keep else _without_logs(done)
    finally:
        with suppress(OSError):
            remove_tree(f"{folder}/{TEMPORARY}" if keep else folder)


def _make_task(wanted: SmokeOptions, inspected: Inspected, explain: Explain) -> Task:
    memory = None if wanted.memory is None else int(wanted.memory * _GIB)
    return Task(
        python=inspected.python,
        level=wanted.level,
        folder="",
        environment=dict(os.environ),
        limits=default_limits(wanted.level, wanted.seconds, memory),
        paths=hidden_folders(inspected.distributions),
        explain=explain,
    )


def _without_logs(session: Session) -> Session:
    return replace(session, runs=tuple(replace(each, log="") for each in session.runs))


def run_session(
    wanted: SmokeOptions,
    while_it_runs: Callable[[], object] = lambda: None,
    context: Context | None = None,
) -> Session:
    """Inspect the machine, run every job, and return the results without user names and homes.

    Calls `while_it_runs` once a framework is being imported: what is needed later can be imported
    then. `context` is this machine where it has been read; without it a Python that is named and
    cannot be tested is a UserError.
    """
    host = LocalHost()
    answer = _PythonAnswer(host, wanted)  # half of this command's time: read the GPUs meanwhile
    gpus = _read_gpus(host, wanted)
    inspected = _inspect(host, answer.wait(), named=bool(wanted.python or wanted.env))
    if (
        inspected.untestable
        and context is None
        and (wanted.python or wanted.env or wanted.frameworks)
    ):
        raise UserError(inspected.untestable)
    return run(wanted, inspected, gpus, while_it_runs, context)


class _PythonAnswer:
    """The answer of the Python to test, read in a thread."""

    def __init__(self, host: LocalHost, wanted: SmokeOptions) -> None:
        self._host = host
        self._selection = PythonSelection(
            wanted.python, wanted.env, asks=api.is_about_this_python()
        )
        self._answers: list[PythonChoice] = []
        self._thread = start_thread(self._ask)

    def _ask(self) -> None:
        self._answers.append(choose_python(self._host, self._selection))

    def wait(self) -> PythonChoice:
        """Wait for the answer."""
        if self._thread is not None:
            self._thread.join()
        if not self._answers:  # the thread died: raise its error here
            self._ask()
        return self._answers[0]


def _inspect(host: Host, chosen: PythonChoice, *, named: bool) -> Inspected:
    """Return the Python to test.

    Where no framework can be tested in it, our own, which serves for the driver.
    """
    answer = dict(chosen.answer.value or {})
    if chosen.is_found:
        folder = type_path(str(answer.get("prefix", "")))
        reason = f"{folder} was found here, and nobody named it: envcheck smoke --env {folder}"
        return Inspected(sys.executable, (), host.system, reason)
    version = str(answer.get("version", ""))
    if chosen.executable.value is None or not version:
        return Inspected(
            sys.executable, (), host.system, _describe_missing_python(chosen, named=named)
        )
    if "distributions" not in answer or numbers(version) < (3, 6):
        reason = f"Python {version} is too old: the smoke test runs on Python 3.6 and newer."
        return Inspected(sys.executable, (), host.system, reason)
    return Inspected(
        chosen.executable.value, read_installation(host, answer).distributions, host.system
    )


def _describe_missing_python(chosen: PythonChoice, *, named: bool) -> str:
    tried = getattr(chosen.executable, "tried", ())
    detail = getattr(chosen.answer, "detail", "").rstrip(".")
    why = f"no Python to test was found{': ' if detail else ''}{detail}."
    looked = f" Looked at {', '.join(tried)}." if tried else ""
    return f"{why}{looked}{'' if named else ' Name one with --python or --env.'}"


EXAMPLE = "Example: envcheck smoke --env .venv --gpu 0 --level full"


def _check_finite(
    _context: click.Context, _option: click.Parameter, value: float | None
) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no limit.")
    return value


@click.command(epilog=EXAMPLE)
@common.inspected_python
@click.option(
    "--framework",
    "frameworks",
    multiple=True,
    type=click.Choice((*(item.name for item in identities() if item.smoke.has_test), DRIVER)),
    help="Test this framework [all that are installed].",
)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="N",
    help="Test the GPU or MIG instance with this number of nvidia-smi or this UUID.",
)
@click.option("--level", type=click.Choice(LEVELS), default="quick", help="How much to compute.")
@common.expectation()
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(1),
    callback=_check_finite,
    metavar="SECONDS",
    help="Time limit of each process.",
)
@click.option(
    "--memory",
    type=click.FloatRange(0.01),
    callback=_check_finite,
    metavar="GIB",
    help="Memory limit of each process [90 % of free].",
)
@click.option(
    "--log-placement", metavar="FILE", help="Write every operation and where it ran to FILE."
)
@common.printing("text", "json", *FORMATS[1:])
def smoke(log_placement: str | None, printing: common.Printing, **asked: Any) -> int:
    """Compute on each GPU and the CPU, each in its own process.

    Report where it ran and whether it is correct.
    """
    wanted = SmokeOptions(quiet=printing.quiet, **asked)
    if log_placement is not None:
        _check_writable(log_placement)
    session = run_session(wanted, lambda: _load_printer(printing))
    if log_placement is not None:
        _save_placements(log_placement, session)
    _load_printer(printing)(session)
    verdict = verdict_of(session)
    return STEP_FAILED if verdict == INCOMPATIBLE else OF_VERDICT[verdict]
