"""The steps that mend what a report found.

Each cause's remedy, nothing twice, fitted to the environment.
"""

from __future__ import annotations

from collections.abc import Callable

from envcheck.actions import (
    AskPerson,
    CreateEnvironment,
    InstallPackages,
    RunEnvcheck,
    changes_environment,
    find_free_folder,
    move_environment,
)
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOTE,
    SYSTEM,
    USER,
    Action,
    Finding,
    Report,
    Step,
    Trace,
    replace,
)
from envcheck.rules.catalogue import catalogue

_MACHINE_LAYERS = ("hardware", "driver")  # layers of the catalogue
_RUN_FINDINGS = frozenset(
    [
        "benign-noise",
        "build-isolation",
        "build-tools-missing",
        "device-placement",
        "disk-full",
        "engine-mismatch",
        "gpu-memory-exhausted",
        "import-failed",
        "multi-gpu-p2p-nccl",
        "plugin-failed",
        "program-error",
        "smoke-failed",
        "wheel-incomplete",
    ]
)  # which no rule of the doctor decides: only what ran could tell


def with_steps(report: Report) -> Report:
    """Give a report the steps that mend it; what one pip command can do together it does together.

    What only a person can do is a step without a command; other ways are no steps. What a finding
    says is verified by the doctor once its last step is taken, each step before by what its own
    command leaves behind.
    """
    steps: list[Step] = []
    last: dict[str, int] = {}
    for finding in report.findings:
        if finding.caused_by is None and finding.fix is not None:
            for action in finding.fix.actions or (
                _build_manual_step(finding, finding.fix.summary),
            ):
                last[finding.id] = _add(steps, action.with_purpose(finding.fix.summary), finding.id)
    # A note's check may fail for other reasons than the step: nothing to verify it by.
    checkable = {
        item.id
        for item in report.findings
        if item.verdict == INCOMPATIBLE and item.severity != NOTE
    } - _RUN_FINDINGS
    numbered = tuple(
        _with_check(
            report,
            steps,
            number,
            [name for name in last if last[name] == number and name in checkable],
        )
        for number in range(1, len(steps) + 1)
    )
    return replace(report, steps=numbered)


def _add(steps: list[Step], action: Action, finding_id: str) -> int:
    """Add an action, to a step that can do it too or as a step of its own.

    Return the number of that step.
    """
    for place, step in enumerate(steps):
        joined = _join(step.action, action)
        if joined is not None:
            resolves = tuple(dict.fromkeys((*step.resolves, finding_id)))
            steps[place] = replace(step, action=joined, resolves=resolves)
            return place + 1
    steps.append(Step("", action, (finding_id,)))
    return len(steps)


def _join(first: Action, second: Action) -> Action | None:
    """Join two actions into one; None where they stay two."""
    if first == second or replace(second, purpose=first.purpose) == first:
        return first
    if isinstance(first, InstallPackages):
        return first.joined_with(second)
    return None


def _build_manual_step(finding: Finding, summary: str) -> AskPerson:
    return AskPerson(summary, SYSTEM if catalogue()[finding.id].layer in _MACHINE_LAYERS else USER)


def _with_check(report: Report, steps: list[Step], number: int, resolved: list[str]) -> Step:
    """Name a step by its number, and have the doctor see what is mended once it is taken."""
    step: Step = replace(steps[number - 1], id=f"step-{number}")
    if not resolved:
        return step
    actions = [one.action for one in steps[:number] if set(one.resolves) & set(step.resolves)]
    folders = [
        action.folder
        for action in actions
        if isinstance(action, CreateEnvironment) and action.folder
    ]
    target = ("--env", folders[-1]) if folders else report.inspected
    doctor = RunEnvcheck(("doctor", *target, *report.wanted, "--only", ",".join(resolved)))
    return replace(step, check=Trace(doctor.command()))


def mark_existing_folders(report: Report, exists: Callable[[str], bool]) -> Report:
    """Have no remedy make an environment in a folder that is there.

    It takes a free one, and says so.
    """
    findings = tuple(_take_free_folders(item, exists) for item in report.findings)
    return replace(report, findings=findings)


def _take_free_folders(finding: Finding, exists: Callable[[str], bool]) -> Finding:
    fix = finding.fix
    if fix:
        every = (*fix.actions, *(action for way in fix.alternatives for action in way.actions))
    else:
        every = ()
    folders = {item.folder for item in every if isinstance(item, CreateEnvironment) and item.folder}
    taken = sorted(filter(exists, folders))
    if fix is None or not taken:
        return finding
    for folder in taken:
        free = find_free_folder(folder, exists)
        summary = (
            f"{fix.summary} {folder} already exists and stays as it is:"
            f" the new environment is {free}."
        )
        fix = replace(move_environment(fix, folder, free), summary=summary)
    return replace(finding, fix=fix)


def environment_steps(report: Report) -> tuple[Step, ...]:
    """List the steps that one environment needs and a program can take: those of `envcheck fix`.

    Where they make a new environment, the steps for what is there are left out: the new one
    replaces it.
    """
    runnable = [step for step in report.steps if changes_environment(step.action)]
    creations = [step for step in report.steps if isinstance(step.action, CreateEnvironment)]
    for_person = {
        name for step in creations if not changes_environment(step.action) for name in step.resolves
    }
    runnable = [step for step in runnable if not for_person & set(step.resolves)]
    created = {
        name
        for step in runnable
        if isinstance(step.action, CreateEnvironment)
        for name in step.resolves
    }
    return tuple(step for step in runnable if not created or created & set(step.resolves))


INTERRUPTED = "install-interrupted"  # the finding that goes with the marker of an installation


def is_repairable(report: Report) -> bool:
    """Return whether `envcheck fix` changes the environment.

    It takes steps, or completes what was interrupted.
    """
    return bool(environment_steps(report)) or _is_completed(report)


def _is_completed(report: Report) -> bool:
    """Return whether an installation lost its journal, and left nothing else wrong."""
    if not any(map(_runs_fix, report.steps)):
        return False
    errors = (item for item in report.findings if item.severity == ERROR)
    own = (item for item in errors if INTERRUPTED not in {item.id, item.caused_by})
    return all(catalogue()[item.id].layer in _MACHINE_LAYERS for item in own)


def _runs_fix(step: Step) -> bool:
    return isinstance(step.action, RunEnvcheck) and step.action.fixes_environment


def with_fix_command(report: Report, project: str = "") -> Report:
    """Name the command that fixes the environment.

    `project` is the file whose requirements were judged.
    """
    if not is_repairable(report):
        return report
    goal = ("--config", project) if project else report.wanted
    return replace(report, fix_command=("fix", *report.inspected, *goal))


def remaining_steps(report: Report) -> tuple[Step, ...]:
    """List the steps of a report that a person takes.

    Those on the system, in a shell, and those without a command.
    """
    return tuple(
        step for step in report.steps if not (changes_environment(step.action) or _runs_fix(step))
    )


def new_environment(report: Report) -> CreateEnvironment | None:
    """Return the action that makes a new environment in place of the judged one, or None."""
    actions = (step.action for step in environment_steps(report))
    return next((item for item in actions if isinstance(item, CreateEnvironment)), None)
