"""Fix an environment: turn the doctor's report on it into the transaction that takes its steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from envcheck.actions import (
    CreateEnvironment,
    InstallPackages,
    environment_python,
    fit_to_installer,
    move_environment,
)
from envcheck.diagnosis.doctor import Diagnosis, Doctor, find_changeable_environment
from envcheck.diagnosis.repair import INTERRUPTED, environment_steps, is_repairable, new_environment
from envcheck.host.paths import type_path
from envcheck.host.prerequisites import find_python
from envcheck.install.installers import (
    find_substitutes,
    find_uv_for_pip,
    installer_of,
    with_reachable_indexes,
)
from envcheck.install.judgement import FixedEnvironment
from envcheck.install.places import MARKER, place_of
from envcheck.install.transaction import Transaction, Watch, settle_earlier
from envcheck.model import (
    COMPATIBLE,
    CONDA,
    FIXED,
    PIP,
    UNCHANGED,
    UV,
    Absent,
    Action,
    Environment,
    Outcome,
    Plan,
    Step,
    Trace,
    UserError,
    dataclass,
    major_minor,
    replace,
)
from envcheck.rules.dependencies import broken_pins

_ROUNDS = 3  # a cause that is gone may uncover the next one
_LATER = Trace(reason="the doctor judges the environment after the last step")


@dataclass
class FixRequest:
    """Which environment to fix, and where its packages come from."""

    python: str = ""
    env: str = ""
    torch_index: str = ""  # a mirror of PyTorch's own index
    dry_run: bool = False


@dataclass
class Fix:
    """The doctor's report on an environment, and what takes its steps.

    Return None where no step of it changes one.
    """

    folder: str
    diagnosis: Diagnosis
    transaction: Transaction | None = None


def fix_environment(
    doctor: Doctor, asked: FixRequest, watch: Watch, take: Callable[[Fix, Transaction], Outcome]
) -> tuple[Fix, Outcome]:
    """Fix an environment cause by cause.

    Return what the doctor says then, and what came of the last transaction.

    `take` shows a transaction, has it agreed to, and runs it.
    """
    fix = plan_fix(doctor, asked, watch)
    outcome = Outcome(UNCHANGED, fix.folder)
    done: list[list[tuple[str, ...]]] = []
    while fix.transaction is not None and len(done) < _ROUNDS:
        plan = fix.transaction.plan
        commands = [step.action.command(plan.system) for step in plan.steps]
        if commands in done:
            break
        outcome = take(fix, fix.transaction)
        done.append(commands)
        if outcome.outcome != FIXED:
            break
        asked = replace(asked, python="", env=outcome.folder)
        fix = plan_fix(doctor, asked, watch)
    return fix, outcome


def plan_fix(doctor: Doctor, asked: FixRequest, watch: Watch) -> Fix:
    """Have the doctor judge an environment, by its real imports too, and plan its steps."""
    diagnosis = doctor.examine(asked.python, asked.env, is_proven=True)
    folder, reason = find_changeable_environment(diagnosis.context.facts)
    if diagnosis.context.python.is_found and not asked.dry_run:
        shown = type_path(diagnosis.context.python.prefix.value or "")
        folder = ""
        reason = f"{shown} was found here: name it with `envcheck fix --env {shown}`"
    if not folder:
        raise UserError(f"nothing was changed: {reason}.")
    place = place_of(folder)
    if settle_earlier(place, watch, dry_run=asked.dry_run):
        diagnosis = doctor.examine(asked.python, asked.env, is_proven=True)
    known = diagnosis
    # its journal is gone: the steps repair what it left, and complete it
    if (place.folder / MARKER).exists():
        known = doctor.examine(asked.python, asked.env, is_unfinished=True, is_proven=True)
    if not any(is_repairable(each.report) for each in (diagnosis, known)):
        return Fix(folder, diagnosis)
    return Fix(folder, diagnosis, make_transaction(doctor, known, folder, asked))


def make_transaction(
    doctor: Doctor, known: Diagnosis, folder: str, asked: FixRequest
) -> Transaction:
    """Return what takes a report's steps in an environment, or in its replacement."""
    report, python = known.report, known.context.python
    created = new_environment(report)
    place = place_of(created.folder if created else folder)
    target = _find_target(known, str(place.folder), folder, created)
    is_consistent = not any(broken_pins(known.context))  # no installed requirement is unmet before
    steps = _fit_steps(environment_steps(report), target, is_consistent=is_consistent)
    resolved = [name for step in report.steps for name in step.resolves] if steps else []
    if (place.folder / MARKER).exists() and (not steps or report.verdict == COMPATIBLE):
        resolved.insert(0, INTERRUPTED)
    environment = Environment(
        target.folder,
        UV if target.uv else target.installer,
        created.python if created else major_minor(python.version.value),
        known.context.platform,
    )
    resolves = tuple(dict.fromkeys(resolved))
    plan = Plan(report.goal, (), steps, resolves, environments=(environment,), system=report.system)
    plan = with_reachable_indexes(plan, asked.torch_index)
    judge = FixedEnvironment(place.folder, doctor, known, resolves, is_new=created is not None)
    before = None if created else known.context.facts
    return Transaction(place, plan, judge.judge, before, done=FIXED, ignores_marker=True)


