"""A smoke test of this machine: what is tested on which devices, each in its own process."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from envcheck.frameworks.packages import read_installation
from envcheck.host.file_changes import remove_tree
from envcheck.host.local import LocalHost
from envcheck.host.paths import type_path
from envcheck.host.process import interrupt_on_signal, start_thread
from envcheck.host.protocol import Host
from envcheck.model import (
    COMPATIBLE,
    Absent,
    Distribution,
    Fact,
    Gpu,
    Snapshot,
    Unknown,
    UserError,
    dataclass,
    numbers,
    replace,
)
from envcheck.model.quoting import quote
from envcheck.probes.collection import Redactor
from envcheck.probes.environment_choice import PythonChoice, PythonSelection, choose_python
from envcheck.probes.gpus import collect_gpus
from envcheck.smoke.devices import DeviceChoice, DeviceError, choose_devices
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
    from envcheck.proof.causes import CauseFinder
    from envcheck.rules import Context

_GIB = 1 << 30


@dataclass
class SmokeRequest:
    """What is to be tested."""

    python: str = ""
    env: str = ""
    frameworks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    level: str = "quick"
    expect: str = "auto"
    seconds: float | None = None
    memory: float | None = None  # GiB


class Watch:
    """Hears how a test goes on, from several threads; this one says nothing."""

    def counts(self, total: int) -> None:
        """Hear how many runs there will be."""

    def begins(self, job: Job, check: str, device: str) -> None:
        """Hear that a check begins."""

    def ends(self, run: Run) -> None:
        """Hear how a run ended."""

    def close(self) -> None:
        """Hear that the test is over."""


@dataclass
class Inspected:
    """The Python to test, and what is installed for it.

    Builds are not opened, as computing tells more.
    """

    python: str
    distributions: tuple[Distribution, ...]
    system: str = ""
    untestable: str = ""  # why no framework can be tested in it


def run_session(
    wanted: SmokeRequest,
    read: Callable[[str], Snapshot],
    watch: Watch,
    *,
    asks: bool = False,
    context: Context | None = None,
) -> Session:
    """Inspect the machine, run every job, and return the results without user names and homes.

    `context` is this machine where it has been read; without it `read` reads it with the tested
    Python, once something fails, and a Python that is named and cannot be tested is a UserError.
    `asks`: the Python that runs this program is meant.
    """
    host = LocalHost()
    # half of the time until the first run: read the GPUs meanwhile
    answer = _PythonAnswer(host, PythonSelection(wanted.python, wanted.env, asks=asks))
    gpus = _read_gpus(host, wanted)
    inspected = _inspect(host, answer.wait(), named=bool(wanted.python or wanted.env))
    is_named = wanted.python or wanted.env or wanted.frameworks
    if inspected.untestable and context is None and is_named:
        raise UserError(inspected.untestable)

    @functools.cache
    def causes() -> CauseFinder:
        # a test that passes explains nothing: 25 ms
        from envcheck.proof.causes import CauseFinder, read_context

        return CauseFinder(
            context or read_context(read, inspected.python, wanted.expect, inspected.system)
        )

    return _run(wanted, inspected, gpus, causes, watch)


class _PythonAnswer:
    """The answer of the Python to test, read in a thread."""

    def __init__(self, host: LocalHost, selection: PythonSelection) -> None:
        self._host, self._selection = host, selection
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


def _read_gpus(host: Host, wanted: SmokeRequest) -> Fact[tuple[Gpu, ...]]:
    """Read the GPUs of this machine unless only the CPU was asked for."""
    if wanted.expect != "cpu":
        return collect_gpus(host)
    return Absent(("the CPU was asked for",))


def _run(
    wanted: SmokeRequest,
    inspected: Inspected,
    gpus: Fact[tuple[Gpu, ...]],
    causes: Callable[[], CauseFinder],
    watch: Watch,
) -> Session:
    """Run every job and redact the results; `causes` explains what failed."""
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
    with interrupt_on_signal():  # else the files of the processes would stay
        task = _make_task(
            wanted, inspected, lambda words, log, on_gpu: causes().find(words, log, on_gpu=on_gpu)
        )
        watch.counts(len(jobs))
        try:
            session = _run_jobs(session, task, jobs, watch)
        finally:
            watch.close()
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


def _choose_devices(gpus: tuple[Gpu, ...], wanted: SmokeRequest) -> DeviceChoice:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    order = os.environ.get("CUDA_DEVICE_ORDER", "")
    try:
        return choose_devices(gpus, visible, wanted.gpus, order)
    except DeviceError as error:
        raise UserError(str(error)) from None


def _choose_frameworks(
    installed: tuple[Subject, ...], choice: DeviceChoice, wanted: SmokeRequest
) -> tuple[Subject, ...]:
    if not wanted.frameworks:
        # it alone measures copies, with or without a framework
        is_asked = not installed or wanted.level == "bench"
        return (*installed, Subject(DRIVER)) if choice.devices and is_asked else installed
    known = {subject.name: subject for subject in (*installed, Subject(DRIVER))}
    missing = [name for name in wanted.frameworks if name not in known]
    if missing:
        has = ", ".join(item.title for item in installed) or "none"
        raise UserError(
            f"--framework {missing[0]}:"
            f" not installed in the inspected environment (it holds: {has})."
        )
    return tuple(known[name] for name in dict.fromkeys(wanted.frameworks))


def _run_jobs(session: Session, task: Task, jobs: tuple[Job, ...], watch: Watch) -> Session:
    folder = tempfile.mkdtemp(prefix="envcheck-smoke-")
    keep = False
    try:
        runs = []
        for each in run_jobs(replace(task, folder=folder), jobs, watch.begins):
            watch.ends(each)
            runs.append(each)
        done: Session = replace(session, runs=tuple(runs))
        keep = bool(runs) and verdict_of(done) != COMPATIBLE
        return done if keep else _without_logs(done)
    finally:
        with suppress(OSError):
            remove_tree(f"{folder}/{TEMPORARY}" if keep else folder)


def _make_task(wanted: SmokeRequest, inspected: Inspected, explain: Explain) -> Task:
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
