"""Render reports and snapshots as JSON documents; envcheck/schemas holds their schemas."""

from __future__ import annotations

import json
from typing import Any

from envcheck import __version__
from envcheck.actions import typed_words
from envcheck.host.paths import fold_home
from envcheck.model import (
    Action,
    Finding,
    Remedy,
    Report,
    Snapshot,
    Step,
    encode,
    escaped_in_json,
    replace,
)

Json = dict[str, Any]  # a JSON object


def render_json(
    report: Report,
    snapshot: Snapshot | None,
    smoke: Json | None = None,
    project: Json | None = None,
) -> str:
    """Render a report as one JSON document."""
    return document_text(report_document(report, snapshot, smoke, project))


def report_document(
    report: Report,
    snapshot: Snapshot | None,
    smoke: Json | None = None,
    project: Json | None = None,
) -> Json:
    """Return a report's document, schema envcheck/report/1.

    The other documents are left out if they are None.
    """
    document: Json = {
        **schema_keys("envcheck/report/1"),
        **pick_fields(report, "verdict", "goal", "headline"),
        "judged": _judged_document(report),
        **pick_fields(report, "matrix", "checked"),
        **encode_findings(report),
    }
    if project is not None:
        document["project"] = project
    if snapshot is not None:
        document["snapshot"] = snapshot_document(snapshot)
    if smoke is not None:
        document["smoke"] = smoke
    return document


def _judged_document(report: Report) -> Json:
    """Return what the verdict is about, and how to get what is not installed."""
    judged, install = report.judged, report.obtained_by
    python = {"prefix": judged.environment, "chosen_by": judged.chosen_by}
    return {
        "machine": judged.machine,
        "environment": None if judged.environment is None else python,
        "others": encode(judged.others),
        "releases": list(report.asked),
        "install": list(typed_words(install, report.system)) if install else None,
    }


def render_snapshot(snapshot: Snapshot) -> str:
    """Render a snapshot, schema envcheck/snapshot/1."""
    return document_text(snapshot_document(snapshot), indent=1)


def pick_fields(record: object, *names: str) -> Json:
    """Encode some fields of a record, by the names that they have in JSON too."""
    return {name: encode(getattr(record, name)) for name in names}


def schema_keys(schema: str) -> dict[str, str]:
    """Return the first keys of every document but a snapshot."""
    return {"schema": schema, "tool_version": __version__}


def document_text(document: Json, indent: int | None = None) -> str:
    """Write a document as JSON without the reader's home or characters that a terminal acts on."""
    return escaped_in_json(fold_home(json.dumps(document, ensure_ascii=False, indent=indent)))


def snapshot_document(snapshot: Snapshot) -> Json:
    """Return a snapshot's JSON document."""
    return {"schema": f"envcheck/snapshot/{snapshot.schema_version}", **encode(snapshot)}


def encode_findings(report: Report) -> Json:
    """Return each finding with the steps that resolve it, and all steps."""
    findings = [
        {**finding_document(item, report.system), "resolved_by": list(report.steps_for(item))}
        for item in report.findings
    ]
    steps = [step_document(step, report.system) for step in report.steps]
    resolves = list(dict.fromkeys(name for step in report.steps for name in step.resolves))
    plan: Json = {"steps": steps, "resolves": resolves}
    if report.fix_command:
        plan["command"] = ["envcheck", *report.fix_command]
    return {"findings": findings, "plan": plan}


def finding_document(finding: Finding, system: str) -> Json:
    """Return a finding with its remedy as it is typed on a system."""
    document: Json = encode(replace(finding, fix=None, cure=None))
    for name in ("cure", "about", "stops"):
        del document[name]
    document["fix"] = remedy_document(finding.fix, system) if finding.fix else None
    return document


def remedy_document(remedy: Remedy, system: str) -> Json:
    """Return a remedy as it is typed on a system."""
    ways = [
        {"summary": way.summary, "commands": _encode_commands(way.actions, system)}
        for way in remedy.alternatives
    ]
    return {
        "summary": remedy.summary,
        "commands": _encode_commands(remedy.actions, system),
        "alternatives": ways,
    }


def _encode_commands(actions: tuple[Action, ...], system: str) -> list[Json]:
    return [
        {
            "argv": list(typed_words(item, system)),
            "scope": item.scope,
            "purpose": item.purpose_on(system),
        }
        for item in actions
    ]


def step_document(step: Step, system: str) -> Json:
    """Return a step as typed on a system, with its check and undo, or why neither."""
    check, undo = step.checked(system), step.action.undo(system)
    return {
        "id": step.id,
        "purpose": step.action.purpose_on(system),
        "argv": list(step.action.command(system)),
        "env": step.action.variables(),
        "scope": step.scope,
        "verify": list(check.argv),
        "unverified": check.reason,
        "undo": list(undo.argv),
        "lasting": undo.reason,
        "resolves": list(step.resolves),
        "environment": step.environment,
    }
