"""Run the collector on every host through an engine, and save each answer when it arrives."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envcheck.fleet.ansible import run_ansible
from envcheck.fleet.collector import written_collector
from envcheck.fleet.kubernetes import run_kubernetes
from envcheck.fleet.results import (
    BROKEN,
    HISTORY,
    HUNG,
    EngineError,
    Failure,
    FleetListener,
    FleetRequest,
    HostResult,
    find_answer,
    get_saved_name,
    list_answered_hosts,
    list_timeouts,
    write_result,
)
from envcheck.fleet.slurm import run_slurm
from envcheck.host import plugins
from envcheck.host.process import interrupt_on_signal, run_program
from envcheck.model import Known, Snapshot, Unknown, UserError, replace
from envcheck.model.quoting import quote

HOST = "localhost"
_FEWER = 4  # times fewer hosts are asked at a time where they took too long


def run_fleet(
    engine: str,
    request: FleetRequest,
    folder: Path,
    listener: FleetListener,
    *,
    again: bool = False,
) -> int:
    """Run an engine and save its results in a folder; return how many hosts had answered before.

    A host whose snapshot has timeouts is asked once more at the end, when fewer hosts are, and by
    the next run, which asks those that the last report could not judge, too. One that fails keeps
    its earlier snapshot. Raises EngineError, and OSError where
    the folder is not writable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answered = frozenset[str]()
    if not again:
        answered = frozenset(list_answered_hosts(folder) - _list_undetermined(folder))
    asked, late = set[str](), set[str]()

    def start(hosts: list[str]) -> None:
        asked.update(map(get_saved_name, hosts))
        listener.on_hosts(hosts)

    def save(result: HostResult) -> None:
        result = _quote_reason(result)
        name, answer = get_saved_name(result.host), result.answer
        if isinstance(answer, Snapshot) or name not in late:
            write_result(folder, result)
        if isinstance(answer, Snapshot) and list_timeouts(answer):
            late.add(name)
        listener.on_result(result)

    own = replace(listener, on_hosts=start, on_result=save)
    with interrupt_on_signal():  # the engine then ends its programs and removes its folder
        ENGINES[engine](replace(request, skip=answered), own)
        if late:
            forks = max(1, min(request.forks, len(late)) // _FEWER)
            ENGINES[engine](
                replace(request, skip=frozenset(answered | asked - late), forks=forks), own
            )
    return len(answered)


def _quote_reason(result: HostResult) -> HostResult:
    """Quote what a host or an engine printed: of hosts, the row's own name alone is shown."""
    answer = result.answer
    if isinstance(answer, Snapshot):
        return result
    parts = re.split(rf"\b({re.escape(result.host)})\b", answer.reason)
    parts[::2] = map(quote, parts[::2])
    return HostResult(result.host, Failure(answer.kind, "".join(parts)))


def _list_undetermined(folder: Path) -> set[str]:
    """Name the hosts that answered, and that the last report could not judge all the same."""
    try:
        from envcheck.fleet.history import HistoryError, list_undetermined
    except ImportError:  # a Python without sqlite3
        return set()
    try:
        return list_undetermined(folder / HISTORY)
    except HistoryError:  # the report says so
        return set()


def run_local(request: FleetRequest, listener: FleetListener) -> None:
    """Run the collector on this machine."""
    hosts = [HOST] if HOST not in request.skip else []
    listener.on_hosts(hosts)
    for host in hosts:
        listener.on_result(HostResult(host, _query(request)))


def _query(request: FleetRequest) -> Snapshot | Failure:
    with written_collector() as collector:
        argv = ["/bin/sh", str(collector), *request.collector_arguments]
        done = run_program(argv, float(request.host_seconds), request.environment or {})
    if isinstance(done, Known):
        return find_answer(done.value.stdout, done.value.stderr)
    if isinstance(done, Unknown):
        return Failure(HUNG if done.why == "timeout" else BROKEN, done.detail)
    return Failure(BROKEN, "/bin/sh does not exist")


_BUILT_IN = {
    "ansible": run_ansible,
    "slurm": run_slurm,
    "kubernetes": run_kubernetes,
    "local": run_local,
}


def _accept_engine(name: str, run: Any) -> Callable[[FleetRequest, FleetListener], None]:
    if not callable(run):
        raise plugins.PluginError("it is no function of a request and a listener")

    def run_guarded(request: FleetRequest, listener: FleetListener) -> None:
        try:
            plugins.call(lambda: run(request, listener))
        except (OSError, UserError):
            raise
        except Exception as error:
            raise EngineError(
                f"the plugin of --engine {name} failed: {type(error).__name__}: {error}"
            ) from error

    return run_guarded


ENGINES: dict[str, Callable[[FleetRequest, FleetListener], None]] = {
    **_BUILT_IN,
    **plugins.load_plugins(plugins.FLEET_ENGINES, set(_BUILT_IN), _accept_engine),
}
