"""What a plan for a new environment says where its folder is there: no step back may take more than the step made."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.model import Finding, Report, replace
from envcheck.model.plans import CONDA, Environment, Plan, Step
from envcheck.model.quoting import quoted

_LASTING = "the folder was there before: removing it would take more than this step made"


def beside_what_is_there(plan: Plan, is_there: Callable[[str], bool]) -> Plan:
    """Take the removal of a folder that is there out of a plan, and tell of it."""
    taken = {made.folder: made for made in plan.environments if is_there(made.folder)}
    changed: Plan = replace(
        plan,
        steps=tuple(_lasting(step) if step.environment in taken else step for step in plan.steps),
        notes=(*plan.notes, *(_note(plan, made) for made in taken.values())),
    )
    return changed


def _lasting(step: Step) -> Step:
    creates = step.id.startswith("create-environment")
    kept: Step = replace(step, undo=(), lasting=_LASTING) if creates else step
    return kept


def _note(plan: Plan, made: Environment) -> str:
    replaces = ", and conda puts that in its place" if made.installer == CONDA else ""
    own = [item.requirement for item in plan.releases if item.environment == made.folder]
    wanted = plan.requirements if len(plan.environments) == 1 else own
    asked = quoted(("envcheck", "install", *wanted, "--env", made.folder), plan.system)
    return (
        f"{made.folder} is there, and these steps are for a new environment{replaces}: `{asked}` plans for what it "
        "holds and asks before it does anything."
    )


def told_of_what_is_there(report: Report, is_there: Callable[[str], bool]) -> Report:
    """Have each fix that makes an environment say so where its folder is there."""
    told: Report = replace(report, findings=tuple(_told(finding, is_there) for finding in report.findings))
    return told


def _told(finding: Finding, is_there: Callable[[str], bool]) -> Finding:
    from envcheck.plan.proofs import folder_made  # for a doctor's fix alone

    made = [folder_made(command.argv) for command in finding.fix.commands] if finding.fix else []
    taken = [folder for folder in made if folder and is_there(folder)]
    if finding.fix is None or not taken:
        return finding
    summary = f"{finding.fix.summary} {taken[0]} is there already: put another folder in its place."
    changed: Finding = replace(finding, fix=replace(finding.fix, summary=summary))
    return changed
