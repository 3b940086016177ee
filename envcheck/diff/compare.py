"""Compare two machines: facts, findings, and which difference explains which finding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envcheck.actions import InstallPackages
from envcheck.diff.facts import Difference, LinkedFinding, compare_facts, load_comparisons
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Absent,
    Evidence,
    Facts,
    Finding,
    Report,
    Snapshot,
    dataclass,
    replace,
)
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.context import RULES

# Areas that no finding mentions, but that frameworks may depend on: a difference that was not read
# there counts.
_DECISIVE = ("system", "frameworks", "driver", "gpus")


@dataclass
class Machine:
    """One of the two machines, and its report."""

    snapshot: Snapshot
    report: Report


@dataclass
class Comparison:
    """The differences between two machines, the most likely cause first."""

    a: Machine
    b: Machine
    # compatible: nothing that matters differs; incompatible: something does; undetermined
    verdict: str
    differences: tuple[Difference, ...]
    unexplained: tuple[LinkedFinding, ...]  # findings of one machine that no difference explains

    @property
    def mattering(self) -> tuple[Difference, ...]:
        """List the differences that matter to the installed frameworks."""
        return tuple(item for item in self.differences if item.matters)


def compare(a: Snapshot, b: Snapshot, matrix: Matrix, target: Target) -> Comparison:
    """Compare two machines by the same rules, matrix and target.

    Raises RequestError for a requirement.
    """
    snapshots = a, b
    targets = _choose_targets([item.facts for item in snapshots], matrix, target)
    machines = [
        Machine(item, _build_report(Context(item.facts, matrix, own)))
        for item, own in zip(snapshots, targets, strict=True)
    ]
    differences = compare_facts(a.facts, b.facts)
    if target.expect == "cpu":
        differences = [
            replace(item, agree=item.agree and not item.is_lost_gpu) for item in differences
        ]
    found, unexplained = link_findings(differences, machines[0].report, machines[1].report)
    ranked = tuple(sorted(found, key=_rank))
    verdict = _judge(ranked, unexplained, machines)
    return Comparison(machines[0], machines[1], verdict, ranked, tuple(unexplained))


def _choose_targets(facts: Sequence[Facts], matrix: Matrix, target: Target) -> list[Target]:
    """Expect a GPU of a machine without one, where the other machine has some."""
    contexts = [Context(item, matrix, target) for item in facts if item.gpus.value is not None]
    is_gpu_meant = target.expect == "auto" and any(context.goal == "gpu" for context in contexts)
    for_gpu = replace(target, expect="gpu") if is_gpu_meant else target
    return [for_gpu if _lacks_gpus_for_frameworks(item) else target for item in facts]


def _lacks_gpus_for_frameworks(facts: Facts) -> bool:
    frameworks = facts.python.frameworks
    return isinstance(facts.gpus, Absent) and bool(frameworks.value)


def _build_report(context: Context) -> Report:
    """Judge a machine and add remedies.

    What a remedy installs tells which difference a finding is about.
    """
    report, situation = evaluate(context), Situation(context)
    return replace(report, findings=tuple(with_remedy(item, situation) for item in report.findings))


def _rank(item: Difference) -> tuple[int, int, int, str, str]:
    """Rank: lost GPUs, one machine's primary cause, what must agree, then area by area."""
    links = [link for link in item.findings if link.on != "both"]
    if item.is_lost_gpu:
        weight = -1
    elif any(link.primary for link in links):
        weight = 0
    elif item.agree or any(link.severity == ERROR for link in links):
        weight = 1
    else:
        weight = 2 if item.matters else 3
    return (
        weight,
        load_comparisons().areas.index(item.area),
        1 if item.unread else 0,
        item.fact,
        item.key,
    )


def _judge(
    differences: tuple[Difference, ...], unexplained: list[LinkedFinding], machines: list[Machine]
) -> str:
    if any(item.matters for item in differences) or unexplained:
        return INCOMPATIBLE
    is_unread = any(item.unread and item.area in _DECISIVE for item in differences)
    if is_unread or any(machine.report.verdict == UNDETERMINED for machine in machines):
        return UNDETERMINED
    return COMPATIBLE


@dataclass
class FindingEvidence:
    """A finding of one machine or both, with its evidence and what its fix installs."""

    link: LinkedFinding
    evidence: tuple[Evidence, ...]
    installs: frozenset[str]


