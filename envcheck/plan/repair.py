"""The plan that mends what a report found: each cause's fix as steps, nothing twice, in the order of the causes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.model import INCOMPATIBLE, NOTE, Command, Finding, Report, replace
from envcheck.model.plans import SYSTEM, USER, Plan, Step
from envcheck.plan.proofs import folder_made, proven, step_of
from envcheck.rules.catalogue import catalogue

_PIP = ("-m", "pip", "install")
_OF_THE_MACHINE = ("hardware", "driver")  # layers of the catalogue
_OF_A_RUN = frozenset(
    {"benign-noise", "device-placement", "gpu-memory-exhausted", "multi-gpu-p2p-nccl", "program-error", "smoke-failed"}
)  # which no rule of the doctor decides: only what ran could tell


def repair_plan(report: Report) -> Plan:
    """Turn the fixes of a report's causes into one plan; what one pip command can do together it does together.

    What only a person can do is a step without a command; other ways are no steps. What a finding says is verified by
    the doctor once its last step is taken, each step before by what its own command leaves behind.
    """
    steps: list[Step] = []
    last: dict[str, int] = {}
    for finding in report.findings:
        if finding.caused_by is None and finding.fix is not None:
            for command in finding.fix.commands:
                last[finding.id] = _add(steps, command, finding, report.system)
            if not finding.fix.commands:
                last[finding.id] = _add_by_hand(steps, finding, finding.fix.summary)
    # A note's check may fail for other reasons than the step: nothing to verify it by.
    wrong = {item.id for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE} - _OF_A_RUN
    named = tuple(
        _checked(report, steps, number, [name for name in last if last[name] == number and name in wrong])
        for number in range(1, len(steps) + 1)
    )
    resolves = tuple(dict.fromkeys(name for step in named for name in step.resolves))
    return Plan(report.goal, (), named, resolves=resolves)


def steps_for(plan: Plan, finding: Finding, findings: Sequence[Finding] = ()) -> tuple[str, ...]:
    """Name the steps that resolve a finding: its own, or those of its cause, which `findings` may trace further."""
    wanted = root_of(finding, findings)
    return tuple(step.id for step in plan.steps if wanted in step.resolves)


def root_of(finding: Finding, findings: Sequence[Finding]) -> str:
    """Follow a finding to the id of the cause that is nobody's consequence."""
    causes = {item.id: item.caused_by for item in findings if item.caused_by is not None}
    roots = {item.id for item in findings if item.caused_by is None}
    wanted, seen = finding.caused_by or finding.id, {finding.id}
    while wanted not in roots and wanted in causes and wanted not in seen:
        seen.add(wanted)
        wanted = causes[wanted]
    return wanted


def _add(steps: list[Step], command: Command, finding: Finding, system: str) -> int:
    """Add a command, to a step that can do it too or as one of its own; return the number of that step."""
    for place, step in enumerate(steps):
        joined = _joined(step.argv, command.argv)
        if joined is not None:
            resolves = tuple(dict.fromkeys((*step.resolves, finding.id)))
            steps[place] = proven(replace(step, argv=joined, resolves=resolves), system)
            return place + 1
    steps.append(step_of("", command, finding.fix.summary if finding.fix else "", finding.id, system))
    return len(steps)


def _add_by_hand(steps: list[Step], finding: Finding, what: str) -> int:
    scope = SYSTEM if catalogue()[finding.id].layer in _OF_THE_MACHINE else USER
    steps.append(proven(Step("", what, (), scope=scope, resolves=(finding.id,))))
    return len(steps)


def _checked(report: Report, steps: list[Step], number: int, mended: list[str]) -> Step:
    """Name a step by its number, and have the doctor see what is mended once it is taken."""
    step: Step = replace(steps[number - 1], id=f"step-{number}")
    if not mended:
        return step
    made = [folder_made(one.argv) for one in steps[:number] if set(one.resolves) & set(step.resolves)]
    new = next(filter(None, reversed(made)), "")
    looked_at = ("--env", new) if new else report.inspected
    doctor = ("envcheck", "doctor", *looked_at, *report.wanted, "--only", ",".join(mended))
    checked: Step = replace(step, verify=doctor, unverified="")
    return checked


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
