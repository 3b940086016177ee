"""Hold two machines against each other: their facts, what the same rules say of each, and what leads to what."""

from __future__ import annotations

from envcheck.diff.difference import Difference, Led, table
from envcheck.diff.facts import compare_facts
from envcheck.diff.leads import leads
from envcheck.matrix.query import Matrix
from envcheck.model.findings import COMPATIBLE, ERROR, INCOMPATIBLE, UNDETERMINED, Report
from envcheck.model.records import dataclass
from envcheck.model.snapshot import Snapshot
from envcheck.rules import Context, Target, evaluate

# What no finding speaks of, but a framework may not do without when it could not be read on one machine.
_DECISIVE = ("system", "frameworks", "driver", "gpus")


@dataclass(frozen=True)
class Machine:
    """One of the two machines with what the rules say of it."""

    snapshot: Snapshot
    report: Report


@dataclass(frozen=True)
class Comparison:
    """What differs between two machines, most likely cause first."""

    a: Machine
    b: Machine
    verdict: str  # compatible: nothing that matters differs; incompatible: something does; undetermined
    differences: tuple[Difference, ...]
    unexplained: tuple[Led, ...]  # findings of one machine alone that no difference carries

    @property
    def mattering(self) -> tuple[Difference, ...]:
        """List the differences that matter to the frameworks installed."""
        return tuple(item for item in self.differences if item.matters)


def compare(a: Snapshot, b: Snapshot, matrix: Matrix, target: Target) -> Comparison:
    """Compare two machines, judged by the same rules, matrix and target. Raises TargetError for a requirement."""
    machines = [Machine(item, evaluate(Context(item.facts, matrix, target))) for item in (a, b)]
    found, left = leads(compare_facts(a.facts, b.facts), machines[0].report, machines[1].report)
    ranked = tuple(sorted(found, key=_order))
    return Comparison(machines[0], machines[1], _verdict(ranked, left, machines), ranked, tuple(left))


def _order(item: Difference) -> tuple[int, int, int, str, str]:
    """Rank: what leads to a primary cause of one machine alone, what they must agree on, then area by area."""
    led = [one for one in item.findings if one.on != "both"]
    if any(one.primary for one in led):
        weight = 0
    elif item.agree or any(one.severity == ERROR for one in led):
        weight = 1
    else:
        weight = 2 if item.matters else 3
    return weight, _area(item), 1 if item.unread else 0, item.fact, item.key


def _area(item: Difference) -> int:
    areas: list[str] = table()["areas"]
    return areas.index(item.area)


def _verdict(differences: tuple[Difference, ...], left: list[Led], machines: list[Machine]) -> str:
    if any(item.matters for item in differences) or left:
        return INCOMPATIBLE
    unread = any(item.unread and item.area in _DECISIVE for item in differences)
    if unread or any(machine.report.verdict == UNDETERMINED for machine in machines):
        return UNDETERMINED
    return COMPATIBLE
