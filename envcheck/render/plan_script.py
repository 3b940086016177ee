"""A plan as a script: for sh, or for PowerShell where the machine runs Windows."""

from __future__ import annotations

from envcheck.model.plans import SYSTEM, Plan, Step
from envcheck.render.inert import here_document, inert, shell_line
from envcheck.render.plan_text import is_windows, step_line
from envcheck.render.powershell import HEADING, STOP, powershell_line

_SAVE = "# For PowerShell: save it as setup.ps1, then type: powershell -ExecutionPolicy Bypass -File setup.ps1"

_SAY = """trap 'test "$?" -eq 0 || echo "Stopped: a step failed, and what follows it was not done." >&2' EXIT"""


def render_script(plan: Plan) -> str:
    """Render a plan as a script that stops at the first failure; system steps stand in it as comments."""
    wanted = f"# {inert(' and '.join(plan.requirements))} on the {plan.goal.upper()}: "
    wanted += ", ".join(item.requirement for item in plan.releases)
    lines = [_SAVE, wanted, *HEADING] if is_windows(plan) else ["#!/bin/sh", "set -eu", _SAY, wanted]
    for step in plan.steps:
        lines += ["", f"# {inert(step.purpose)}", *_command(plan, step)]
    text = "\n".join(lines) + "\n"
    return text.encode("ascii", "replace").decode("ascii") if is_windows(plan) else text


def _command(plan: Plan, step: Step) -> list[str]:
    if not step.argv:
        return ["# (by hand)"]
    line = powershell_line(step.argv, step.env) if is_windows(plan) else here_document(step.argv)
    line = line or step_line(plan, step)
    if step.scope == SYSTEM:
        undo = [f"# takes it back: {shell_line(step.undo, plan.system)}"] if step.undo else []
        return [*(f"# as an administrator: {part}" for part in line.splitlines()), *undo]
    return [line, STOP] if is_windows(plan) else [line]
