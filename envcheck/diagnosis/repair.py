"""The steps that mend what a report found: each cause's remedy, nothing twice, fitted to the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envcheck.actions import (
    AddPip,
    AskPerson,
    CreateEnvironment,
    InstallPackages,
    RunEnvcheck,
    UpgradePip,
    changes_environment,
    environment_python,
    find_free_folder,
    move_environment,
)
from envcheck.model import (
    INCOMPATIBLE,
    NOTE,
    PIP,
    SYSTEM,
    USER,
    UV,
    Action,
    Environment,
    Finding,
    Report,
    Step,
    Trace,
    dataclass,
    replace,
)
from envcheck.rules.catalogue import catalogue

_MACHINE_LAYERS = ("hardware", "driver")  # layers of the catalogue
_RUN_FINDINGS = frozenset(
    [
        "benign-noise",
        "device-placement",
        "gpu-memory-exhausted",
        "multi-gpu-p2p-nccl",
        "plugin-failed",
        "program-error",
        "smoke-failed",
    ]
)  # which no rule of the doctor decides: only what ran could tell
_LATER = Trace(reason="the doctor judges the environment after the last step")


def with_steps(report: Report) -> Report:
    """Give a report the steps that mend it; what one pip command can do together it does together.

    What only a person can do is a step without a command; other ways are no steps. What a finding says is verified by
    the doctor once its last step is taken, each step before by what its own command leaves behind.
    """
    steps: list[Step] = []
    last: dict[str, int] = {}
    for finding in report.findings:
        if finding.caused_by is None and finding.fix is not None:
            for action in finding.fix.actions or (_build_manual_step(finding, finding.fix.summary),):
                last[finding.id] = _add(steps, action.with_purpose(finding.fix.summary), finding.id)
    # A note's check may fail for other reasons than the step: nothing to verify it by.
    checkable = {
        item.id for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE
    } - _RUN_FINDINGS
    numbered = tuple(
        _with_check(report, steps, number, [name for name in last if last[name] == number and name in checkable])
        for number in range(1, len(steps) + 1)
    )
    changed: Report = replace(report, steps=numbered)
    return changed


def _add(steps: list[Step], action: Action, finding_id: str) -> int:
    """Add an action, to a step that can do it too or as a step of its own; return the number of that step."""
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
    return first.joined_with(second) if isinstance(first, InstallPackages) else None


def _build_manual_step(finding: Finding, summary: str) -> AskPerson:
    return AskPerson(summary, SYSTEM if catalogue()[finding.id].layer in _MACHINE_LAYERS else USER)


def _with_check(report: Report, steps: list[Step], number: int, resolved: list[str]) -> Step:
    """Name a step by its number, and have the doctor see what is mended once it is taken."""
    step: Step = replace(steps[number - 1], id=f"step-{number}")
    if not resolved:
        return step
    actions = [one.action for one in steps[:number] if set(one.resolves) & set(step.resolves)]
    folders = [action.folder for action in actions if isinstance(action, CreateEnvironment) and action.folder]
    target = ("--env", folders[-1]) if folders else report.inspected
    doctor = RunEnvcheck(("doctor", *target, *report.wanted, "--only", ",".join(resolved)))
    changed: Step = replace(step, check=Trace(doctor.command()))
    return changed


def mark_existing_folders(report: Report, exists: Callable[[str], bool]) -> Report:
    """Have no remedy make an environment in a folder that is there: it takes a free one, and says so."""
    findings = tuple(_take_free_folders(item, exists) for item in report.findings)
    changed: Report = replace(report, findings=findings)
    return changed


def _take_free_folders(finding: Finding, exists: Callable[[str], bool]) -> Finding:
    fix = finding.fix
    every = (*fix.actions, *(action for way in fix.alternatives for action in way.actions)) if fix else ()
    folders = {item.folder for item in every if isinstance(item, CreateEnvironment) and item.folder}
    taken = sorted(filter(exists, folders))
    if fix is None or not taken:
        return finding
    for folder in taken:
        free = find_free_folder(folder, exists)
        summary = f"{fix.summary} {folder} already exists and stays as it is: the new environment is {free}."
        fix = replace(move_environment(fix, folder, free), summary=summary)
    changed: Finding = replace(finding, fix=fix)
    return changed


def environment_steps(report: Report) -> tuple[Step, ...]:
    """List the steps that one environment needs and a program can take: those of `envcheck fix`.

    Where they make a new environment, the steps for what is there are left out: the new one replaces it.
    """
    runnable = [step for step in report.steps if changes_environment(step.action)]
    creations = [step for step in report.steps if isinstance(step.action, CreateEnvironment)]
    for_person = {name for step in creations if not changes_environment(step.action) for name in step.resolves}
    runnable = [step for step in runnable if not for_person & set(step.resolves)]
    created = {name for step in runnable if isinstance(step.action, CreateEnvironment) for name in step.resolves}
    return tuple(step for step in runnable if not created or created & set(step.resolves))


def with_fix_command(report: Report, project: str = "") -> Report:
    """Name the command that takes the environment's steps; `project` is the file whose requirements were judged."""
    if not environment_steps(report):
        return report
    goal = ("--config", project) if project else report.wanted
    changed: Report = replace(report, fix_command=("fix", *report.inspected, *goal))
    return changed