@dataclass
class _Target:
    """The environment that steps run in, as this machine names it."""

    folder: str
    reported: str  # its folder as the facts name it: ~/project/.venv
    python: str  # its interpreter as the facts name it; "" for a new one
    interpreter: str
    installer: str
    uv: str  # stands in for pip, where the environment has none; "" where pip is there
    lacks_pip: bool
    starter: str  # starts the Python of a new environment here; "" as the report says


def _find_target(
    known: Diagnosis, place: str, folder: str, created: CreateEnvironment | None
) -> _Target:
    context = known.context
    if created is None:
        installer = installer_of(place_of(place).folder)
        lacks_pip = installer == PIP and isinstance(context.python.pip_version, Absent)
        reported = context.python.prefix.value or folder
        starter = ""
        python = context.python_program
        uv = find_uv_for_pip() if lacks_pip else ""
    else:
        installer = created.installer
        reported = created.folder
        python = ""
        needs_starter = installer == PIP and not created.starter
        starter = ""
        if needs_starter:
            starter = find_python(created.python, os.environ)
        uv = find_uv_for_pip() if needs_starter and not starter else ""  # it downloads the Python
        lacks_pip = bool(uv)
    interpreter = environment_python(place, installer, known.report.system)
    return _Target(place, reported, python, interpreter, installer, uv, lacks_pip, starter)


def _fit_steps(steps: Iterable[Step], target: _Target, *, is_consistent: bool) -> tuple[Step, ...]:
    """Return the steps as they run in the environment, in order, each with its own check."""
    actions = [_fit_action(step.action, target) for step in steps]
    python, lacks_pip = target.interpreter, target.lacks_pip
    actions = list(fit_to_installer(actions, python, lacks_pip=lacks_pip, uv=target.uv))
    last = max(
        (place for place, item in enumerate(actions) if isinstance(item, InstallPackages)),
        default=-1,
    )
    fitted = []
    for place, item in enumerate(actions):
        is_later = isinstance(item, InstallPackages) and (place != last or not is_consistent)
        fitted.append(
            Step(
                f"fix-{place + 1}",
                item,
                environment=target.folder,
                check=_LATER if is_later else None,
            )
        )
    return tuple(fitted)


def _fit_action(action: Action, target: _Target) -> Action:
    action = move_environment(action, target.reported, target.folder)
    if isinstance(action, CreateEnvironment):
        if target.starter:
            action = replace(action, starter=(target.starter,))
        elif target.uv:
            action = replace(action, installer=UV, program=target.uv)
    elif getattr(action, "python", None) == target.python:
        action = replace(action, python=target.interpreter)
    return action.with_programs(dict(find_substitutes(CONDA if target.installer == CONDA else UV)))
