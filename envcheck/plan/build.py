"""Build the plan: choose releases, put them into environments, write the steps."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from envcheck.frameworks import framework
from envcheck.matrix.query import Matrix
from envcheck.model import CONDA, Clash, Environment, Facts, Known, Plan, PlannedRelease, Step, replace
from envcheck.plan.candidates import (
    SYSTEM,
    Candidate,
    list_apple_plugins,
    list_unknown_companions,
    newest_with_apple_plugin,
)
from envcheck.plan.choose import Choice, Judge, choose, choose_together, groups_of, note_newer_releases
from envcheck.plan.environments import environment_of, planned_release
from envcheck.plan.requests import (
    DEFAULT_OPTIONS,
    PlanOptions,
    Request,
    assumptions,
    list_other_sources,
    stated_machine,
)
from envcheck.plan.steps import (
    blockers,
    container_toolkit_steps,
    environment_steps,
    machine_steps,
    other_ways,
    with_remedies,
)
from envcheck.rules import Context, Target

_NATIVE = (
    "conda's own builds take the CUDA that conda solves. The channel's recipes were built for this release; whether it "
    "holds that still, only --verify tells."
)

_WITH_APPLE_PLUGIN = (
    "This computes on the CPU: {name} {newest} is the newest that {plugin}, the plugin for Apple's GPU, "
    "goes with. `envcheck plan {name} {plugin}` plans the two."
)


def build_plan(
    facts: Facts, matrix: Matrix, requests: tuple[Request, ...], wish: PlanOptions = DEFAULT_OPTIONS
) -> Plan:
    """Plan for a machine; `facts` are those of `described.planned_facts`."""
    judge = Judge(Context(facts, matrix, Target(goal_of(facts, matrix, requests, wish))))
    choices, clashes = choose_all(judge, requests, wish.installer)
    return unmet(judge, choices, wish) or plan_of(judge, choices, clashes, wish)


def goal_of(facts: Facts, matrix: Matrix, requests: tuple[Request, ...], wish: PlanOptions) -> str:
    """Say whether a plan is to be for the "gpu" or the "cpu"."""
    return Context(facts, matrix, Target(wish.expect, tuple(request.text for request in requests))).goal


def choose_all(
    judge: Judge, requests: tuple[Request, ...], installer: str, admits: Callable[[Candidate], bool] = lambda _: True
) -> tuple[list[Choice], list[Clash]]:
    """Choose a release for each request, such as go together; else those that do not, with what clashes.

    What `admits` refuses is not judged.
    """
    if len(requests) == 1 and not judge.installed:
        return [choose(judge, requests[0], installer, admits=admits)], []
    return choose_together(judge, requests, installer, admits)


def unmet(judge: Judge, choices: list[Choice], wish: PlanOptions) -> Plan | None:
    """Return the plan that says what is in the way and what would help; None where all were chosen."""
    in_the_way = blockers(judge.machine_findings(), judge.context)
    if not in_the_way and all(choice.best is not None for choice in choices):
        return None
    from envcheck.plan.changes import possible_changes  # where a plan is possible, nobody asks

    requests = tuple(choice.request for choice in choices)
    return Plan(
        judge.context.goal,
        (),
        (),
        blocked_by=with_remedies(in_the_way, judge.context),
        requirements=tuple(text for request in requests for text in request.texts),
        system=judge.context.os,
        changes=possible_changes(judge.context, requests, wish),
        rejected=tuple(item for choice in choices if choice.best is None for item in choice.rejected),
        notes=list_other_sources(judge.context),
    )


def plan_of(judge: Judge, choices: list[Choice], clashes: list[Clash], wish: PlanOptions) -> Plan:
    """Put choices that were all made into environments, and write the steps."""
    context = judge.context
    groups = _groups(choices, clashes)
    environments, releases, steps = [], [], [*machine_steps(judge.machine_findings(), context)]
    for group in groups:
        judged = tuple(choice.best for choice in group if choice.best is not None)
        made = environment_of(context, group, wish)
        if clashes:
            made = replace(
                made, folder=_own_folder(made.folder, "-".join(choice.request.framework for choice in group))
            )
        environments.append(made)
        releases += [planned_release(context, choice, made) for choice in group]
        missing = [item for one in judged for item in one.resolved if one.source.kind == SYSTEM]
        steps += machine_steps(missing, context, consequences=True)
        frameworks = tuple(choice.request.framework for choice in group)
        steps += environment_steps(made, frameworks, context.goal, _base_python(context, wish), wish.shells)
    if wish.in_container and context.goal == "gpu":
        steps = [*container_toolkit_steps(context), *steps]
    steps = _numbered(steps)
    notes = [*_of_what_is_beside(context, choices), *assumptions(context, releases, wish)]
    notes += [note for made in environments for note in _notes(context, made, releases)]
    return Plan(
        context.goal,
        tuple(releases),
        tuple(steps),
        resolves=tuple(dict.fromkeys(name for step in steps for name in step.resolves)),
        requirements=tuple(text for choice in choices for text in choice.request.texts),
        environments=tuple(environments),
        clashes=tuple(clashes),
        notes=tuple(dict.fromkeys([*other_ways(judge.machine_findings(), context), *notes])),
        system=context.os,
        machine=stated_machine(context),
    )


def _groups(choices: list[Choice], clashes: list[Clash]) -> list[list[Choice]]:
    if not clashes:
        return [choices]
    return groups_of(choices, clashes)


def _of_what_is_beside(context: Context, choices: list[Choice]) -> list[str]:
    """Say of which things beside a framework nothing tells whether they go with it, and what they hold back."""
    if not any(choice.request.beside for choice in choices):
        return []
    made = [(choice, choice.best.candidate.row) for choice in choices if choice.best]
    told = [
        f"{name}: which release goes with {row.distribution} {row.version} is not known here; pip "
        "takes the newest whose own requirements admit it."
        for choice, row in made
        for name in list_unknown_companions(context, row, choice.request.beside)
    ]
    return [*told, *(note for choice, _ in made for note in note_newer_releases(context, choice))]


def _notes(context: Context, made: Environment, releases: list[PlannedRelease]) -> list[str]:
    native = [_NATIVE] if made.packages and not made.sets else []
    plugins = list_apple_plugins(context, releases)
    native += [f"{row.distribution} {row.version}: {row.note}" for row in plugins if row.note]
    for name in [] if plugins else dict.fromkeys(item.framework for item in releases):
        newest, plugin = newest_with_apple_plugin(context, name), framework(name).apple_plugin
        native += [_WITH_APPLE_PLUGIN.format(name=name, newest=newest, plugin=plugin)] if newest else []
    if made.installer == CONDA and context.os == "windows" and context.goal == "gpu":
        native.append(
            "Activate it before use (conda activate): Windows finds the CUDA libraries by the PATH that sets."
        )
    return [*native, *([f"The wheels are for macOS {made.macos} or newer."] if made.macos else [])]


def _base_python(context: Context, wish: PlanOptions) -> str:
    """Return the interpreter that an environment is made with; "" where another one, or machine, is planned for."""
    said = wish.described
    known = isinstance(context.facts.python.executable, Known) and not said.python and not said.platform
    return context.python_program if known else ""


def _own_folder(folder: str, framework: str) -> str:
    head, tail = posixpath.split(folder)
    return posixpath.join(head, f"{tail}-{framework}")


def _numbered(steps: list[Step]) -> list[Step]:
    """Give steps of one name a number, so that each id names one."""
    seen: dict[str, int] = {}
    found = []
    for step in steps:
        seen[step.id] = seen.get(step.id, 0) + 1
        found.append(step if seen[step.id] == 1 else replace(step, id=f"{step.id}-{seen[step.id]}"))
    return found
