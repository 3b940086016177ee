"""Plan an installation for this machine.

The releases, the environment that takes them, and the steps as they run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from envcheck.actions import (
    EVERY_SHELL,
    AddPip,
    AskPerson,
    CreateEnvironment,
    action_line,
    type_here,
)
from envcheck.diagnosis.doctor import Doctor
from envcheck.host.prerequisites import find_program, find_python
from envcheck.install.installers import (
    find_substitutes,
    find_uv_for_pip,
    installer_of,
    with_reachable_indexes,
)
from envcheck.install.judgement import PlannedEnvironment, Smoke
from envcheck.install.places import Place
from envcheck.install.preflight import describe_closed_index
from envcheck.install.transaction import Transaction
from envcheck.model import (
    COMPATIBLE,
    CONDA,
    PIP,
    SYSTEM,
    UV,
    Absent,
    Environment,
    Facts,
    Plan,
    Step,
    UserError,
    dataclass,
    major_minor,
    replace,
)
from envcheck.plan.build import InstalledFramework, verdict_on
from envcheck.plan.planner import in_place, make_resolver, plan_project
from envcheck.plan.project import ProjectLines
from envcheck.plan.requests import PlanOptions
from envcheck.plan.steps import interpreter
from envcheck.rules import Target
from envcheck.rules.described_machine import Description

if TYPE_CHECKING:
    from envcheck.matrix import Matrix


@dataclass
class InstallRequest:
    """What to install, and how to plan it."""

    requirements: tuple[str, ...]
    folder: str = ""
    python: str = ""
    installer: str = ""
    expect: str = "auto"
    torch_index: str = ""  # a mirror of PyTorch's own index
    verify: bool | Literal["wheels"] = False  # as for api.plan
    verify_timeout: float = 300.0
    system: bool = False  # the steps that change the machine may run, too
    project: ProjectLines | None = None  # what files ask for besides
    upgrade: bool = False  # what works is replaced by the newest release that works


@dataclass
class InstallPlan:
    """The plan as it will run, and the facts of the environment (None: a new one)."""

    plan: Plan
    facts: Facts | None
    # frameworks of that environment that stay as they are
    kept: tuple[InstalledFramework, ...] = ()
    is_satisfied: bool = False  # they are all that is asked for: there is nothing to do

    def transaction(self, place: Place, doctor: Doctor, smoke: Smoke | None = None) -> Transaction:
        """Return what runs the plan, and lets the doctor decide whether its result counts."""
        judging = replace(doctor, target=Target(self.plan.goal))
        wanted = PlannedEnvironment(place.folder, self.plan, judging, self.facts, self.kept, smoke)
        return Transaction(place, self.plan, wanted.judge, self.facts)


def plan_installation(asked: InstallRequest, place: Place, doctor: Doctor) -> InstallPlan:
    """Plan, and fit the plan to this machine.

    Raises UserError if that fails, returns a blocked plan.
    """
    facts = _read_environment(asked, place, doctor) if place.is_taken else None
    return _Planner(asked, place, doctor.matrix, facts, facts or doctor.read("", "").facts).plan()


@dataclass
class _Planner:
    """Plans what was asked for on this machine."""

    asked: InstallRequest
    place: Place
    matrix: Matrix
    facts: Facts | None  # of the environment that is there
    machine: Facts  # with that environment
    on_default_index: bool = False  # with no build of a framework's own index

    def plan(self) -> InstallPlan:
        """Plan with the installer that is asked for, that the environment has, or that is here."""
        asked, facts = self.asked, self.facts
        installer = asked.installer
        if not installer and facts is not None and installer_of(self.place.folder) == CONDA:
            installer = CONDA
        said = Description(python="" if facts is not None else asked.python)
        options = PlanOptions(
            asked.expect,
            installer,
            asked.folder,
            description=said,
            upgrade=asked.upgrade,
            shells=EVERY_SHELL,
            repeat_options=("--torch-index", asked.torch_index) if asked.torch_index else (),
        )
        finish = partial(with_reachable_indexes, mirror=asked.torch_index)
        resolver = make_resolver(
            asked.verify, asked.verify_timeout, finish, keeps=facts is not None
        )
        update = plan_project(
            asked.project,
            asked.requirements,
            options,
            self.matrix,
            self.machine,
            resolver=resolver,
            installed=facts,
            choose_installer=None if installer else _prefer_uv,
        )
        plan = update.plan if resolver else finish(update.plan)
        if update.is_satisfied or not plan.releases or plan.blocked_by:
            return InstallPlan(plan, facts, update.unchanged, update.is_satisfied)
        without_index = self.plan_without_index(plan)
        return without_index or InstallPlan(
            adapt_plan(plan, self.read_surroundings(plan)), facts, update.unchanged
        )

    def plan_without_index(self, plan: Plan) -> InstallPlan | None:
        """Plan with builds of the default index where a framework's own does not answer.

        Return None where there is none.
        """
        if self.on_default_index or self.asked.torch_index:
            return None
        sets = (item for made in plan.environments for item in made.sets if item.index)
        closed = next(filter(None, (describe_closed_index(item, os.environ) for item in sets)), "")
        if not closed:
            return None
        other = replace(
            self, matrix=self.matrix.without_own_indexes(), on_default_index=True
        ).plan()
        if verdict_on(other.plan) != COMPATIBLE:
            return None
        note = (
            f"{closed[0].upper()}{closed[1:]}:"
            " these are builds of the default index; --torch-index names a mirror."
        )
        return replace(other, plan=replace(other.plan, notes=(*other.plan.notes, note)))

    def read_surroundings(self, plan: Plan) -> Surroundings:
        """Read what the plan's steps meet on this machine."""
        made, facts = plan.environments[0], self.facts
        starter = ""
        if facts is None and self.asked.python and made.installer != CONDA:
            starter = find_python(made.python, os.environ)
        return Surroundings(
            facts is not None,
            facts is None or not isinstance(facts.python.pip_version, Absent),
            find_substitutes(made.installer),
            (starter,) if starter else (),
            bool(find_program("sudo", os.environ)),
            self.asked.system,
        )


