"""The plan that mends what a report found: each cause's fix as steps, nothing twice, in the order of the causes."""

from __future__ import annotations

import re

from envcheck.model.findings import INCOMPATIBLE, NOTE, Command, Finding, Report
from envcheck.model.plans import Plan, Step
from envcheck.model.records import replaced
from envcheck.plan.paths import removal_of

_PIP = ("-m", "pip", "install")


def repair_plan(report: Report) -> Plan:
    """Turn the fixes of a report's causes into one plan; what one pip command can do together it does together."""
    steps: list[Step] = []
    for finding in report.findings:
        if finding.caused_by is None and finding.fix is not None:
            for command in finding.fix.commands:
                _add(steps, command, finding, report.system)
    named = tuple(replaced(step, id=f"step-{number}") for number, step in enumerate(steps, 1))
    resolves = tuple(dict.fromkeys(name for step in named for name in step.resolves))
    return Plan(report.goal, (), named, resolves=resolves)


def steps_for(plan: Plan, finding: Finding) -> tuple[str, ...]:
    """Name the steps that resolve a finding: its own, or those of its cause."""
    wanted = finding.caused_by or finding.id
    return tuple(step.id for step in plan.steps if wanted in step.resolves)


def _add(steps: list[Step], command: Command, finding: Finding, system: str) -> None:
    for place, step in enumerate(steps):
        joined = _joined(step.argv, command.argv)
        if joined is not None:
            resolves = tuple(dict.fromkeys((*step.resolves, finding.id)))
            steps[place] = replaced(step, argv=joined, resolves=resolves, verify=_verify(resolves))
            return
    purpose = command.purpose or (finding.fix.summary if finding.fix else "")
    # A note's check may fail for other reasons than the step: nothing to verify it by.
    verify = _verify((finding.id,)) if finding.verdict == INCOMPATIBLE and finding.severity != NOTE else ()
    steps.append(
        Step(
            "",
            purpose,
            command.argv,
            scope=command.scope,
            verify=verify,
            undo=_undo(command, system),
            resolves=(finding.id,),
        )
    )


def _verify(resolves: tuple[str, ...]) -> tuple[str, ...]:
    return ("envcheck", "doctor", "--only", ",".join(resolves))


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...] | None:
    """Join two pip commands for one environment and index; what the first says of a name stands. None: two steps."""
    if first == second:
        return first
    if first[1:4] != _PIP or first[:4] != second[:4] or _options(first) != _options(second) or "--index-url" in first:
        return None
    kept = {_name(word): word for word in (*_requirements(second), *_requirements(first))}
    ordered = dict.fromkeys(_name(word) for word in (*_requirements(first), *_requirements(second)))
    return (*first[:4], *_options(first), *(kept[name] for name in ordered))


def _options(argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in argv[4:] if word.startswith("--"))


def _requirements(argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in argv[4:] if not word.startswith("--"))


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found.group() if found else requirement


def _undo(command: Command, system: str) -> tuple[str, ...]:
    """Undo what can be undone by a command: an environment that was not there before."""
    is_new = command.argv[-3:-1] == ("-m", "venv")
    return removal_of(command.argv[-1], windows=system == "windows") if is_new else ()
