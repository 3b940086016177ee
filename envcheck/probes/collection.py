"""Run every probe and make one snapshot of their facts."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Collection, Dict, Mapping, Tuple

from envcheck import __version__
from envcheck.host.protocol import Host, UnrecordedError
from envcheck.host.threads import start_thread
from envcheck.model.facts import Unknown
from envcheck.model.snapshot import SCHEMA_VERSION, Facts, Snapshot
from envcheck.probes.driver import collect_driver
from envcheck.probes.gpu import collect_gpus
from envcheck.probes.host_info import collect_host
from envcheck.probes.overrides import apply_overrides
from envcheck.probes.python_env import PythonSelection, collect_python
from envcheck.probes.redact import Redactor
from envcheck.probes.sections import unknown_section

__all__ = ["PROBES", "PythonSelection", "collect"]

Probe = Callable[[Host, PythonSelection], Any]


# What a plan for the CPU leaves out is not imported for it either.
def _toolkits(host: Host, _: PythonSelection) -> Any:
    from envcheck.probes.toolkit import collect_toolkits

    return collect_toolkits(host)


def _compilers(host: Host, _: PythonSelection) -> Any:
    from envcheck.probes.compiler import collect_compilers

    return collect_compilers(host)


def _libraries(host: Host, _: PythonSelection) -> Any:
    from envcheck.probes.cuda_libraries import collect_libraries

    return collect_libraries(host)


# Section of the snapshot -> how to read it. The cuDNN probe reads three sections at once.
PROBES: Dict[str, Probe] = {
    "python": collect_python,
    "toolkits": _toolkits,
    "compilers": _compilers,
    "driver": lambda host, _: collect_driver(host),
    "gpus": lambda host, _: collect_gpus(host),
    "cudnn tensorrt nccl": _libraries,
    "host": lambda host, _: collect_host(host),
}

_OWN_CHOICE = PythonSelection()  # the active environment, or what runs this program
_PATIENCE = 0.015  # seconds until the next probe is started beside one that waits
_LIMIT = 4.5  # seconds for all probes; one that still reads then (a dead network mount) is given up


def collect(host: Host, selection: PythonSelection = _OWN_CHOICE, without: Collection[str] = ()) -> Snapshot:
    """Read every fact of a machine, all probes at once, and redact them before anything else sees them.

    The probes named in `without` are left out: what they would read is not stated.
    """
    probes = {names: probe for names, probe in PROBES.items() if names not in without}
    sections = _run_probes(probes, host, selection)
    facts = apply_overrides(Facts(**sections), host.environment())
    redactor = Redactor.of(host.environment())
    name = str(host.system_facts().get("node", ""))
    taken_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Snapshot(SCHEMA_VERSION, __version__, redactor.text(name), taken_at, redactor.value(facts))


def _run_probes(probes: Mapping[str, Probe], host: Host, selection: PythonSelection) -> Dict[str, Any]:
    """Run the probes one after the other; while one waits for a program or a dead mount, others go on beside it.

    A thread for each from the start takes twice as long where nothing waits: they fight for the interpreter.
    """
    results: Dict[str, Any] = {}
    waiting = list(reversed(list(probes.items())))
    finished = threading.Event()

    def work() -> None:
        while True:
            try:
                names, probe = waiting.pop()
            except IndexError:  # another thread took the last one
                break
            _run_probe(probe, host, selection, results, names)
        if len(results) == len(probes):
            finished.set()

    deadline = time.monotonic() + _LIMIT
    while waiting and time.monotonic() < deadline and not finished.is_set():
        start_thread(work)
        finished.wait(_PATIENCE)
    finished.wait(max(0.0, deadline - time.monotonic()))
    return _sections(probes, dict(results))


def _run_probe(probe: Probe, host: Host, selection: PythonSelection, results: Dict[str, Any], names: str) -> None:
    # The guard of the whole tool: a probe that crashes must not take the report with it.
    try:
        results[names] = probe(host, selection)
    except UnrecordedError as error:
        results[names] = error
    except Exception as error:  # noqa: BLE001 - becomes a fact that the report shows
        results[names] = Unknown("crashed", f"the {names} probe failed: {type(error).__name__}: {error}")


def _sections(probes: Mapping[str, Probe], results: Dict[str, Any]) -> Dict[str, Any]:
    sections: Dict[str, Any] = {}
    for names in probes:
        result = results.get(names, Unknown("timeout", f"the {names} probe did not finish within {_LIMIT} s"))
        if isinstance(result, UnrecordedError):
            raise result
        sections.update(_by_name(tuple(names.split()), result))
    return sections


def _by_name(names: Tuple[str, ...], result: Any) -> Dict[str, Any]:
    if isinstance(result, Unknown):
        return {name: unknown_section(Facts, name, result) for name in names}
    return dict(zip(names, result)) if len(names) > 1 else {names[0]: result}
