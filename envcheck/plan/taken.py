"""What a plan for a new environment says where its folder is there: no step back may take more than the step made."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.model.plans import CONDA, Environment, Plan, Step
from envcheck.model.records import replaced

_LASTING = "the folder was there before: removing it would take more than this step made"


def beside_what_is_there(plan: Plan, is_there: Callable[[str], bool]) -> Plan:
    """Take the removal of a folder that is there out of a plan, and tell of it."""
    taken = {made.folder: made for made in plan.environments if is_there(made.folder)}
    changed: Plan = replaced(
        plan,
        steps=tuple(_lasting(step) if step.environment in taken else step for step in plan.steps),
        notes=(*plan.notes, *map(_note, taken.values())),
    )
    return changed


def _lasting(step: Step) -> Step:
    creates = step.id.startswith("create-environment")
    kept: Step = replaced(step, undo=(), lasting=_LASTING) if creates else step
    return kept


def _note(made: Environment) -> str:
    replaces = ", and conda puts that in its place" if made.installer == CONDA else ""
    return (
        f"{made.folder} is there, and these steps are for a new environment{replaces}: "
        "envcheck install plans for what it holds."
    )
