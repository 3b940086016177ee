"""Ask every host once and keep each answer as it comes; a further run asks only those that have not answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from envcheck.fleet.engine import Asked, Listener
from envcheck.fleet.results import Failure, HostResult, answered, has_snapshot, write_result
from envcheck.host.ending import interrupted_when_told


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

    with interrupted_when_told():  # what the engine started is ended, and its folder removed
        _engine(engine)(replace(asked, skip=done), replace(watcher, told=told))
    return len(done)


def _engine(name: str) -> Callable[[Asked, Listener], None]:
    if name == "slurm":
        from envcheck.fleet.slurm import run_slurm

        return run_slurm
    if name == "local":
        from envcheck.fleet.local import run_local

        return run_local
    from envcheck.fleet.ansible import run_ansible

    return run_ansible
