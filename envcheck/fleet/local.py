"""Ask this machine as if it were one of many: through the collector, in a process of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from envcheck.fleet.answers import answer_of
from envcheck.fleet.collector import build_collector
from envcheck.fleet.engine import Asked, Listener
from envcheck.fleet.results import HUNG, Failure, HostResult
from envcheck.host.process import run_program
from envcheck.model.facts import Known, Unknown

HOST = "localhost"


def run_local(asked: Asked, listener: Listener) -> None:
    """Run the collector here."""
    listener.heard_of([HOST])
    if HOST in asked.skip:
        return
    with tempfile.TemporaryDirectory() as folder:
        collector = Path(folder) / "collector"
        collector.write_bytes(build_collector())
        argv = ["/bin/sh", str(collector), *([f"python={asked.python}"] if asked.python else [])]
        done = run_program(argv, float(asked.host_seconds), asked.environment or {})
    if isinstance(done, Known):
        listener.told(HostResult(HOST, answer_of(done.value.stdout, done.value.stderr)))
    else:
        reason = done.detail if isinstance(done, Unknown) else "there is no /bin/sh"
        listener.told(HostResult(HOST, Failure(HUNG, reason)))
