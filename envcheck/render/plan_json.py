"""A plan as a JSON document; its schema lies in envcheck/schemas."""

from __future__ import annotations

from typing import Any

from envcheck import __version__
from envcheck.model.codec import encode
from envcheck.model.plans import Plan
from envcheck.render.json_report import document_text

SCHEMA = "envcheck/plan/1"


def plan_document(plan: Plan, verdict: str) -> dict[str, Any]:
    """Return a plan's JSON document, schema envcheck/plan/1."""
    return {"schema": SCHEMA, "tool_version": __version__, "verdict": verdict, **encode(plan)}


def render_plan_json(plan: Plan, verdict: str) -> str:
    """Render a plan as one JSON document."""
    return document_text(plan_document(plan, verdict))
