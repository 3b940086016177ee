"""Run the collector on the nodes of a Slurm partition: srun, one task per node."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import deque
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from envcheck.fleet.collector import written_collector
from envcheck.fleet.results import (
    HUNG,
    UNREACHABLE,
    EngineError,
    Failure,
    FleetListener,
    FleetRequest,
    HostResult,
    classify_failure,
    find_answer,
    get_saved_name,
)
from envcheck.host.process import kill_running_programs, run_lines, run_program, start_thread
from envcheck.model import dataclass

# States of nodes that accept no job (https://slurm.schedmd.com/sinfo.html#lbAG); a suffix may
# follow, as in "down*".
_AWAY = (
    "down",
    "drain",
    "drained",
    "draining",
    "fail",
    "failing",
    "maint",
    "powered_down",
    "powering_down",
    "unknown",
)
_PAUSE = 0.05  # seconds between checks of the threads
# The collector arrives on standard input, runs from a temporary file of the node, and is removed.
_RECEIVE = """f=$(mktemp) || exit
trap 'rm -f "$f"' EXIT
trap 'exit 143' HUP INT TERM
cat > "$f" && sh "$f" "$@"
"""


@dataclass
class Node:
    """A node and its state in the words of sinfo."""

    name: str
    state: str


def run_slurm(request: FleetRequest, listener: FleetListener) -> None:
    """Run the collector on every node of a partition; raises EngineError where Slurm fails."""
    nodes = [node for node in _list_nodes(request) if get_saved_name(node.name) not in request.skip]
    listener.on_hosts([node.name for node in nodes])
    with written_collector() as collector:
        _query_all(nodes, request, collector, listener)


def _query_all(
    nodes: list[Node], request: FleetRequest, collector: Path, listener: FleetListener
) -> None:
    """Query `request.forks` nodes at a time, and report each answer when it arrives.

    An interrupt between any two bytecodes of this thread could leave a lock of a future locked. So
    the threads share only containers with atomic methods
    (https://docs.python.org/3/library/signal.html#note-on-signal-handlers-and-exceptions).
    """
    left, answers = deque(nodes), SimpleQueue[HostResult | Exception]()
    started, ended = deque[None](), deque[None]()

    def work() -> None:
        started.append(None)
        while left:
            with contextlib.suppress(IndexError):  # another thread took the last one
                answers.put(_query_safely(left.popleft(), request, collector))
        ended.append(None)

    threads = min(request.forks, len(nodes))
    try:
        for _ in range(threads):
            start_thread(work)
        while len(ended) < threads or not answers.empty():
            # an endless wait can miss a signal that arrives just before it
            with contextlib.suppress(Empty):
                _report(answers.get(timeout=_PAUSE), listener)
    except BaseException:  # interrupted: skip the other nodes
        left.clear()
        kill_running_programs()
        raise
    finally:
        while len(ended) < len(started):
            time.sleep(_PAUSE)


def _query_safely(node: Node, request: FleetRequest, collector: Path) -> HostResult | Exception:
    try:
        return _query(node, request, collector)
    except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
        return error


def _report(answer: HostResult | Exception, listener: FleetListener) -> None:
    if isinstance(answer, Exception):
        raise answer
    listener.on_result(answer)


def parse_nodes(text: str) -> list[Node]:
    """Parse the output of `sinfo --noheader --Node --format "%N %T"`.

    Sample: gpu01 idle
            gpu02 down*
    """
    words = (line.split() for line in text.splitlines())
    named = {item[0]: item[1].rstrip("*~#!%$@^-+").lower() for item in words if len(item) == 2}
    return [Node(name, state) for name, state in named.items()]


def _list_nodes(request: FleetRequest) -> list[Node]:
    partition = ["--partition", request.partition] if request.partition else []
    argv = ["sinfo", "--noheader", "--Node", "--format", "%N %T", *partition]
    done = run_program(argv, 30.0, request.environment or {})
    if done.value is None:
        raise EngineError(
            "sinfo does not answer: run this command on a machine that submits jobs to Slurm"
        )
    nodes = parse_nodes(done.value.stdout)
    if not nodes:
        raise EngineError(
            "Slurm lists no node:"
            f" {' '.join(done.value.stderr.split()) or 'the partition is empty'}"
        )
    return nodes


def _query(node: Node, request: FleetRequest, collector: Path) -> HostResult:
    if node.state in _AWAY:
        return HostResult(
            node.name, Failure(UNREACHABLE, f"Slurm reports that the node is {node.state}")
        )
    lines: list[str] = []
    with tempfile.TemporaryFile() as log:
        argv = [*_make_srun_command(node, request), *request.collector_arguments]
        limit = float(request.connect_seconds + request.host_seconds)
        ended = run_lines(
            argv,
            request.environment or {},
            lines.append,
            log=log,
            seconds=limit,
            stdin=str(collector),
        )
        words = _read_log(log)
    if ended.code is None:
        return HostResult(
            node.name, Failure(HUNG, f"srun: {ended.detail} after {limit:.0f} s. {words}".strip())
        )
    if "Unable to allocate resources" in words or "Requested nodes are busy" in words:
        return HostResult(node.name, Failure(UNREACHABLE, classify_failure(words).reason))
    return HostResult(node.name, find_answer("\n".join(lines), words))


def _make_srun_command(node: Node, request: FleetRequest) -> list[str]:
    minutes = str(max(1, -(-request.host_seconds // 60)))
    options = ["--nodes=1", "--ntasks=1", f"--nodelist={node.name}", f"--time={minutes}", "--quiet"]
    options += [
        f"--immediate={request.connect_seconds}",
        *([f"--partition={request.partition}"] if request.partition else []),
    ]
    return ["srun", *options, "sh", "-c", _RECEIVE, "collector"]


def _read_log(log: IO[bytes]) -> str:
    log.seek(0)
    return " ".join(log.read(1 << 16).decode("utf-8", "replace").split())
