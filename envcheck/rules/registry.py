"""The list of rules, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from envcheck.model import Finding, dataclass

if TYPE_CHECKING:
    from envcheck.rules.context import Context

Check = Callable[["Context"], Iterator[Finding]]

RULES: list[Rule] = []


@dataclass(frozen=True)
class Rule:
    """One check: the finding id it is about, the facts it cannot do without, and the goal it serves."""

    id: str
    needs: tuple[str, ...]
    goal: str  # "gpu": asked only when GPUs are meant to work; "any": always
    check: Check


def rule(finding_id: str, needs: tuple[str, ...] = (), goal: str = "gpu") -> Callable[[Check], Check]:
    """Register a check; `needs` are dotted fact names, an unknown one makes the check undetermined."""

    def register(check: Check) -> Check:
        RULES.append(Rule(finding_id, needs, goal, check))
        return check

    return register