def _read_environment(asked: InstallRequest, place: Place, doctor: Doctor) -> Facts:
    try:
        facts = doctor.read("", str(place.folder)).facts
    except UserError as error:
        raise UserError(_describe_missing_python(place) or str(error)) from None
    version = facts.python.version.value
    if not version:
        raise UserError(
            f"the Python of {place.folder} does not answer: name a new folder with --env."
        )
    abi = facts.python.abi_tag.value
    threads = "t" if abi and abi.endswith("t") else ""  # 3.14t: the free-threaded build
    minor = major_minor(version) + threads
    if asked.python and asked.python != minor:
        raise UserError(
            f"{place.folder} has Python {minor}, not {asked.python}: name a new folder with --env."
        )
    return facts


def _describe_missing_python(place: Place) -> str:
    """Describe an environment whose base Python is gone; "" for a folder that is no environment."""
    settings = ""
    with contextlib.suppress(OSError):
        settings = (place.folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    base = next(
        (
            line.partition("=")[2].strip()
            for line in settings.splitlines()
            if line.startswith("home")
        ),
        "",
    )
    where = "its base Python is missing"
    if base:
        where = f"its base Python, {base}, is missing or unreadable"
    advice = "name a new folder with --env, or remove this one first."
    if settings:
        return f"the Python of {place.folder} does not start: {where}; {advice}"
    return ""


def _prefer_uv(plan: Plan) -> str:
    """Return uv where it can replace pip in a plan.

    It is installed, and pip's settings can be read for it.
    """
    only_pip = bool(plan.environments) and all(made.installer == PIP for made in plan.environments)
    return UV if only_pip and find_uv_for_pip() else ""


@dataclass
class Surroundings:
    """What the plan meets: the environment, and the programs its commands start."""

    exists: bool = False  # the environment is there: it is not made again
    has_pip: bool = True  # in that environment
    # name in the plan -> what to type here: conda -> micromamba
    programs: tuple[tuple[str, str], ...] = ()
    python: tuple[str, ...] = ()  # starts the Python a new environment is made with; () as planned
    has_sudo: bool = True  # without it this is root in a container, who needs none
    may_change_machine: bool = False  # the person asked for the steps of the machine, too


def _needs_person(step: Step) -> bool:
    """Return whether only a person can take a step.

    By hand, in their shell, under their own name.
    """
    return step.action.by_person or step.action.in_shell


def _stop_at_restart(steps: Sequence[Step], system: str) -> tuple[Step, ...]:
    """Return the steps; before a restart only the machine's, and what to do then."""
    for place, step in enumerate(steps):
        if step.scope == SYSTEM and step.action.ends_session:
            told = (
                f"Restart the machine ({action_line(step.action, system)}),"
                " then type the same command again."
            )
            first = tuple(each for each in steps[:place] if each.scope == SYSTEM)
            return (*first, Step("restart", AskPerson(told, SYSTEM)))
    return tuple(steps)


def adapt_plan(plan: Plan, here: Surroundings) -> Plan:
    """Return the plan as it will run.

    Raise UserError where it makes no environment or two, or needs an administrator.
    """
    may = here.may_change_machine
    made = _only_environment(plan)
    by_hand = [
        step for step in plan.steps if _needs_person(step) or (step.scope == SYSTEM and not may)
    ]
    if by_hand:
        raise UserError(_describe_manual_steps(by_hand, plan.system, system=may))
    if here.exists:
        plan = in_place(plan)
    steps = [_fit_step(step, here) for step in _stop_at_restart(plan.steps, plan.system)]
    if here.exists and not here.has_pip and made.installer == PIP:
        bring = AddPip(interpreter(made)).with_programs(dict(here.programs))
        steps = [Step("bring-pip", bring, environment=made.folder), *steps]
    return replace(plan, steps=tuple(steps))


def _only_environment(plan: Plan) -> Environment:
    if len(plan.environments) != 1:
        each = " and ".join(
            f"`{type_here('envcheck', 'install', item)}`" for item in plan.requirements
        )
        raise UserError(
            f"these frameworks need two environments: {each}, each with an --env of its own."
        )
    return plan.environments[0]


def _describe_manual_steps(steps: list[Step], shells: str, *, system: bool) -> str:
    lines = ((step.purpose.rstrip("."), action_line(step.action, shells)) for step in steps)
    told = "; ".join(what + (f": `{line}`" if line else "") for what, line in lines)
    could = ", or add --system to have it done"
    if system or any(map(_needs_person, steps)):
        could = ""
    who = ""
    if any(step.scope == SYSTEM for step in steps):
        who = " as an administrator"
    hint = f"Do that{who}{could}; --expect cpu plans without a GPU."
    return f"the machine itself needs something first: {told}. {hint}"


def _fit_step(step: Step, here: Surroundings) -> Step:
    action = step.action
    if step.scope == SYSTEM:
        action = action.unattended()
    elif isinstance(action, CreateEnvironment):
        # A plan writes the home folder as ~, which only a shell expands.
        starter = here.python or tuple(map(os.path.expanduser, action.starter))
        action = replace(action, starter=starter)
    action = action.with_programs(dict(here.programs))
    return replace(step, action=action if here.has_sudo else action.without_sudo())
