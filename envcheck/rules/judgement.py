"""Judge releases on a machine.

`doctor --for`, `plan`, `check` and `matrix query` all ask here, so they agree.
"""

from __future__ import annotations

from functools import cached_property

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOT_STATED,
    NOTE,
    UNDETERMINED,
    Facts,
    Finding,
    Report,
    replace,
)
from envcheck.rules.catalogue import catalogue, rank_findings
from envcheck.rules.context import Context
from envcheck.rules.engine import conclude, find

_NO_FRAMEWORK = "framework-missing"  # a machine without a framework has nothing wrong with it


class Judgement:
    """Whether a release works on a machine.

    What is wrong with the machine itself stands in the report alone.
    """

    def __init__(self, context: Context, judge: ReleaseJudge, only: frozenset[str]) -> None:
        """Judge the machine with the release; the judge knows the machine without it."""
        self._context, self._judge = context, judge
        self._found, self._checked = find(context, only)

    @cached_property
    def report(self) -> Report:
        """Return the report on the machine with the release."""
        return conclude(
            self._context,
            self._found,
            sorted(self._checked, key=lambda name: catalogue()[name].rank),
        )

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return rank_findings(self._found)

    @cached_property
    def _errors(self) -> tuple[Finding, ...]:
        errors = [
            item for item in self._findings if item.severity == ERROR and not is_unstated(item)
        ]
        if not errors:
            return ()
        machine_errors = {item.key for item in self._judge.machine_findings}
        return tuple(item for item in errors if item.key not in machine_errors)

    @cached_property
    def errors(self) -> tuple[Finding, ...]:
        """List the reasons why the release does not work."""
        return tuple(item for item in self._errors if item.verdict != UNDETERMINED)

    @cached_property
    def doubts(self) -> tuple[Finding, ...]:
        """List the reasons why that is undetermined."""
        return tuple(item for item in self._errors if item.verdict == UNDETERMINED)

    @cached_property
    def warnings(self) -> tuple[Finding, ...]:
        """List the warnings, and the notes on what is undetermined."""
        items = (
            item for item in self._findings if item.severity != ERROR and not is_unstated(item)
        )
        return tuple(
            item for item in items if item.severity != NOTE or item.verdict == UNDETERMINED
        )

    @property
    def verdict(self) -> str:
        """Return COMPATIBLE, INCOMPATIBLE or UNDETERMINED."""
        if self.errors:
            return INCOMPATIBLE
        if self.doubts:
            return UNDETERMINED
        return COMPATIBLE


class ReleaseJudge:
    """Judges many releases on one machine, whose own findings are worked out once."""

    def __init__(self, context: Context, only: frozenset[str] = frozenset()) -> None:
        """Take the machine, and the finding ids to which the checks are limited; empty: all."""
        self.context, self._only = context, only
        self._machines: dict[tuple[int, bool], Context] = {}  # by the identity of the facts

    @cached_property
    def machine_findings(self) -> tuple[Finding, ...]:
        """List what is wrong with the machine whichever release is chosen."""
        findings = rank_findings(find(self._asking(()), self._only)[0])
        return tuple(
            item for item in findings if item.id != _NO_FRAMEWORK and not is_unstated(item)
        )

    def judge(
        self,
        requirements: tuple[str, ...],
        facts: Facts | None = None,
        *,
        only: frozenset[str] = frozenset(),
    ) -> Judgement:
        """Judge the release that requirements ask for together.

        `facts` describe the machine with what it brings.

        `only` limits the checks of this release alone. Raises RequestError for a requirement that
        cannot be judged.
        """
        return Judgement(self._asking(requirements, facts), self, only or self._only)

    def _asking(self, requirements: tuple[str, ...], facts: Facts | None = None) -> Context:
        facts = facts or self.context.facts
        key = id(facts), bool(requirements)
        if key not in self._machines:
            target = replace(
                self.context.target, expect=self.context.goal, requirements=requirements
            )
            self._machines[key] = Context(facts, self.context.matrix, target)
        return self._machines[key].with_requirements(requirements)


def judge_release(context: Context, only: frozenset[str] = frozenset()) -> Judgement:
    """Judge the releases that a context's target asks for.

    `only` limits the checks to some finding ids.

    Raises RequestError for a requirement that cannot be judged.
    """
    return Judgement(context, ReleaseJudge(context, only), only)


def is_unstated(finding: Finding) -> bool:
    """Return whether a check waits for a fact that the description of a machine leaves open."""
    return finding.id == "probe-failed" and all(
        NOT_STATED.detail in item.shown for item in finding.evidence
    )