@dataclass(frozen=True)
class FixTarget:
    """The environment that steps run in, as this machine names it."""

    folder: str
    reported: str  # its folder as the facts name it: ~/project/.venv
    python: str  # its interpreter as the facts name it
    platform: str
    installer: str = PIP  # or conda
    system: str = ""
    uv: str = ""  # stands in for pip, where the environment has none; "" where pip is there
    lacks_pip: bool = False
    programs: tuple[tuple[str, str], ...] = ()  # name in a step -> what to start here: conda -> micromamba
    is_consistent: bool = True  # no installed requirement is unmet before
    starter: str = ""  # starts the Python of a new environment here; "" as the report says

    @property
    def interpreter(self) -> str:
        """Return the path of its interpreter."""
        return environment_python(self.folder, self.installer, windows=self.system == "windows")


def fit_steps(report: Report, target: FixTarget) -> tuple[Step, ...]:
    """Return the steps of a report that run in the environment, in order, each with its own check."""
    actions = [_fit(step.action, target) for step in environment_steps(report)]
    if target.uv:
        actions = [item for item in actions if not isinstance(item, (AddPip, UpgradePip))]
    elif target.lacks_pip and _needs_pip(actions, target):
        actions.insert(0, AddPip(target.interpreter, "Bring pip into the environment."))
    last = max((place for place, item in enumerate(actions) if isinstance(item, InstallPackages)), default=-1)
    return tuple(
        Step(
            f"fix-{place + 1}",
            item,
            environment=target.folder,
            check=_LATER if isinstance(item, InstallPackages) and (place != last or not target.is_consistent) else None,
        )
        for place, item in enumerate(actions)
    )


def remaining_steps(report: Report) -> tuple[Step, ...]:
    """List the steps of a report that a person takes: those on the system, in a shell, and those without a command."""
    own = environment_steps(report)
    return tuple(step for step in report.steps if step not in own and not changes_environment(step.action))


def new_environment(report: Report) -> CreateEnvironment | None:
    """Return the action that makes a new environment in place of the one that was judged; None where none does."""
    actions = (step.action for step in environment_steps(report))
    return next((item for item in actions if isinstance(item, CreateEnvironment)), None)


def describe_environment(target: FixTarget, python: str) -> Environment:
    """Describe the environment for the checks before an installation."""
    return Environment(target.folder, UV if target.uv else target.installer, python, target.platform)


def _fit(action: Action, target: FixTarget) -> Action:
    action = action.moved(target.reported, target.folder)
    if getattr(action, "python", None) == target.python and not isinstance(action, CreateEnvironment):
        action = replace(action, python=target.interpreter)
    if isinstance(action, CreateEnvironment) and target.starter:
        action = replace(action, starter=(target.starter,))
    if target.uv and _is_by_pip(action):
        action = replace(action, installer=UV, program=target.uv)
    return action.with_programs(dict(target.programs))


def _needs_pip(actions: Iterable[Action], target: FixTarget) -> bool:
    own = [item for item in actions if getattr(item, "python", "") == target.interpreter]
    return any(map(_is_by_pip, own)) and not any(isinstance(item, AddPip) for item in own)


def _is_by_pip(action: Action) -> bool:
    """Tell whether pip does it: an installation, a removal, an environment for it."""
    return getattr(action, "installer", "") == PIP and bool(getattr(action, "python", ""))
