"""Judge every host of a folder: one row per host, grouped by verdict and cause."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from envcheck.diagnosis import with_remedies
from envcheck.diagnosis.overview import summarize_machine
from envcheck.fleet.results import Failure, HostResult, list_result_files, read_result
from envcheck.host.process import map_in_processes
from envcheck.matrix.query import Matrix
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Finding, Remedy, Report, Snapshot, dataclass, replace
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target, evaluate

# The worst verdict is that of the fleet.
WORST_FIRST = (INCOMPATIBLE, UNDETERMINED, COMPATIBLE)
_RANKS = {verdict: place for place, verdict in enumerate(WORST_FIRST)}


@dataclass(frozen=True)
class HostRow:
    """One host: its verdict, its cause (a finding id, or why it did not answer) and its machine in words."""

    host: str
    verdict: str
    cause: str
    message: str
    machine: tuple[tuple[str, str], ...] = ()  # labels and texts of the overview
    drift: tuple[str, ...] = ()  # differences from the golden host
    fix: Remedy | None = None  # for the cause, as the doctor proposes it
    system: str = ""  # operating system: it decides how the fix is written


@dataclass(frozen=True)
class Group:
    """The hosts that share verdict and cause."""

    verdict: str
    cause: str
    message: str
    hosts: tuple[str, ...]
    fixes: tuple[tuple[Remedy, str], ...] = ()  # each with its operating system, the most frequent first


def judge_folder(folder: Path, matrix: Matrix, target: Target, golden: str = "") -> list[HostRow]:
    """Judge every host of a folder; raises LookupError where the golden host has no snapshot."""
    judge = _Judge(matrix, target)
    rows = list(map_in_processes(lambda path: _judge_host(read_result(path), judge), list_result_files(folder)))
    if golden:
        rows = _add_drift(rows, golden)
    return sorted(rows, key=lambda row: (_RANKS[row.verdict], row.cause, row.host))


def choose_verdict(rows: Iterable[HostRow]) -> str:
    """Return the worst verdict; undetermined without rows."""
    return min((row.verdict for row in rows), key=_RANKS.__getitem__, default=UNDETERMINED)


def group_rows(rows: Iterable[HostRow]) -> list[Group]:
    """Group rows by verdict and cause, the worst verdict and then the largest group first."""
    grouped: dict[tuple[str, str], list[HostRow]] = {}
    for row in rows:
        grouped.setdefault((row.verdict, row.cause), []).append(row)
    groups = [
        Group(verdict, cause, members[0].message, tuple(row.host for row in members), _count_fixes(members))
        for (verdict, cause), members in grouped.items()
    ]
    return sorted(groups, key=lambda group: (_RANKS[group.verdict], -len(group.hosts), group.cause))


def _count_fixes(rows: list[HostRow]) -> tuple[tuple[Remedy, str], ...]:
    counted = Counter((row.fix, row.system) for row in rows if row.fix is not None)
    return tuple((fix, system) for (fix, system), _ in counted.most_common() if fix is not None)


class _Judge:
    """Judge machines; plan once for all machines with the same report and planner inputs."""

    def __init__(self, matrix: Matrix, target: Target) -> None:
        self._matrix, self._target = matrix, target
        self._planned: dict[bytes, Report] = {}

    def __call__(self, snapshot: Snapshot) -> Report:
        context = Context(snapshot.facts, self._matrix, self._target)
        report = evaluate(context)
        if all(item.problem is None for item in report.findings):
            return report
        key = pickle.dumps((report, *_list_planner_inputs(context)))
        if key not in self._planned:
            self._planned[key] = with_remedies(report, Situation(context))
        return self._planned[key]


def _list_planner_inputs(context: Context) -> tuple[object, ...]:
    """List the inputs of a plan, without what distinguishes GPUs of one model."""
    facts = context.facts
    gpus = [(gpu.name, gpu.compute_capability) for gpu in context.gpus]
    driver = (facts.driver.release, facts.driver.cuda_driver_version)
    return facts.host, driver, gpus, facts.toolkits, facts.cudnn, facts.compilers, facts.python


def _judge_host(result: HostResult, judge: _Judge) -> HostRow:
    answer = result.answer
    if isinstance(answer, Failure):
        return HostRow(result.host, UNDETERMINED, answer.kind, answer.reason)
    report = judge(answer)
    machine = tuple(summarize_machine(answer.facts))
    cause = _find_cause(report)
    if cause is None:
        return HostRow(result.host, report.verdict, "", report.headline, machine)
    return HostRow(result.host, report.verdict, cause.id, cause.message, machine, (), cause.fix, report.system)


def _find_cause(report: Report) -> Finding | None:
    first = report.findings[0] if report.findings else None
    return None if first is None or (report.verdict == COMPATIBLE and first.severity != "warning") else first


def _add_drift(rows: list[HostRow], golden: str) -> list[HostRow]:
    reference = next((dict(row.machine) for row in rows if row.host == golden and row.machine), None)
    if reference is None:
        raise LookupError(golden)
    return [replace(row, drift=tuple(_list_differences(dict(row.machine), reference))) for row in rows]


def _list_differences(machine: dict[str, str], reference: dict[str, str]) -> Iterator[str]:
    for label in dict.fromkeys((*reference, *machine)) if machine else ():
        value, golden = machine.get(label, "none"), reference.get(label, "none")
        if value != golden:
            yield f"{label}: {value}; golden: {golden}"
