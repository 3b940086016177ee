"""Choose the devices and frameworks of a smoke test and run it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from envcheck.cli.exits import UserError
from envcheck.cli.smoke_causes import explain_words
from envcheck.cli.smoke_options import SmokeOptions
from envcheck.cli.smoke_progress import SmokeProgress
from envcheck.host.file_changes import remove_tree
from envcheck.host.process import interrupted_when_told
from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Unknown
from envcheck.model.findings import COMPATIBLE
from envcheck.model.machine import Distribution, Gpu
from envcheck.model.records import dataclass, replaced
from envcheck.probes.collection import Redactor
from envcheck.probes.cuda_libraries import cuda_data
from envcheck.probes.gpus import collect_gpus
from envcheck.probes.packages import read_installed
from envcheck.smoke.devices import (
    Choice,
    DeviceError,
    Framework,
    Job,
    Session,
    choose_devices,
    hidden_folders,
    installed_frameworks,
)
from envcheck.smoke.protocol import FRAMEWORKS
from envcheck.smoke.runner import TEMPORARY, Task, jobs_of, run_jobs, usual_limits
from envcheck.smoke.verdict import verdict_of

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
        return cls(python, read_installed(host, told).distributions, host.system)


def gpus_of(host: Host, wanted: SmokeOptions) -> Fact[tuple[Gpu, ...]]:
    """Read the GPUs of this machine, where they matter."""
    return collect_gpus(host) if wanted.expect != "cpu" else Absent(("the CPU was asked for",))


def run(
    wanted: SmokeOptions, inspected: Inspected, gpus: Fact[tuple[Gpu, ...]], while_it_runs: Callable[[], object]
) -> Session:
    """Run every job and redact what came of it."""
    choice = _choice(gpus.value if isinstance(gpus, Known) else (), wanted)
    frameworks = _chosen(_frameworks(inspected.distributions), choice, wanted)
    unread = gpus.detail if isinstance(gpus, Unknown) else ""
    titles = tuple(item.title for item in frameworks)
    session = Session(wanted.level, (), choice.left_out, unread, wanted.expect, titles, inspected.system)
    jobs = jobs_of(frameworks, choice.devices, wanted.level, cpu=not wanted.gpus)
    with interrupted_when_told():  # else what the processes wrote would stay
        session = _run(session, wanted, inspected, jobs, while_it_runs)
    redacted: Session = Redactor.of(os.environ).value(session)
    return redacted


def _frameworks(distributions: tuple[Distribution, ...]) -> tuple[Framework, ...]:
    named = {name: cuda_data()[name]["distributions"] for name in FRAMEWORKS if name in cuda_data()}
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
        done: Session = replaced(session, runs=tuple(runs))
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
    without: Session = replaced(session, runs=tuple(replaced(each, log="") for each in session.runs))
    return without