def link_findings(
    differences: Sequence[Difference], a: Report, b: Report
) -> tuple[list[Difference], list[LinkedFinding]]:
    """Add its findings to each difference.

    Return also the findings of one machine that no difference explains.

    Without a difference in its evidence, a finding of one machine belongs to the facts that its
    rule reads.
    """
    links: dict[int, list[LinkedFinding]] = {}
    unexplained: list[LinkedFinding] = []
    for item in _match_findings(a, b):
        is_shared = item.link.on == "both"
        places = [
            place
            for place, difference in enumerate(differences)
            if _is_explained_by(item, difference)
        ]
        if not places and not is_shared:
            places = _find_facts_of_rule(item.link, differences)
        for place in places:
            links.setdefault(place, []).append(item.link)
        if not places and not is_shared and item.link.severity != NOTE:
            unexplained.append(item.link)
    linked = [
        replace(item, findings=tuple(links.get(place, ())))
        for place, item in enumerate(differences)
    ]
    return linked, unexplained


def _find_facts_of_rule(link: LinkedFinding, differences: Sequence[Difference]) -> list[int]:
    """Find the differences in facts that a finding's rules read, else in the OS."""
    needs = {name for rule in RULES if link.id in rule.ids for name in rule.needs}
    read = [
        place for place, item in enumerate(differences) if item.fact in needs and _is_whole(item)
    ]
    return read or [
        place
        for place, item in enumerate(differences)
        if item.fact == "host.os" and not item.unread
    ]


def _is_whole(item: Difference) -> bool:
    """Return whether a difference is about its whole fact, not one item of hundreds."""
    return (
        not item.key
        or item.agree
        or item.fact in {"gpus", "python.extensions", "driver.device_nodes"}
    )


def _match_findings(a: Report, b: Report) -> Iterator[FindingEvidence]:
    """Match the findings of two machines by id and severity."""
    mine, other = (
        {(item.id, item.severity): item for item in report.findings} for report in (a, b)
    )
    for key in dict.fromkeys([*mine, *other]):
        findings = [item for item in (mine.get(key), other.get(key)) if item is not None]
        on = "a" if key in mine else "b"
        if len(findings) > 1:
            on = "both"
        link = LinkedFinding(key[0], on, key[1], any(item.primary for item in findings))
        evidence = tuple(each for item in findings for each in item.evidence)
        yield FindingEvidence(
            link, evidence, frozenset(name for item in findings for name in _list_installs(item))
        )


def _list_installs(finding: Finding) -> Iterator[str]:
    """List what a fix installs: `pip install 'numpy<2'` installs numpy."""
    for action in finding.fix.actions if finding.fix else ():
        if isinstance(action, InstallPackages):
            for text in action.requirements:
                yield _split_names(text)[0]


def _is_explained_by(item: FindingEvidence, difference: Difference) -> bool:
    if any(_mentions(evidence, difference) for evidence in item.evidence):
        return True
    is_about_python = any(evidence.fact.startswith("python.") for evidence in item.evidence)
    return (
        is_about_python
        and difference.fact == "python.distributions"
        and difference.key in item.installs
    )


def _mentions(evidence: Evidence, item: Difference) -> bool:
    """Return whether evidence is about a difference.

    By fact, and by key for a fact of several items.
    """
    if evidence.fact == item.fact:
        return not item.key or _mentions_key(evidence.shown, item)
    if evidence.fact in item.names or evidence.fact in {item.key, f"{item.fact} {item.key}"}:
        return True
    part = evidence.fact.removeprefix(f"{item.fact}.")
    if part != evidence.fact and item.key:  # gpus.kernel_driver is "1 kernel driver" of gpus
        return part.replace("_", " ") in item.key
    return evidence.fact.startswith(load_comparisons().facts[item.fact].evidence or "\0")


def _mentions_key(shown: str, item: Difference) -> bool:
    """Return whether evidence names one item, "numpy 2.1.0", or all: "not found"."""
    if item.fact == "gpus":
        return item.a in shown or item.b in shown or shown.endswith("found")
    names = {item.key, *(name.partition(" ")[0] for name in item.names)}
    return bool(names & set(_split_names(shown))) or shown.endswith("found")


def _split_names(shown: str) -> list[str]:
    """Split the text of evidence into names.

    "tensorflow 2.15.1: Requires-Dist numpy<2.0.0" contains numpy.
    """
    return [
        word.rstrip(".").lower() for word in re.findall(r"/dev/[\w/-]+|[A-Za-z0-9][\w.-]*", shown)
    ]
