"""Compare two machines: their facts, their findings, and which difference explains which finding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envcheck.diff.facts import Difference, Led, compare_facts, table
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Evidence,
    Finding,
    Report,
    Snapshot,
    dataclass,
    replace,
)
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.registry import RULES


@dataclass(frozen=True)
class Told:
    """A finding of one machine or both, with what it rests on and the distributions its fix would install."""

    led: Led
    evidence: tuple[Evidence, ...]
    installs: frozenset[str]


def leads(differences: Sequence[Difference], a: Report, b: Report) -> tuple[list[Difference], list[Led]]:
    """Give each difference its findings; return also the findings that one machine alone has and none carries.

    A finding whose evidence names no difference goes to those that its rule reads.
    """
    carried: dict[int, list[Led]] = {}
    left: list[Led] = []
    for told in _findings(a, b):
        places = [place for place, item in enumerate(differences) if _leads_to(item, told)]
        if not places and told.led.on != "both":
            places = _fallback(told.led, differences)
        for place in places:
            carried.setdefault(place, []).append(told.led)
        if not places and told.led.on != "both" and told.led.severity != NOTE:
            left.append(told.led)
    given = [replace(item, findings=tuple(carried.get(place, ()))) for place, item in enumerate(differences)]
    return given, left


def _fallback(led: Led, differences: Sequence[Difference]) -> list[int]:
    """Choose the facts that the rules of a finding read, or else what kind of system each machine is."""
    needs = {name for rule in RULES if rule.id == led.id for name in rule.needs}
    read = [place for place, item in enumerate(differences) if item.fact in needs and _is_whole(item)]
    return read or [place for place, item in enumerate(differences) if item.fact == "host.os" and not item.unread]


def _is_whole(item: Difference) -> bool:
    """Tell whether a difference is about its whole fact, not one of hundreds such as distributions."""
    return not item.key or item.agree or item.fact in {"gpus", "python.extensions", "driver.device_nodes"}


def _findings(a: Report, b: Report) -> Iterator[Told]:
    """Join the findings of two machines: one that both have with the same severity is on both."""
    mine, other = ({(item.id, item.severity): item for item in report.findings} for report in (a, b))
    for key in dict.fromkeys([*mine, *other]):
        found = [item for item in (mine.get(key), other.get(key)) if item is not None]
        on = "both" if len(found) > 1 else "a" if key in mine else "b"
        led = Led(*key[:1], on, key[1], any(item.primary for item in found))
        evidence = tuple(one for item in found for one in item.evidence)
        yield Told(led, evidence, frozenset(name for item in found for name in _installs(item)))


def _installs(finding: Finding) -> Iterator[str]:
    """Name what a fix would install: `pip install 'numpy<2'` names numpy."""
    for command in finding.fix.commands if finding.fix else ():
        _, _, behind = "\n".join(command.argv).partition("\ninstall\n")
        yield from (_words(word)[0] for word in behind.split("\n") if word[:1].isalpha())


def _leads_to(item: Difference, told: Told) -> bool:
    if any(_speaks(one, item) for one in told.evidence):
        return True
    about_python = any(one.fact.startswith("python.") for one in told.evidence)
    return about_python and item.fact == "python.distributions" and item.key in told.installs


def _speaks(evidence: Evidence, item: Difference) -> bool:
    """Tell whether evidence speaks of a difference: by its fact, and by its key where the fact holds several things."""
    if evidence.fact == item.fact:
        return not item.key or _names_key(evidence.shown, item)
    if evidence.fact in item.names or evidence.fact in {item.key, f"{item.fact} {item.key}"}:
        return True
    part = evidence.fact.removeprefix(f"{item.fact}.")
    if part != evidence.fact and item.key:  # gpus.kernel_driver is "1 kernel driver" of gpus
        return part.replace("_", " ") in item.key
    return evidence.fact.startswith(tuple(table()["facts"][item.fact].get("evidence", ())) or "\0")


def _names_key(shown: str, item: Difference) -> bool:
    """Tell whether what evidence shows is about this one of several: "numpy 2.1.0", or all of them: "not found"."""
    if item.fact == "gpus":
        return item.a in shown or item.b in shown or shown.endswith("found")
    names = {item.key, *(name.partition(" ")[0] for name in item.names)}
    return bool(names & set(_words(shown))) or shown.endswith("found")


def _words(shown: str) -> list[str]:
    """Split what evidence shows into names: "tensorflow 2.15.1: Requires-Dist numpy<2.0.0" holds numpy."""
    return [word.rstrip(".").lower() for word in re.findall(r"/dev/[\w/-]+|[A-Za-z0-9][\w.-]*", shown)]


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
