"""What the machine itself needs: the rules' own fixes as steps, printed and run only when asked for."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.model import ERROR, INCOMPATIBLE, Finding, Way
from envcheck.model.plans import SYSTEM, Step
from envcheck.model.quoting import quoted
from envcheck.plan.proofs import proven, step_of
from envcheck.rules import catalogue

_NO_STEP_HELPS = ("hardware", "python")  # layers of the catalogue: the machine itself, the interpreter itself


def blockers(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """List what no step can mend: the hardware, and what the rules know no fix for."""
    wrong = (item for item in findings if item.severity == ERROR and item.verdict == INCOMPATIBLE)
    return tuple(item for item in wrong if not _is_mendable(item))


def _is_mendable(finding: Finding) -> bool:
    by_commands = finding.fix is not None and any(command.scope == SYSTEM for command in finding.fix.commands)
    return by_commands or (finding.fix is not None and catalogue()[finding.id].layer not in _NO_STEP_HELPS)


def system_steps(findings: Iterable[Finding], *, consequences: bool = False) -> tuple[Step, ...]:
    """Turn the fixes of what is wrong with the machine into steps; what only a person can do has no command.

    `consequences` are steps of their own where each of them is a thing to install on the system: what the rules would
    put into the environment that was read, a planned one does not see.
    """
    steps: list[Step] = []
    for finding in findings:
        is_wrong = finding.severity == ERROR and finding.verdict == INCOMPATIBLE
        if is_wrong and _is_mendable(finding) and (consequences or finding.caused_by is None):
            steps += _steps(finding, everything=not consequences)
    return tuple(steps)


def other_ways(findings: Iterable[Finding], system: str) -> tuple[str, ...]:
    """Say what could be done in place of such steps."""
    wrong = [item for item in findings if item.severity == ERROR and item.verdict == INCOMPATIBLE]
    mended = [item for item in wrong if item.fix is not None and item.caused_by is None and _is_mendable(item)]
    return tuple(
        " ".join([f"In place of the steps for {item.id}: {way.summary}", *_typed(way, system)])
        for item in mended
        for way in (item.fix.alternatives if item.fix else ())
    )


def _typed(way: Way, system: str) -> list[str]:
    return [f"$ {quoted(command.argv, system)}" for command in way.commands]


def _steps(finding: Finding, *, everything: bool) -> list[Step]:
    fix = finding.fix
    assert fix is not None  # noqa: S101 - asked for findings with a fix
    if not fix.commands or not (everything or all(command.scope == SYSTEM for command in fix.commands)):
        return [proven(Step(finding.id, fix.summary, (), scope=SYSTEM, resolves=(finding.id,)))]
    many = len(fix.commands) > 1
    return [
        step_of(f"{finding.id}-{number}" if many else finding.id, command, fix.summary, finding.id)
        for number, command in enumerate(fix.commands, 1)
    ]
