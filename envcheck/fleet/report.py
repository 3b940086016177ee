"""Judge every host of a folder: one row per host, grouped by verdict and cause."""

from __future__ import annotations

import pickle
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envcheck.diagnosis import with_remedies
from envcheck.diagnosis.overview import summarize_machine
from envcheck.fleet.results import (
    Failure,
    HostResult,
    get_host,
    hash_facts,
    list_result_files,
    parse_file,
    read_file,
    read_last_failure,
    read_result,
)
from envcheck.host.process import map_in_processes
from envcheck.matrix.gpus import get_gpu_model, unify_gpu_spelling
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOT_STATED,
    NOTE,
    UNDETERMINED,
    WARNING,
    Facts,
    Finding,
    Remedy,
    Report,
    Snapshot,
    Unknown,
    dataclass,
    replace,
)
from envcheck.model.fixes import FindLostGpu
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target, evaluate

# The worst verdict is that of the fleet.
WORST_FIRST = (INCOMPATIBLE, UNDETERMINED, COMPATIBLE)
_RANKS = {verdict: place for place, verdict in enumerate(WORST_FIRST)}


@dataclass
class HostRow:
    """One host: its verdict, cause and machine.

    The cause is a finding id, or why the host did not answer.
    """

    host: str
    verdict: str
    cause: str
    message: str
    machine: tuple[tuple[str, str], ...] = ()  # labels and texts of the overview
    # differences from the golden host; without one, from what is usual for hosts like it
    drift: tuple[str, ...] = ()
    fix: Remedy | None = None  # for the cause, as the doctor proposes it
    system: str = ""  # operating system: it decides how the fix is written
    # the model of each, in one spelling; None where that is unknown
    gpus: tuple[str, ...] | None = None
    processor: str = ""
    lost_gpus: bool = False  # it has fewer GPUs than most hosts like it
    # what else needs attention and follows from nothing: finding ids with their verdicts
    also: tuple[tuple[str, str], ...] = ()
    since: int = 0  # when an earlier report had the cause first, in seconds; 0: none has it


@dataclass
class Split:
    """What hosts do not have in common: each value with its hosts, the usual or golden first."""

    label: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    golden: str = ""  # the host that the others are compared with

    @property
    def usual(self) -> str:
        """Say how many of the hosts have the usual value, or that the golden one has it."""
        if self.golden:
            return f"golden host {self.golden}"
        counts = [len(hosts) for _, hosts in self.groups]
        return f"{counts[0]} of the {sum(counts)} hosts"


