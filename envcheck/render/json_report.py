"""Reports and snapshots as JSON documents; their schemas lie in envcheck/schemas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from envcheck import __version__
from envcheck.model import Report, Snapshot
from envcheck.model.codec import encode
from envcheck.render.inert import escaped_in_json

if TYPE_CHECKING:
    from envcheck.smoke.devices import Session


def render_json(
    report: Report, snapshot: Snapshot | None, smoke: Session | None = None, project: dict[str, Any] | None = None
) -> str:
    """Render a report, schema envcheck/report/1, with what is not None: snapshot, smoke test, what a project gates."""
    document: dict[str, Any] = {
        "schema": "envcheck/report/1",
        "tool_version": __version__,
        "verdict": report.verdict,
        "goal": report.goal,
        "headline": report.headline,
        "checked": list(report.checked),
        **planned(report),
    }
    if project is not None:
        document["project"] = project
    if snapshot is not None:
        document["snapshot"] = snapshot_document(snapshot)
    if smoke is not None:
        from envcheck.render.smoke import smoke_document

        document["smoke"] = smoke_document(smoke)
    return document_text(document)


def render_snapshot(snapshot: Snapshot) -> str:
    """Render a snapshot, schema envcheck/snapshot/1."""
    return document_text(snapshot_document(snapshot), indent=1)


def document_text(document: dict[str, Any], indent: int | None = None) -> str:
    """Write a document as JSON that any reader takes and no terminal acts on."""
    return escaped_in_json(json.dumps(document, ensure_ascii=False, indent=indent))


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot's JSON document."""
    return {"schema": f"envcheck/snapshot/{snapshot.schema_version}", **encode(snapshot)}


def planned(report: Report) -> dict[str, Any]:
    """Give the plan that mends the findings, and each finding the steps that resolve it."""
    from envcheck.plan.repair import repair_plan, steps_for  # only a report with fixes has steps

    plan = repair_plan(report)
    findings = [
        {**encode(item), "resolved_by": list(steps_for(plan, item, report.findings))} for item in report.findings
    ]
    return {"findings": findings, "plan": {"steps": encode(plan.steps), "resolves": list(plan.resolves)}}
