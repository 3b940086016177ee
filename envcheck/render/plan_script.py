"""A plan as a script: for sh, or for PowerShell where the machine runs Windows."""

from __future__ import annotations

from envcheck.model.plans import SYSTEM, Plan, Step
from envcheck.render.inert import inert
from envcheck.render.plan_text import is_windows, step_line


def render_script(plan: Plan) -> str:
    """Render a plan as a script that stops at the first failure; system steps stand in it as comments."""
    heading = ["$ErrorActionPreference = 'Stop'"] if is_windows(plan) else ["#!/bin/sh", "set -eu"]
    wanted = inert(" and ".join(plan.requirements))
    lines = [
        *heading,
        f"# {wanted} on the {plan.goal.upper()}: {', '.join(item.requirement for item in plan.releases)}",
    ]
    for step in plan.steps:
        lines += ["", f"# {inert(step.purpose)}", *_command(plan, step)]
    return "\n".join(lines) + "\n"


def _command(plan: Plan, step: Step) -> list[str]:
    if not step.argv:
        return ["# (by hand)"]
    line = step_line(plan, step)
    if step.scope == SYSTEM:
        return [f"# as an administrator: {part}" for part in line.splitlines()]
    return [line, "if ($LASTEXITCODE) { exit $LASTEXITCODE }"] if is_windows(plan) else [line]
