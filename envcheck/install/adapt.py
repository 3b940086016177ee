"""Fit a plan to what is here: the environment that is there already, the programs under the names they bear."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.install.machine import before_restart, is_for_a_person, unattended
from envcheck.model.plans import CONDA, PIP, SYSTEM, Environment, Plan, Step
from envcheck.model.records import dataclass, replaced
from envcheck.plan.paths import interpreter

_CREATE = "create-environment"
Typed = Callable[[tuple[str, ...]], str]  # how a command is written for who has to type it


@dataclass(frozen=True)
class Here:
    """What the plan meets: the environment, and the programs its commands start."""

    exists: bool = False  # the environment is there: it is not made again
    has_pip: bool = True  # in that environment
    programs: tuple[tuple[str, str], ...] = ()  # name in the plan -> what to type here: conda -> micromamba
    python: tuple[str, ...] = ()  # starts the Python a new environment is made with; () as planned


class AdaptError(ValueError):
    """The plan is none that one installation can carry out; the message says what to type instead."""


def adapted(plan: Plan, here: Here, *, system: bool, typed: Typed) -> Plan:
    """Return the plan as it will run; AdaptError where it makes no environment or two, or needs an administrator."""
    made = _one_environment(plan, typed)
    by_hand = [step for step in plan.steps if is_for_a_person(step) or (step.scope == SYSTEM and not system)]
    if by_hand:
        raise AdaptError(_first_by_hand(by_hand, typed, system=system))
    steps = [step for each in before_restart(plan.steps) for step in _fitted(each, made, here)]
    if here.exists and not here.has_pip and made.installer == PIP:
        steps = [_bring_pip(made), *steps]
    fitted: Plan = replaced(plan, steps=tuple(_renamed(step, dict(here.programs)) for step in steps))
    return fitted


def _one_environment(plan: Plan, typed: Typed) -> Environment:
    if len(plan.environments) != 1:
        each = " and ".join(f"`{typed(('envcheck', 'install', item))}`" for item in plan.requirements)
        raise AdaptError(f"these frameworks need two environments: {each}, each with an --env of its own.")
    return plan.environments[0]


def _first_by_hand(steps: list[Step], typed: Typed, *, system: bool) -> str:
    told = "; ".join(step.purpose.rstrip(".") + (f": `{typed(step.argv)}`" if step.argv else "") for step in steps)
    could = "" if system or any(map(is_for_a_person, steps)) else ", or add --system to have it done"
    who = " as an administrator" if any(step.scope == SYSTEM for step in steps) else ""
    hint = f"Do that{who}{could}; --expect cpu plans without a GPU."
    return f"the machine itself lacks something first: {told}. {hint}"


def _fitted(step: Step, made: Environment, here: Here) -> tuple[Step, ...]:
    if step.scope == SYSTEM and step.argv:
        return (unattended(step),)
    if step.id != _CREATE:
        return (step,)
    if not here.exists:
        return (_started(step, here.python),)
    if made.installer != CONDA:
        return ()
    argv = (step.argv[0], "install", *step.argv[2:])
    return (replaced(step, purpose="Bring conda's packages into the environment.", argv=argv, undo=()),)


def _started(step: Step, python: tuple[str, ...]) -> Step:
    """Start another interpreter than the plan names, for the same Python."""
    if not python or "venv" not in step.argv:
        return step
    if "-m" in step.argv:
        argv = (*python, *step.argv[step.argv.index("-m") :])
    else:
        place = step.argv.index("--python") + 1
        argv = (*step.argv[:place], python[-1], *step.argv[place + 1 :])
    started: Step = replaced(step, argv=argv)
    return started


def _bring_pip(made: Environment) -> Step:
    python = interpreter(made)
    argv = (python, "-m", "ensurepip", "--upgrade")
    verify = (python, "-m", "pip", "--version")
    return Step("bring-pip", "Bring pip into the environment.", argv, verify=verify, environment=made.folder)


def _renamed(step: Step, programs: dict[str, str]) -> Step:
    def named(argv: tuple[str, ...]) -> tuple[str, ...]:
        return (programs.get(argv[0], argv[0]), *argv[1:]) if argv else argv

    renamed: Step = replaced(step, argv=named(step.argv), verify=named(step.verify), undo=named(step.undo))
    return renamed