@dataclass
class Group:
    """The hosts that share verdict and cause."""

    verdict: str
    cause: str
    # each with its hosts, the most frequent first
    messages: tuple[tuple[str, tuple[str, ...]], ...]
    # each with its operating system, the most frequent first
    fixes: tuple[tuple[Remedy, str], ...] = ()
    lost_gpus: bool = False
    since: int = 0  # of the host that has the cause for the longest time

    @property
    def message(self) -> str:
        """Return what most of the hosts say."""
        return self.messages[0][0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """List the hosts by name."""
        return tuple(sorted(host for _, hosts in self.messages for host in hosts))


def judge_folder(folder: Path, matrix: Matrix, target: Target, golden: str = "") -> list[HostRow]:
    """Judge every host of a folder; raises LookupError where the golden host has no snapshot."""
    judge = _Judge(matrix, target)
    paths = list_result_files(folder)
    rows = list(map_in_processes(judge.judge_file, paths))
    if target.expect != "cpu":
        rows = _report_lost_gpus(rows, paths, matrix)
    if golden and not any(row.host == golden and row.machine for row in rows):
        raise LookupError(golden)
    return sorted(
        _add_drift(rows, golden),
        key=lambda row: (_RANKS[row.verdict], not row.lost_gpus, row.cause, row.host),
    )


def choose_verdict(rows: Iterable[HostRow]) -> str:
    """Return the worst verdict; undetermined without rows."""
    return min((row.verdict for row in rows), key=_RANKS.__getitem__, default=UNDETERMINED)


def group_rows(rows: Iterable[HostRow]) -> list[Group]:
    """Group rows by verdict and cause, the worst verdict and then the largest group first."""
    grouped: dict[tuple[str, str], list[HostRow]] = {}
    for row in rows:
        grouped.setdefault((row.verdict, row.cause), []).append(row)
    groups = [
        Group(
            verdict,
            cause,
            _collect_messages(members),
            _count_fixes(members),
            any(row.lost_gpus for row in members),
            min((row.since for row in members if row.since), default=0),
        )
        for (verdict, cause), members in grouped.items()
    ]
    return sorted(
        groups,
        key=lambda group: (
            _RANKS[group.verdict],
            not group.lost_gpus,
            -len(group.hosts),
            group.cause,
        ),
    )


def _collect_messages(rows: list[HostRow]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    hosts: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        hosts[row.message].append(row.host)
    ranked = sorted(hosts.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple((message, tuple(names)) for message, names in ranked)


def _count_fixes(rows: list[HostRow]) -> tuple[tuple[Remedy, str], ...]:
    counted = Counter((row.fix, row.system) for row in rows if row.fix is not None)
    return tuple((fix, system) for (fix, system), _ in counted.most_common() if fix is not None)


class _Judge:
    """Judge machines: equal facts once, and equal reports with equal plans once."""

    def __init__(self, matrix: Matrix, target: Target) -> None:
        self._matrix, self._target = matrix, target
        self._planned: dict[bytes, Report] = {}
        self._judged: dict[bytes, HostRow] = {}

    def judge_file(self, path: Path) -> HostRow:
        """Judge the host of a file."""
        host, data = get_host(path), read_last_failure(path) or read_file(path)
        key = b"" if isinstance(data, Failure) else hash_facts(data)
        if key and key in self._judged:
            return replace(self._judged[key], host=host)
        row = _judge_host(
            HostResult(host, data if isinstance(data, Failure) else parse_file(data)), self
        )
        if key and not _NAMES_DEVICE.search(f"{row.message} {row.fix}"):
            self._judged[key] = row
        return row

    def __call__(self, snapshot: Snapshot) -> Report:
        context = Context(snapshot.facts, self._matrix, self._target)
        report = evaluate(context)
        if _find_cause(report) is None or all(item.cure is None for item in report.findings):
            return report  # no other fix is shown
        key = pickle.dumps((report, *_list_planner_inputs(context)))
        if key not in self._planned:
            self._planned[key] = with_remedies(report, Situation(context))
        return self._planned[key]


_NAMES_DEVICE = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{4}")  # a text that is about one host's GPU


def _list_planner_inputs(context: Context) -> tuple[object, ...]:
    """List the inputs of a plan, without what distinguishes GPUs of one model.

    A release has one metadata.
    """
    facts = context.facts
    gpus = [(gpu.name, gpu.compute_capability) for gpu in context.gpus]
    driver = (facts.driver.release, facts.driver.cuda_driver_version)
    installed = [
        (item.name, item.version, item.location, item.scope, item.installer, item.build)
        for item in facts.python.distributions.value or ()
    ]
    python = replace(facts.python, distributions=NOT_STATED)
    return facts.host, driver, gpus, facts.toolkits, facts.cudnn, facts.compilers, python, installed


def _judge_host(result: HostResult, judge: _Judge) -> HostRow:
    answer = result.answer
    if isinstance(answer, Failure):
        return HostRow(result.host, UNDETERMINED, answer.kind, answer.reason)
    report = judge(answer)
    facts, cause = answer.facts, _find_cause(report)
    if isinstance(facts.gpus, Unknown):
        gpus = None
    else:
        gpus = tuple(sorted(map(get_gpu_model, facts.gpus.value or ())))
    return HostRow(
        host=result.host,
        verdict=report.verdict,
        cause=cause.id if cause else "",
        message=cause.message if cause else report.headline,
        machine=tuple(summarize_machine(facts)),
        fix=cause.fix if cause else None,
        system=report.system,
        gpus=gpus,
        processor=facts.host.cpu_model.value or "",
        also=tuple(
            (item.id, item.verdict)
            for item in report.findings
            if item is not cause and item.caused_by is None and item.severity != NOTE
        ),
    )


def _find_cause(report: Report) -> Finding | None:
    causes = (
        item for item in report.findings if report.verdict != COMPATIBLE or item.severity == WARNING
    )
    return next(causes, None)


_MIN_ALIKE = 3  # hosts that show what is usual
_MAJORITY = 2 / 3  # of them

Kinds = list[list[int]]  # the places of the rows of hosts of one kind


def _find_kinds(rows: list[HostRow]) -> Kinds:
    """Put hosts of one name but for its digits and of one processor together.

    Names of their own, by processor.
    """
    by_name = defaultdict[tuple[str, str], list[int]](list)
    by_processor = defaultdict[str, list[int]](list)
    for place, row in enumerate(rows):
        if row.machine:
            by_name[re.sub(r"\d+", "#", row.host), row.processor].append(place)
    for (_, processor), places in by_name.items():
        if processor and len(places) == 1:
            by_processor[processor] += places
    return [
        places
        for places in (*by_name.values(), *by_processor.values())
        if len(places) >= _MIN_ALIKE
    ]


def _find_usual(values: Iterable[Any]) -> Any:
    """Return the value of most hosts; None where no value is that of most."""
    counted = Counter(values)
    value, count = counted.most_common(1)[0]
    if counted.total() >= _MIN_ALIKE and count >= _MAJORITY * counted.total():
        return value
    return None


def _report_lost_gpus(rows: list[HostRow], paths: list[Path], matrix: Matrix) -> list[HostRow]:
    """Report hosts that have fewer GPUs than most hosts of their kind.

    No golden host is needed to see it.
    """
    changed = list(rows)
    for places in _find_kinds(rows):
        known = [gpus for place in places if (gpus := rows[place].gpus) is not None]
        usual = (_find_usual(known) if known else None) or ()
        for place in places:
            gpus = rows[place].gpus
            if gpus is not None and Counter(gpus) < Counter(usual):
                alike = f"{known.count(usual)} of the {len(known)} hosts like it"
                changed[place] = _lose_gpus(rows[place], len(usual), alike, paths[place], matrix)
    return changed


def _lose_gpus(row: HostRow, usual: int, alike: str, path: Path, matrix: Matrix) -> HostRow:
    answer = read_result(path).answer
    left = len(row.gpus or ())
    message = f"{left or 'No'} NVIDIA GPU{'s' if left > 1 else ''} found; {alike} have {usual}."
    facts = answer.facts if isinstance(answer, Snapshot) else Facts()
    cause = "gpu-hardware-fault" if left else "gpu-absent"
    finding = Finding(cause, INCOMPATIBLE, ERROR, message, cure=FindLostGpu())
    fix = with_remedy(finding, Situation(Context(facts, matrix))).fix
    return replace(row, verdict=INCOMPATIBLE, cause=cause, message=message, fix=fix, lost_gpus=True)


def _add_drift(rows: list[HostRow], golden: str) -> list[HostRow]:
    """Say where a host differs from the golden one, or from what is usual for hosts of its kind."""
    drift = defaultdict[str, list[str]](list)
    for split in list_splits(rows, golden):
        (usual, most), *others = split.groups
        expected = "golden" if golden else f"{split.usual} like it"
        for value, hosts in others:
            for host in hosts if golden or len(hosts) < len(most) else ():
                drift[host].append(f"{split.label}: {value}; {expected}: {usual}")
    return [replace(row, drift=tuple(drift[row.host])) for row in rows]


def list_splits(rows: list[HostRow], golden: str = "") -> list[Split]:
    """List what hosts of one kind do not have in common, or not with the golden host.

    No value needs a majority: three hosts with one value show that it is shared. What differs on
    nearly every host is no sign of trouble.
    """
    found = []
    all_read = [place for place, row in enumerate(rows) if row.machine]
    for places in [all_read] if golden else _find_kinds(rows):
        machines = {rows[place].host: dict(rows[place].machine) for place in places}
        for label in dict.fromkeys(label for machine in machines.values() for label in machine):
            groups = _group_values(label, machines)
            alone = sum(len(hosts) == 1 for _, hosts in groups)
            is_shared = len(groups[0][1]) >= max(_MIN_ALIKE, alone + 1)
            if len(groups) > 1 and (golden or is_shared):
                groups.sort(key=lambda group: golden not in group[1])  # else the usual one first
                found.append(Split(label, tuple(groups), golden))
    return found


def _group_values(
    label: str, machines: dict[str, dict[str, str]]
) -> list[tuple[str, tuple[str, ...]]]:
    """Group hosts by what they have; the spelling of a GPU is no difference."""
    values: dict[str, str] = {}
    hosts = defaultdict[str, list[str]](list)
    for host, machine in machines.items():
        value = machine.get(label, "none")
        hosts[values.setdefault(unify_gpu_spelling(re.sub(r"\bNVIDIA ", "", value)), value)].append(
            host
        )
    ranked = sorted(hosts.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(value, tuple(sorted(names))) for value, names in ranked]


def count_parts(rows: list[HostRow]) -> dict[str, dict[str, int]]:
    """Count the hosts of each driver and the GPUs of each model, the most frequent first."""
    drivers = Counter(
        text.partition(" ")[0] for row in rows for name, text in row.machine if name == "Driver"
    )
    gpus = Counter(gpu for row in rows for gpu in row.gpus or ())
    return {"drivers": dict(drivers.most_common()), "gpus": dict(gpus.most_common())}
