"""Judge every host of a folder: one row each, grouped by verdict and cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from envcheck.fleet.results import Failure, HostResult, read_result, result_files
from envcheck.host.pool import in_processes
from envcheck.matrix.query import Matrix
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Report
from envcheck.model.records import dataclass
from envcheck.model.snapshot import Snapshot
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.overview import overview

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


@dataclass(frozen=True)
class Group:
    """The hosts that share verdict and cause."""

    verdict: str
    cause: str
    message: str
    hosts: tuple[str, ...]


def judge_folder(folder: Path, matrix: Matrix, target: Target, golden: str = "") -> list[Row]:
    """Judge every host of a folder; LookupError where the golden host has no snapshot there."""
    rows = list(in_processes(lambda path: _row(read_result(path), matrix, target), result_files(folder)))
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
        Group(verdict, cause, members[0].message, tuple(row.host for row in members))
        for (verdict, cause), members in grouped.items()
    ]
    return sorted(groups, key=lambda group: (_ORDER[group.verdict], -len(group.hosts), group.cause))


def _row(result: HostResult, matrix: Matrix, target: Target) -> Row:
    answer = result.answer
    if isinstance(answer, Failure):
        return Row(result.host, UNDETERMINED, answer.kind, answer.reason)
    report = evaluate(Context(answer.facts, matrix, target))
    cause, message = _cause(report)
    return Row(result.host, report.verdict, cause, message, _machine(answer))


def _cause(report: Report) -> tuple[str, str]:
    first = report.findings[0] if report.findings else None
    if first is None or (report.verdict == COMPATIBLE and first.severity != "warning"):
        return "", report.headline
    return first.id, first.message


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
