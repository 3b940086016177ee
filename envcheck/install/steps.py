"""Fit the steps of a plan to this machine: programs, variables, and steps of the system."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.actions import AddPip, AskPerson, CreateEnvironment
from envcheck.actions.shells import action_line
from envcheck.install.journal import STEP, Journal
from envcheck.model import dataclass, replace
from envcheck.model.actions import CONDA, PIP, SYSTEM, Step
from envcheck.model.plans import Environment, Plan
from envcheck.plan.steps import interpreter


def is_for_a_person(step: Step) -> bool:
    """Tell whether nobody but a person can take a step: by hand, in their shell, with a name of theirs."""
    return step.action.by_person or step.action.in_shell


@dataclass(frozen=True)
class Taken:
    """A step that an installation took on the machine, or began: nothing takes it back by itself."""

    id: str
    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()
    lasting: str = ""  # why there is no undo


def written_down(step: Step, system: str, *, was_there: bool) -> dict[str, Any]:
    """Say for the journal how a step of the machine is taken back; what was there before is left alone."""
    if was_there:
        return {"undo": [], "lasting": "what it brings was there before: it is left"}
    undo = step.action.undo(system)
    return {"undo": list(undo.argv), "lasting": undo.reason}


def taken(journal: Journal) -> tuple[Taken, ...]:
    """List the steps an installation took on the machine, newest first: the order to take them back in."""
    found = [line for line in journal.lines() if line["event"] == STEP and "undo" in line]
    return tuple(
        Taken(line["id"], tuple(line["argv"]), tuple(line["undo"]), line["lasting"]) for line in reversed(found)
    )


def before_restart(steps: Sequence[Step], system: str) -> tuple[Step, ...]:
    """Return the steps; where one restarts the machine, those of the machine before it, and what to do then."""
    for place, step in enumerate(steps):
        if step.scope == SYSTEM and step.action.ends_session:
            told = f"Restart the machine ({action_line(step.action, system)}), then type the same command again."
            first = tuple(each for each in steps[:place] if each.scope == SYSTEM)
            return (*first, Step("restart", AskPerson(told, SYSTEM)))
    return tuple(steps)


Typed = Callable[[tuple[str, ...]], str]  # how a command is written for who has to type it


@dataclass(frozen=True)
class Here:
    """What the plan meets: the environment, and the programs its commands start."""

    exists: bool = False  # the environment is there: it is not made again
    has_pip: bool = True  # in that environment
    programs: tuple[tuple[str, str], ...] = ()  # name in the plan -> what to type here: conda -> micromamba
    python: tuple[str, ...] = ()  # starts the Python a new environment is made with; () as planned
    has_sudo: bool = True  # without it this is root in a container, who needs none


class AdaptError(ValueError):
    """The plan is none that one installation can carry out; the message says what to type instead."""


def adapted(plan: Plan, here: Here, *, system: bool, typed: Typed) -> Plan:
    """Return the plan as it will run; AdaptError where it makes no environment or two, or needs an administrator."""
    made = _one_environment(plan, typed)
    by_hand = [step for step in plan.steps if is_for_a_person(step) or (step.scope == SYSTEM and not system)]
    if by_hand:
        raise AdaptError(_first_by_hand(by_hand, plan.system, system=system))
    steps = [step for each in before_restart(plan.steps, plan.system) for step in _fitted(each, made, here)]
    if here.exists and not here.has_pip and made.installer == PIP:
        bring = AddPip(interpreter(made), "Bring pip into the environment.")
        steps = [Step("bring-pip", bring, environment=made.folder), *steps]
    fitted: Plan = replace(plan, steps=tuple(_for_this_machine(step, here) for step in steps))
    return fitted


def _one_environment(plan: Plan, typed: Typed) -> Environment:
    if len(plan.environments) != 1:
        each = " and ".join(f"`{typed(('envcheck', 'install', item))}`" for item in plan.requirements)
        raise AdaptError(f"these frameworks need two environments: {each}, each with an --env of its own.")
    return plan.environments[0]


def _first_by_hand(steps: list[Step], shells: str, *, system: bool) -> str:
    lines = ((step.purpose.rstrip("."), action_line(step.action, shells)) for step in steps)
    told = "; ".join(what + (f": `{line}`" if line else "") for what, line in lines)
    could = "" if system or any(map(is_for_a_person, steps)) else ", or add --system to have it done"
    who = " as an administrator" if any(step.scope == SYSTEM for step in steps) else ""
    hint = f"Do that{who}{could}; --expect cpu plans without a GPU."
    return f"the machine itself lacks something first: {told}. {hint}"


def _fitted(step: Step, made: Environment, here: Here) -> tuple[Step, ...]:
    action = step.action
    if step.scope == SYSTEM:
        return (replace(step, action=action.unattended()),)
    if not isinstance(action, CreateEnvironment):
        return (step,)
    if not here.exists:
        return (replace(step, action=replace(action, starter=here.python)) if here.python else step,)
    if made.installer != CONDA:
        return ()
    return (replace(step, action=action.into_existing("Bring conda's packages into the environment.")),)


def _for_this_machine(step: Step, here: Here) -> Step:
    action = step.action.with_programs(dict(here.programs))
    changed: Step = replace(step, action=action if here.has_sudo else action.without_sudo())
    return changed


# They put packages elsewhere, or make another Python's packages seem to be there.
_LEADS_ASTRAY = (
    "PIP_PREFIX",
    "PIP_TARGET",
    "PIP_ROOT",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "UV_PROJECT_ENVIRONMENT",
    "UV_SYSTEM_PYTHON",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
)
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1"}


def step_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the steps; what uv is told already stands."""
    from envcheck.matrix.refresh.pip_settings import ArtifactError

    kept = {name: value for name, value in environment.items() if name not in _LEADS_ASTRAY}
    try:
        told = _for_uv(environment)
    except (ArtifactError, ImportError):  # a broken file, or nobody here who reads pip's configuration
        told = {}
    return {**_for_mamba(environment), **told, **kept, **_QUIET}


