"""Ask this machine as if it were one of many: through the collector, in a process of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from envcheck.fleet.answers import answer_of
from envcheck.fleet.collector import build_collector
from envcheck.fleet.engine import Asked, Listener
from envcheck.fleet.results import BROKEN, HUNG, Failure, HostResult
from envcheck.host.process import run_program
from envcheck.model.facts import Known, Unknown
from envcheck.model.snapshot import Snapshot

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
