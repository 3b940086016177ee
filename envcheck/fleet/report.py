"""Judge every host of a folder: one row each, grouped by verdict and cause."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from envcheck.fleet.results import Failure, HostResult, read_result, result_files
from envcheck.host.process import map_in_processes
from envcheck.matrix.query import Matrix
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Finding, Fix, Report, Snapshot, dataclass, replace
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.overview import overview

Mend = Callable[[Report, Context], Report]  # puts the planner's commands in the place of fixes, as the doctor does

# The worst verdict names the fleet's.
WORST_FIRST = (INCOMPATIBLE, UNDETERMINED, COMPATIBLE)
_ORDER = {verdict: place for place, verdict in enumerate(WORST_FIRST)}


@dataclass(frozen=True)
class Row:
    """One host: its verdict, its cause (a finding id, or what kept it from answering) and the machine in words."""

    host: str
    verdict: str
    cause: str
    message: str
    machine: tuple[tuple[str, str], ...] = ()  # the overview's labels and texts
    drift: tuple[str, ...] = ()  # where it differs from the golden host
    fix: Fix | None = None  # of the cause, as the doctor proposes it there
    system: str = ""  # whose shells the fix is for


@dataclass(frozen=True)
class Group:
    """The hosts that share verdict and cause."""

    verdict: str
    cause: str
    message: str
    hosts: tuple[str, ...]
    fixes: tuple[tuple[Fix, str], ...] = ()  # what mends them, each with its system, the most frequent first


def judge_folder(folder: Path, matrix: Matrix, target: Target, golden: str = "", mend: Mend | None = None) -> list[Row]:
    """Judge every host of a folder; LookupError where the golden host has no snapshot there."""
    judge = _Judge(matrix, target, mend)
    rows = list(map_in_processes(lambda path: _row(read_result(path), judge), result_files(folder)))
    if golden:
        rows = _with_drift(rows, golden)
    return sorted(rows, key=lambda row: (_ORDER[row.verdict], row.cause, row.host))


def verdict_of(rows: Iterable[Row]) -> str:
    """Name the worst verdict; nothing judged is undetermined."""
    found = {row.verdict for row in rows}
    return next((verdict for verdict in WORST_FIRST if verdict in found), UNDETERMINED)


def groups_of(rows: Iterable[Row]) -> list[Group]:
    """Group rows by verdict and cause, the worst first and the largest of them before the others."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.verdict, row.cause), []).append(row)
    groups = [
        Group(verdict, cause, members[0].message, tuple(row.host for row in members), _fixes(members))
        for (verdict, cause), members in grouped.items()
    ]
    return sorted(groups, key=lambda group: (_ORDER[group.verdict], -len(group.hosts), group.cause))


def _fixes(rows: list[Row]) -> tuple[tuple[Fix, str], ...]:
    counted = Counter((row.fix, row.system) for row in rows if row.fix is not None)
    return tuple((fix, system) for (fix, system), _ in counted.most_common() if fix is not None)


class _Judge:
    """Judges machines; those that are alike to the planner are planned for once."""

    def __init__(self, matrix: Matrix, target: Target, mend: Mend | None) -> None:
        self._matrix, self._target, self._mend = matrix, target, mend
        self._known: dict[bytes, Report] = {}

    def __call__(self, snapshot: Snapshot) -> Report:
        context = Context(snapshot.facts, self._matrix, self._target)
        report = evaluate(context)
        if self._mend is None or not any(item.verdict == INCOMPATIBLE for item in report.findings):
            return report
        alike = pickle.dumps((report, *_planned_by(context)))
        if alike not in self._known:
            self._known[alike] = self._mend(report, context)
        return self._known[alike]


def _planned_by(context: Context) -> tuple[object, ...]:
    """List what a plan is made by: all but what tells one GPU from another of its kind."""
    facts = context.facts
    gpus = [(gpu.name, gpu.compute_capability) for gpu in context.gpus]
    driver = (facts.driver.release, facts.driver.cuda_driver_version)
    return facts.host, driver, gpus, facts.toolkits, facts.cudnn, facts.compilers, facts.python


def _row(result: HostResult, judge: _Judge) -> Row:
    answer = result.answer
    if isinstance(answer, Failure):
        return Row(result.host, UNDETERMINED, answer.kind, answer.reason)
    report = judge(answer)
    cause = _cause(report)
    if cause is None:
        return Row(result.host, report.verdict, "", report.headline, _machine(answer))
    machine = _machine(answer)
    return Row(result.host, report.verdict, cause.id, cause.message, machine, (), cause.fix, report.system)


def _cause(report: Report) -> Finding | None:
    first = report.findings[0] if report.findings else None
    return None if first is None or (report.verdict == COMPATIBLE and first.severity != "warning") else first


def _machine(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    return tuple(overview(snapshot.facts))


def _with_drift(rows: list[Row], golden: str) -> list[Row]:
    pattern = next((dict(row.machine) for row in rows if row.host == golden and row.machine), None)
    if pattern is None:
        raise LookupError(golden)
    return [replace(row, drift=tuple(_differences(dict(row.machine), pattern))) for row in rows]


def _differences(machine: dict[str, str], pattern: dict[str, str]) -> Iterator[str]:
    for label in dict.fromkeys((*pattern, *machine)) if machine else ():
        here, there = machine.get(label, "none"), pattern.get(label, "none")
        if here != there:
            yield f"{label}: {here}; golden: {there}"
