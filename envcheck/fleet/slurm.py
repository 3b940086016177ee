"""Ask the nodes of a Slurm partition: srun, one task on each node."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import deque
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from envcheck.fleet.collector import build_collector
from envcheck.fleet.results import (
    HUNG,
    UNREACHABLE,
    Asked,
    EngineError,
    Failure,
    HostResult,
    Listener,
    answer_of,
    failure_of,
    known_as,
)
from envcheck.host.process import kill_running_programs, run_lines, run_program, start_thread
from envcheck.model import Known, dataclass

# States in which a node takes no job (https://slurm.schedmd.com/sinfo.html#lbAG); a mark may follow, as in "down*".
_AWAY = ("down", "drain", "drained", "draining", "fail", "failing", "maint", "powered_down", "powering_down", "unknown")
_PAUSE = 0.05  # seconds between two looks at the threads
# The collector comes on standard input, lies in a file of the node's own while it runs, and is removed.
_RECEIVE = """f=$(mktemp) || exit
trap 'rm -f "$f"' EXIT
trap 'exit 143' HUP INT TERM
cat > "$f" && sh "$f" "$@"
"""


@dataclass(frozen=True)
class Node:
    """A node and its state as sinfo names it."""

    name: str
    state: str


def run_slurm(asked: Asked, listener: Listener) -> None:
    """Run the collector on every node of a partition; raises EngineError where Slurm does not answer."""
    nodes = [node for node in _nodes(asked) if known_as(node.name) not in asked.skip]
    listener.heard_of([node.name for node in nodes])
    with tempfile.TemporaryDirectory() as folder:
        collector = Path(folder) / "collector"
        collector.write_bytes(build_collector())
        _ask_all(nodes, asked, collector, listener)


def _ask_all(nodes: list[Node], asked: Asked, collector: Path, listener: Listener) -> None:
    """Ask `asked.forks` nodes at a time, and report each answer as it arrives.

    An interruption can come between any two bytecodes of this thread, and would leave a lock of a future locked. So the
    threads share only containers whose methods are atomic
    (https://docs.python.org/3/library/signal.html#note-on-signal-handlers-and-exceptions).
    """
    left, answers = deque(nodes), SimpleQueue[HostResult | Exception]()
    begun, ended = deque[None](), deque[None]()

    def ask() -> None:
        begun.append(None)
        while left:
            with contextlib.suppress(IndexError):  # another thread took the last one
                answers.put(_answer(left.popleft(), asked, collector))
        ended.append(None)

    threads = min(asked.forks, len(nodes))
    try:
        for _ in range(threads):
            start_thread(ask)
        while len(ended) < threads or not answers.empty():
            with contextlib.suppress(Empty):  # a wait without end can miss a signal that comes just before it
                _report(answers.get(timeout=_PAUSE), listener)
    except BaseException:  # interrupted: the other nodes are not asked
        left.clear()
        kill_running_programs()
        raise
    finally:
        while len(ended) < len(begun):
            time.sleep(_PAUSE)


def _answer(node: Node, asked: Asked, collector: Path) -> HostResult | Exception:
    try:
        return _ask(node, asked, collector)
    except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
        return error


def _report(answer: HostResult | Exception, listener: Listener) -> None:
    if isinstance(answer, Exception):
        raise answer
    listener.told(answer)


def parse_nodes(text: str) -> list[Node]:
    """Read `sinfo --noheader --Node --format "%N %T"`.

    Sample: gpu01 idle
            gpu02 down*
    """
    words = (line.split() for line in text.splitlines())
    named = {item[0]: item[1].rstrip("*~#!%$@^-+").lower() for item in words if len(item) == 2}
    return [Node(name, state) for name, state in named.items()]


def _nodes(asked: Asked) -> list[Node]:
    partition = ["--partition", asked.partition] if asked.partition else []
    argv = ["sinfo", "--noheader", "--Node", "--format", "%N %T", *partition]
    done = run_program(argv, 30.0, asked.environment or {})
    if not isinstance(done, Known):
        raise EngineError("sinfo did not answer: is this a machine that submits to Slurm?")
    nodes = parse_nodes(done.value.stdout)
    if not nodes:
        raise EngineError(f"Slurm names no node: {' '.join(done.value.stderr.split()) or 'the partition is empty'}")
    return nodes


def _ask(node: Node, asked: Asked, collector: Path) -> HostResult:
    if node.state in _AWAY:
        return HostResult(node.name, Failure(UNREACHABLE, f"Slurm says that the node is {node.state}"))
    lines: list[str] = []
    with tempfile.TemporaryFile() as log:
        argv = [*_srun(node, asked), *([f"python={asked.python}"] if asked.python else [])]
        limit = float(asked.connect_seconds + asked.host_seconds)
        ended = run_lines(argv, asked.environment or {}, lines.append, log=log, seconds=limit, stdin=str(collector))
        words = _read(log)
    if ended.code is None:
        return HostResult(node.name, Failure(HUNG, f"srun: {ended.detail} after {limit:.0f} s. {words}".strip()))
    if "Unable to allocate resources" in words or "Requested nodes are busy" in words:
        return HostResult(node.name, Failure(UNREACHABLE, failure_of(words).reason))
    return HostResult(node.name, answer_of("\n".join(lines), words))


def _srun(node: Node, asked: Asked) -> list[str]:
    minutes = str(max(1, -(-asked.host_seconds // 60)))
    options = ["--nodes=1", "--ntasks=1", f"--nodelist={node.name}", f"--time={minutes}", "--quiet"]
    options += [
        f"--immediate={asked.connect_seconds}",
        *([f"--partition={asked.partition}"] if asked.partition else []),
    ]
    return ["srun", *options, "sh", "-c", _RECEIVE, "collector"]


def _read(log: IO[bytes]) -> str:
    log.seek(0)
    return " ".join(log.read(1 << 16).decode("utf-8", "replace").split())
