"""A plan for an environment that is there: what is well in it stays, and what is in the way goes first."""

from __future__ import annotations

from envcheck.matrix.query import Matrix
from envcheck.model.machine import Facts
from envcheck.model.plans import CONDA, Clash, Plan
from envcheck.model.quoting import quoted
from envcheck.model.records import dataclass, replaced
from envcheck.plan.build import choose_all, goal_of, plan_of, unmet
from envcheck.plan.choose import Choice
from envcheck.plan.described import Description, planned_facts
from envcheck.plan.in_the_way import removal_steps
from envcheck.plan.judge import Judge
from envcheck.plan.requests import Request
from envcheck.plan.there import Standing, satisfies, standing
from envcheck.plan.wish import Wish
from envcheck.rules import Context, Target
from envcheck.rules.pins import broken_pins

_CREATE = "create-environment"


class OccupiedError(Exception):
    """What is in the environment speaks against the plan; the message says what to type instead."""


@dataclass(frozen=True)
class Into:
    """What comes of planning into an environment; `plan` None: what is asked for is there and well."""

    plan: Plan | None
    kept: tuple[Standing, ...]  # stay as they are


def plan_into(facts: Facts, matrix: Matrix, requests: tuple[Request, ...], wish: Wish) -> Into:
    """Plan for the environment that `facts` describe. Raises OccupiedError."""
    empty = planned_facts(facts, Description(), matrix, expects_gpu=wish.expect == "gpu")
    goal = goal_of(empty, matrix, requests, wish)
    here, bare = Context(facts, matrix, Target(goal)), Context(empty, matrix, Target(goal))
    found = standing(here, Judge(bare))
    met = tuple(there for there in found if not there.wrong and any(satisfies(here, there, one) for one in requests))
    asked = {request.framework for request in requests}
    others = tuple(there for there in found if there.framework not in asked)
    named = tuple(_held(here, one, found) for one in requests)
    open_ = tuple(one for one in named if one.framework not in {there.framework for there in met})
    if not open_:
        return Into(None, met)
    _all_well(here, others, requests, wish)
    tries = dict.fromkeys([(open_, (*others, *met)), (named, others)])
    return _first_that_fits(here, bare, tuple(tries), wish)


def _held(here: Context, request: Request, found: tuple[Standing, ...]) -> Request:
    """Keep the name that a framework is there under, and its release where only what goes beside it is missing."""
    there = next((item for item in found if item.framework == request.framework), None)
    if there is None:
        return request
    stays = request.beside and not there.wrong and satisfies(here, there, replaced(request, beside=()))
    kept = f"=={there.version}" if stays else request.specifier
    named: Request = replaced(request, held=request.held or there.distribution, specifier=kept)
    return named


def _all_well(here: Context, others: tuple[Standing, ...], requests: tuple[Request, ...], wish: Wish) -> None:
    wrong = next((there for there in others if there.wrong), None)
    if wrong is not None:
        texts = (*(one.text for one in requests), wrong.framework)
        asked = quoted(("envcheck", "install", *texts, "--env", wish.folder), here.os)
        raise OccupiedError(
            f"{wish.folder} holds {wrong.label}, with which no environment counts as good: {wrong.wrong} "
            f"Have both put right by `{asked}`, or give a new folder."
        )


def _first_that_fits(
    here: Context, bare: Context, tries: tuple[tuple[tuple[Request, ...], tuple[Standing, ...]], ...], wish: Wish
) -> Into:
    clash: Clash | None = None
    for requests, kept in tries:
        judge = Judge(bare, tuple((there.label, pin) for there in kept for pin in there.pins))
        wanted = replaced(wish, kept=tuple(there.text for there in kept if there.text))
        choices, clashes = choose_all(judge, requests, wish.installer)
        blocked = unmet(judge, choices, wanted)
        if blocked is not None:
            return Into(blocked, kept)
        labels = tuple(f"{there.label}: " for there in kept)
        clash = next((item for item in clashes if item.first.startswith(labels)), None) if labels else None
        if clash is None:
            return Into(_fitted(here, plan_of(judge, choices, clashes, wanted), kept), kept)
    raise OccupiedError(_clashing(clash, choices, kept, wish, here.os))


def _clashing(clash: Clash | None, choices: list[Choice], kept: tuple[Standing, ...], wish: Wish, system: str) -> str:
    new = [choice.request.text for choice in choices]
    both = quoted(("envcheck", "install", *new, *(there.framework for there in kept), "--env", wish.folder), system)
    pins = f"{clash.first}, and {clash.second}" if clash else ""
    apart = f"{wish.folder}-{choices[0].request.framework}"
    return (
        f"what {wish.folder} holds stays as it is, and nothing that {quoted(new, system)} admits goes with it: {pins}. "
        f"Give it an environment of its own (--env {quoted((apart,), system)}), or have all chosen anew: `{both}`."
    )


def _fitted(here: Context, plan: Plan, kept: tuple[Standing, ...]) -> Plan:
    """Remove first what is in the way; what was broken before is not held against a step."""
    made = plan.environments[0]
    gone = removal_steps(here, made, plan.releases)
    by_conda = made.installer == CONDA and not made.sets  # conda's first step brings all
    first = next(
        place for place, step in enumerate(plan.steps) if step.environment and (step.id != _CREATE or by_conda)
    )
    steps = (*plan.steps[:first], *gone, *plan.steps[first:])
    if broken_pins(here):
        steps = tuple(replaced(step, verify=()) if step.id.startswith("install") else step for step in steps)
    notes = tuple(f"{there.label} is there, works, and stays as it is." for there in kept)
    fitted: Plan = replaced(plan, steps=steps, notes=(*plan.notes, *notes))
    return fitted
