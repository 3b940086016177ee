"""The doctor's rules on what the facts and the log state about the machine, as claims beside the log's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from envcheck.explain.log import Claim, Log
from envcheck.explain.stated import stated_facts
from envcheck.model.findings import ERROR, INCOMPATIBLE, NOTE, Finding, Report
from envcheck.model.records import dataclass
from envcheck.rules.catalogue import catalogue

if TYPE_CHECKING:
    from envcheck.rules.context import Context, Target

Mend = Callable[
    ["Report", "Context"], "Report"
]  # puts the planner's commands in the place of fixes, as the doctor does
_ALONE = 68  # what the machine's facts show, where the log does not speak of it
_EXPLAINS = 97  # ... where they explain what the log complains about
_WARNING = 40
_DECIDED = 70  # a message of this weight tells its cause by itself
_PLAIN = 85  # ... and of this one beyond what a log states about the machine in passing


@dataclass(frozen=True)
class Machine:
    """What the rules found in the facts."""

    findings: tuple[Finding, ...]
    given: bool = False  # by a snapshot, not by the log alone
    checked: tuple[str, ...] = ()  # ids of the rules that ran

    def finding(self, finding_id: str) -> Finding | None:
        """Return the doctor's finding of an id."""
        return next((item for item in self.findings if item.id == finding_id), None)

    def claims(self, said: Sequence[Claim]) -> Iterator[Claim]:
        """Weigh what the rules found by how well it explains what the log says."""
        top = max(said, key=lambda claim: claim.weight, default=None)
        for item in self.findings:
            yield Claim(item.id, self._weight(item, said, top), item.message, (), item.severity)

    def _weight(self, item: Finding, said: Sequence[Claim], top: Claim | None) -> int:
        explained = {*catalogue()[item.id].explains, item.id}
        if top is not None and item.id != top.id and top.weight >= _PLAIN and not self.given:
            return 1
        if top is not None and top.id in explained and (item.severity == ERROR or item.id == top.id):
            return _EXPLAINS
        if item.severity != ERROR or item.caused_by:
            return _WARNING if top is None or top.weight < _WARNING else 1
        supported = any(claim.id in explained or item.id in claim.rivals for claim in said)
        if top is not None and top.weight >= _DECIDED and not supported:
            return 1
        return _ALONE + (12 if supported else 0)


def machine_findings(log: Log, mend: Mend | None = None, target: Target | None = None) -> Machine:
    """Run the rules where the facts, or the log itself, say something of the machine; `mend` gives them the plan."""
    facts = stated_facts(log)
    if facts is None:
        return Machine(())
    from envcheck.explain.asked import target_of
    from envcheck.rules import Context, evaluate

    context = Context(facts, log.matrix, target_of(log, target))
    report = evaluate(context)
    if mend is not None:
        report = mend(report, context)
    found = tuple(item for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE)
    return Machine(found, log.with_facts, report.checked)