def can_stand_for_pip(environment: Mapping[str, str]) -> bool:
    """Tell whether pip's configuration can be read for uv, which is told all of it but extra indexes."""
    from envcheck.matrix.refresh.pip_settings import ArtifactError, read_pip_options

    try:
        read_pip_options(environment)
    except (ArtifactError, ImportError):
        return False
    return True


def _for_mamba(environment: Mapping[str, str]) -> dict[str, str]:
    """Hand over where channels lie, which mamba and micromamba read under a name of their own."""
    alias = environment.get("CONDA_CHANNEL_ALIAS", "")
    return {"MAMBA_CHANNEL_ALIAS": alias} if alias else {}


def _for_uv(environment: Mapping[str, str]) -> dict[str, str]:
    """Hand pip's index settings to uv, which reads none of them. Raises ArtifactError, ImportError."""
    from envcheck.matrix.refresh.pip_settings import is_true, read_connection_settings, read_pip_options

    options, settings = read_pip_options(environment), read_connection_settings(environment)
    found = {
        "UV_FIND_LINKS": ",".join(options.get("find-links", "").split()),
        "UV_DEFAULT_INDEX": options.get("index-url", "").strip(),
        "UV_INSECURE_HOST": " ".join(settings.trusted_hosts),
        "SSL_CERT_FILE": settings.ca_file,
        "SSL_CLIENT_CERT": settings.client_certificate,
        "ALL_PROXY": settings.proxy,
    }
    if is_true(options.get("no-index", "")):
        # uv has no variable for "no index": kept off the network alone, it reads what it once read of one
        found["UV_OFFLINE"], found["UV_DEFAULT_INDEX"] = "1", Path(sys.prefix, "no-index").as_uri()
    return {name: value for name, value in found.items() if value}
