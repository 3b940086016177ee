"""Plan what somebody asks for.

Read the requirements and the machine, choose an installer, resolve on the index.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, cast

from envcheck.actions import CreateEnvironment, shells_of
from envcheck.host.prerequisites import find_python
from envcheck.host.protocol import Variables
from envcheck.matrix.query import Matrix
from envcheck.model import (
    CONDA,
    PIP,
    Facts,
    Known,
    OtherGpu,
    Plan,
    RequestError,
    Step,
    replace,
)
from envcheck.plan.build import EnvironmentUpdate, base_python, build_plan, goal_of
from envcheck.plan.other_vendors import vendor_plan
from envcheck.plan.own_index import is_on_own_index, plan_from_own_index
from envcheck.plan.passengers import is_passenger
from envcheck.plan.project import ProjectLines, sort_lines
from envcheck.plan.requests import (
    PlanOptions,
    Request,
    UnknownPackageError,
    check_folder,
    read_requests,
)
from envcheck.plan.steps import use_free_folders
from envcheck.remedies.situation import name_mirror, requires_virtualenv
from envcheck.rules import Context, Target
from envcheck.rules.described_machine import (
    WHATIF,
    Description,
    OtherVendorError,
    check_description,
    in_an_image,
    planned_facts,
)

if TYPE_CHECKING:
    from envcheck.plan.resolver import Resolver  # what asks an index is loaded where one is asked

# Probes that are left out: for every plan, for one on the CPU as well, and in the second reading.
_NEVER_NEEDED = ("compilers",)
_FOR_CUDA = ("toolkits", "cudnn tensorrt nccl")
_READ_BEFORE = ("python", "driver", "gpus", "host")

Read = Callable[[Collection[str]], Facts]  # reads this machine without the probes that are named


def make_resolver(
    verify: bool | Literal["wheels"],  # noqa: FBT001 - as the API takes it
    seconds: float,
    finish: Callable[[Plan], Plan],
    *,
    keeps: bool = False,
) -> Resolver | None:
    """Return what resolves plans on the indexes of this machine for so many seconds.

    Return None where none is to be asked.
    """
    if not verify:
        return None
    from envcheck.plan.resolver import Resolver  # 3 ms

    return Resolver(os.environ, seconds, time.monotonic() + seconds, verify is True, finish, keeps)


def plan_requirements(
    requirements: tuple[str, ...],
    options: PlanOptions,
    matrix: Matrix,
    machine: Facts | Read,
    *,
    resolver: Resolver | None = None,
    installed: Facts | None = None,
    choose_installer: Callable[[Plan], str] | None = None,
) -> EnvironmentUpdate:
    """Plan for what was asked; raises RequestError for a request that cannot be planned.

    `machine` is what was read of one, or reads this one. `resolver` resolves the plan on the
    package index. `installed` are the facts of the environment to change; without them a new one is
    planned. `choose_installer` names the installer for a plan that was made without one.
    """
    check_description(options.description)
    check_folder(options.folder)
    is_alone = installed is None and is_on_own_index(requirements)
    requests = () if is_alone else _read_known(requirements, matrix, is_asked=resolver is not None)
    read = None if isinstance(machine, Facts) or options.description.platform else machine
    facts = _read_machine(machine, options, matrix)
    if resolver and not is_alone and any(is_passenger(text, matrix) for text in requirements):
        boarded = resolver.board(requirements, Context(facts, matrix, Target(options.expect)))
        if isinstance(boarded, Plan):
            return EnvironmentUpdate(boarded)
        requests = read_requests(boarded.texts, matrix, boarded.passengers)
    elsewhere = vendor_plan(facts, matrix, requirements, requests, options)
    if elsewhere is not None:
        return EnvironmentUpdate(elsewhere)
    if options.in_container:
        facts = in_an_image(facts)
    elif read and goal_of(facts, matrix, requests, options) == "gpu":
        cuda = read((*_NEVER_NEEDED, *_READ_BEFORE))
        facts = replace(
            facts, toolkits=cuda.toolkits, cudnn=cuda.cudnn, tensorrt=cuda.tensorrt, nccl=cuda.nccl
        )

    @cache
    def make(installer: str, refused: frozenset[str]) -> EnvironmentUpdate:
        changed = replace(options, installer=installer, refused=refused)
        if is_alone:
            context = Context(facts, matrix, Target(changed.expect))
            base = base_python(context, changed)
            return EnvironmentUpdate(plan_from_own_index(context, requirements[0], changed, base))
        update = _plan_beside(installed, facts, matrix, requests, changed)
        return update if options.in_container else _follow_pip_settings(update, facts, options)

    installer = options.installer
    if choose_installer:
        installer = choose_installer(make(installer, frozenset()).plan)
    made = make(installer, frozenset())
    if resolver is None or not made.plan.releases or made.is_satisfied:
        return made
    return replace(made, plan=resolver.resolve(lambda refused: make(installer, refused).plan))


def plan_project(
    project: ProjectLines | None,
    requirements: tuple[str, ...],
    options: PlanOptions,
    matrix: Matrix,
    machine: Facts | Read,
    *,
    resolver: Resolver | None = None,
    **others: Any,
) -> EnvironmentUpdate:
    """Plan as `plan_requirements` does what files ask for too, with all else that they name.

    None: no file is named.
    """
    others["resolver"] = resolver
    if project is None:
        return plan_requirements(requirements, options, matrix, machine, **others)
    check_description(options.description)
    read = machine if isinstance(machine, Facts) else cast("Read", cache(machine))
    context = Context(_read_machine(read, options, matrix), matrix, Target(options.expect))
    obstacle = project.made_for.find_obstacle(context) if project.made_for else ""
    if obstacle:
        raise RequestError(f"{project.lock} is not for this machine: {obstacle}.")
    found = sort_lines(requirements, project, context)
    planned: tuple[str, ...] | Plan = found.planned
    if not planned:
        planned = _find_framework(found.beside, context, resolver)
    if isinstance(planned, Plan):
        return EnvironmentUpdate(planned)
    options = replace(
        options,
        beside=found.beside,
        constraints=project.constraints,
        typed=(*requirements, *project.words),
        lock=project.lock,
    )
    if project.lock:
        others["resolver"] = None  # it is resolved
    update = plan_requirements(planned, options, matrix, read, **others)
    return replace(update, plan=replace(update.plan, notes=(*update.plan.notes, *found.notes)))


def _find_framework(
    texts: tuple[str, ...], context: Context, resolver: Resolver | None
) -> tuple[str, ...] | Plan:
    """Ask the index which framework packages require of which none is one."""
    if texts and resolver is not None:
        return resolver.find_framework(texts, context)
    raise RequestError(
        "the files name no framework that envcheck plans, nor a package on top of one."
        + (" Leave out --no-verify: the package index states what they require." if texts else "")
    )


def _plan_beside(
    installed: Facts | None,
    facts: Facts,
    matrix: Matrix,
    requests: tuple[Request, ...],
    options: PlanOptions,
) -> EnvironmentUpdate:
    """Plan beside what an environment holds, or a new one."""
    if installed is None:
        return EnvironmentUpdate(build_plan(facts, matrix, requests, options))
    from envcheck.plan.existing_environment import plan_update  # few plans are for one

    return plan_update(installed, matrix, requests, options)


def _follow_pip_settings(
    update: EnvironmentUpdate, facts: Facts, options: PlanOptions
) -> EnvironmentUpdate:
    """Note which index pip is told to use here, where a step uses another.

    Raises RequestError where pip's settings refuse a step.
    """
    plan = update.plan
    refusal = requires_virtualenv(facts)
    if refusal and any(made.installer == CONDA and made.sets for made in plan.environments):
        raise RequestError(f"{refusal} Name --installer pip or uv, and a folder for it with --env.")
    notes = dict.fromkeys(name_mirror(step.action, facts) for step in plan.steps)
    if "--torch-index" in options.repeat_options:
        notes = {note: None for note in notes if "--torch-index" not in note}
    return replace(update, plan=replace(plan, notes=(*plan.notes, *filter(None, notes))))


def _read_machine(machine: Facts | Read, options: PlanOptions, matrix: Matrix) -> Facts:
    """Return the facts to plan with.

    Those of a machine but for CUDA's libraries, and what is stated of it.
    """
    said, expects_gpu = options.description, options.expect == "gpu"
    base: Facts | None = None
    if isinstance(machine, Facts):
        base = machine
    elif not said.platform:
        base = machine((*_NEVER_NEEDED, *_described_sections(said), *_FOR_CUDA))
    try:
        facts = planned_facts(base, said, matrix, expects_gpu=expects_gpu)
    except OtherVendorError as error:
        facts = planned_facts(base, replace(said, gpus=("none",)), matrix, expects_gpu=False)
        facts = replace(
            facts, other_gpus=Known((OtherGpu(error.vendor, Known(error.gpu, WHATIF)),), WHATIF)
        )
    if not facts.python.version.value:
        raise RequestError("the Python to plan for is unknown: name one, such as --python 3.12.")
    return facts


def _read_known(
    requirements: tuple[str, ...], matrix: Matrix, *, is_asked: bool
) -> tuple[Request, ...]:
    """Read what is asked for; () where an index has to be asked about a package first."""
    try:
        return read_requests(requirements, matrix)
    except UnknownPackageError as error:
        if not is_asked:
            advice = (
                "For another package, leave out --no-verify: the package index states which"
                " framework it needs."
            )
            raise UnknownPackageError(f"{error} {advice}") from None
        return ()


def _described_sections(said: Description) -> list[str]:
    """List the probes whose answers are described by hand, so that nothing of them is read."""
    sections = []
    if said.python:
        sections.append("python")
    if said.driver:
        sections.append("driver")
    if said.gpus and said.gpus[0].strip().lower() != "none":
        sections += ["gpus", "other_gpus"]
    return sections


def for_this_machine(options: PlanOptions, environ: Variables) -> PlanOptions:
    """Return the options with this machine's shells, and its Python of the version asked for."""
    wanted = options.description.python
    if wanted and options.installer != CONDA:
        options = replace(options, find_interpreter=cache(partial(find_python, wanted, environ)))
    return replace(options, shells=shells_of(environ))


def in_place(plan: Plan) -> Plan:
    """Return a plan as it changes an environment that is there, which is not made again."""
    steps: list[Step] = []
    for step in plan.steps:
        action = step.action
        if not isinstance(action, CreateEnvironment):
            steps.append(step)
        elif action.installer == CONDA:
            bring = action.into_existing("Bring conda's packages into the environment.")
            steps.append(replace(step, action=bring))
    return replace(plan, steps=tuple(steps))


def typed_here(plan: Plan, installer: str, words: tuple[str, ...] = ()) -> Plan:
    """Return the plan as it is typed on this machine.

    Into folders that are free, with what runs it for the user. `words` ask for it where files do.
    """

    def exists(folder: str) -> bool:
        return os.path.lexists(os.path.expanduser(folder))  # noqa: PTH111 - pathlib costs a third of a bare start

    plan = use_free_folders(plan, exists, words)
    if not plan.releases or installer or any(made.installer != PIP for made in plan.environments):
        return plan
    note = (
        "These commands use pip. `envcheck install` takes the same steps, with uv where it"
        " finds it."
    )
    return replace(plan, notes=(*plan.notes, note))
