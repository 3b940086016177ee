"""Gather what a smoke test needs, run it, and hand on what came of it: for `smoke` and `doctor --smoke`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from envcheck.cli.exits import UserError
from envcheck.cli.smoke_causes import explain_words
from envcheck.cli.smoke_progress import SmokeProgress
from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Unknown
from envcheck.model.findings import COMPATIBLE
from envcheck.model.machine import Gpu
from envcheck.model.python_env import Distribution
from envcheck.model.records import dataclass, replaced
from envcheck.smoke.devices import Choice, DeviceError, choose_devices
from envcheck.smoke.environment import NAMES, hidden_folders, installed_frameworks
from envcheck.smoke.protocol import LEVELS
from envcheck.smoke.runner import Task, jobs_of, run_jobs, usual_limits
from envcheck.smoke.runs import Framework, Session
from envcheck.smoke.verdict import verdict_of

__all__ = ["FORMATS", "LEVELS", "NAMES", "SmokeOptions", "print_session", "run_session", "save_placements"]

FORMATS = ("text", "json", "junit")
_GIB = 1 << 30


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


@dataclass(frozen=True)
class Inspected:
    """The Python to test, and what is installed for it."""

    python: str
    distributions: tuple[Distribution, ...]


def run_session(wanted: SmokeOptions) -> Session:
    """Look at the machine, run every job, and return what came of it with user names and homes taken out."""
    from envcheck.host.local import LocalHost
    from envcheck.probes.gpu import collect_gpus
    from envcheck.probes.redact import Redactor

    host = LocalHost()
    python = _inspected(host, wanted)
    gpus: Fact[tuple[Gpu, ...]] = collect_gpus(host) if wanted.expect != "cpu" else Absent(("the CPU was asked for",))
    choice = _choice(gpus.value if isinstance(gpus, Known) else (), wanted)
    frameworks = _chosen(_frameworks(python.distributions), choice, wanted)
    unread = gpus.detail if isinstance(gpus, Unknown) else ""
    session = Session(wanted.level, (), choice.left_out, unread, wanted.expect)
    session = _run(session, wanted, python, frameworks, choice)
    redacted: Session = Redactor.of(os.environ).value(session)
    return redacted


def _inspected(host: Host, wanted: SmokeOptions) -> Inspected:
    """Ask the Python what it is and holds; its builds are not opened: computing tells more."""
    from envcheck.probes.python_choice import PythonSelection, choose_python
    from envcheck.probes.python_installed import read_installed

    chosen = choose_python(host, PythonSelection(python=wanted.python, env=wanted.env))
    told = chosen.answer.value if isinstance(chosen.answer, Known) else {}
    version = str(told.get("version", ""))
    if not isinstance(chosen.executable, Known) or not version:
        why = getattr(chosen.answer, "detail", "") or "name one with --python or --env"
        raise UserError(f"no Python to test was found: {why}. {_tried(chosen.executable)}".rstrip())
    if "distributions" not in told or tuple(map(int, version.split(".")[:2])) < (3, 6):
        raise UserError(f"Python {version} is too old: the smoke test runs on Python 3.6 and newer.")
    return Inspected(chosen.executable.value, read_installed(host, told).distributions)


def _tried(fact: object) -> str:
    tried = getattr(fact, "tried", ())
    return f"Looked at {', '.join(tried)}." if tried else ""


def _frameworks(distributions: tuple[Distribution, ...]) -> tuple[Framework, ...]:
    from envcheck.probes.cuda_data import cuda_data

    named = {name: cuda_data()[name]["distributions"] for name in NAMES if name in cuda_data()}
    return installed_frameworks(distributions, named)


def _choice(gpus: tuple[Gpu, ...], wanted: SmokeOptions) -> Choice:
    visible, order = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER", "")
    try:
        return choose_devices(gpus, visible, wanted.gpus, order)
    except DeviceError as error:
        raise UserError(str(error)) from None


def _chosen(installed: tuple[Framework, ...], choice: Choice, wanted: SmokeOptions) -> tuple[Framework, ...]:
    if not wanted.frameworks:
        return installed or ((Framework("driver"),) if choice.devices else ())
    there = {framework.name: framework for framework in (*installed, Framework("driver"))}
    missing = [name for name in wanted.frameworks if name not in there]
    if missing:
        has = ", ".join(item.title for item in installed) or "none"
        raise UserError(f"--framework {missing[0]}: not installed in the inspected environment (it holds: {has}).")
    return tuple(there[name] for name in dict.fromkeys(wanted.frameworks))


def _run(
    session: Session, wanted: SmokeOptions, inspected: Inspected, frameworks: tuple[Framework, ...], choice: Choice
) -> Session:
    memory = None if wanted.memory is None else int(wanted.memory * _GIB)
    folder = tempfile.mkdtemp(prefix="envcheck-smoke-")
    task = Task(
        python=inspected.python,
        level=wanted.level,
        folder=folder,
        environment=dict(os.environ),
        limits=usual_limits(wanted.level, wanted.seconds, memory),
        paths=hidden_folders(inspected.distributions),
        explain=explain_words,
    )
    jobs = jobs_of(frameworks, choice.devices, wanted.level, cpu=not wanted.gpus)
    progress = SmokeProgress(len(jobs), quiet=wanted.quiet)
    runs = []
    for run in run_jobs(task, jobs, progress.begins):
        progress.ends(run)
        runs.append(run)
    done: Session = replaced(session, runs=tuple(runs))
    return done if verdict_of(done) != COMPATIBLE else _without_logs(done, Path(folder))


def _without_logs(session: Session, folder: Path) -> Session:
    """Delete the logs of a test that passed: nobody reads them."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    without: Session = replaced(session, runs=tuple(replaced(run, log="") for run in session.runs))
    return without


def save_placements(session: Session, path: str | None) -> None:
    """Write every operation and where it ran to a file, where one was asked for."""
    if path is None:
        return
    from envcheck.render.smoke_text import placement_lines

    try:
        Path(path).write_text("".join(f"{line}\n" for line in placement_lines(session)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"--log-placement: cannot write {path}: {error.strerror}") from None


def print_session(session: Session, form: str, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print a session in the format asked for."""
    if form == "text":
        from envcheck.render.smoke_text import print_smoke

        print_smoke(session, color=color, verbose=verbose, quiet=quiet)
    elif form == "json":
        from envcheck.render.smoke_json import render_smoke_json

        click.echo(render_smoke_json(session))
    else:
        from envcheck.render.smoke_junit import render_smoke_junit

        click.echo(render_smoke_junit(session))
