"""Ask every host once through an engine, and keep each answer as it arrives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from envcheck.fleet.collector import build_collector
from envcheck.fleet.results import (
    BROKEN,
    HUNG,
    Asked,
    Failure,
    HostResult,
    Listener,
    answer_of,
    answered,
    has_snapshot,
    write_result,
)
from envcheck.host.process import interrupt_on_signal, run_program
from envcheck.model import Known, Snapshot, Unknown, replace

HOST = "localhost"


def run_local(asked: Asked, listener: Listener) -> None:
    """Run the collector here."""
    hosts = [HOST] if HOST not in asked.skip else []
    listener.heard_of(hosts)
    for host in hosts:
        listener.told(HostResult(host, _ask(asked)))


def _ask(asked: Asked) -> Snapshot | Failure:
    with tempfile.TemporaryDirectory() as folder:
        collector = Path(folder) / "collector"
        collector.write_bytes(build_collector())
        argv = ["/bin/sh", str(collector), *([f"python={asked.python}"] if asked.python else [])]
        done = run_program(argv, float(asked.host_seconds), asked.environment or {})
    if isinstance(done, Known):
        return answer_of(done.value.stdout, done.value.stderr)
    if isinstance(done, Unknown):
        return Failure(HUNG if done.why == "timeout" else BROKEN, done.detail)
    return Failure(BROKEN, "there is no /bin/sh")


def run_fleet(engine: str, asked: Asked, folder: Path, watcher: Listener, *, again: bool = False) -> int:
    """Run an engine into a folder of results; return how many hosts had answered before.

    A snapshot that is there stays when its host, asked again, gives none.
    Raises EngineError, and OSError where the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = frozenset() if again else frozenset(answered(folder))

    def told(result: HostResult) -> None:
        if not isinstance(result.answer, Failure) or not has_snapshot(folder, result.host):
            write_result(folder, result)
        watcher.told(result)

    with interrupt_on_signal():  # what the engine started is ended, and its folder removed
        _engine(engine)(replace(asked, skip=done), replace(watcher, told=told))
    return len(done)


def _engine(name: str) -> Callable[[Asked, Listener], None]:
    if name == "slurm":
        from envcheck.fleet.slurm import run_slurm

        return run_slurm
    if name == "local":
        return run_local
    from envcheck.fleet.ansible import run_ansible

    return run_ansible
