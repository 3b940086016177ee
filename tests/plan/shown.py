"""Plans as they are printed."""

from __future__ import annotations

from envcheck.model import Plan
from envcheck.render.plan import describe_plan
from envcheck.render.text import render_text


def render_plan_text(plan: Plan, *, verbose: bool = False, run_for_you: bool = False) -> str:
    """Return what a pipe gets."""
    return render_text(describe_plan(plan, verbose=verbose, run_for_you=run_for_you))
