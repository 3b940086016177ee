"""The comparison of two machines as one JSON document."""

from __future__ import annotations

from typing import Any

from envcheck import __version__
from envcheck.diff.compare import Comparison, Machine
from envcheck.diff.facts import Difference
from envcheck.model.codec import encode
from envcheck.render.diff_text import conclusion
from envcheck.render.json_report import document_text


def render_diff_json(found: Comparison, names: tuple[str, str]) -> str:
    """Render a comparison, schema envcheck/diff/1; `names` are the files the machines came from."""
    document = {
        "schema": "envcheck/diff/1",
        "tool_version": __version__,
        "verdict": found.verdict,
        "message": conclusion(found),
        "a": _machine(found.a, names[0]),
        "b": _machine(found.b, names[1]),
        "differences": [_difference(item) for item in found.differences],
        "unexplained": encode(found.unexplained),
    }
    return document_text(document)


def _machine(machine: Machine, name: str) -> dict[str, Any]:
    report = machine.report
    return {
        "file": name,
        "host": machine.snapshot.host,
        "taken_at": machine.snapshot.taken_at,
        "verdict": report.verdict,
        "goal": report.goal,
        "headline": report.headline,
        "findings": [
            {
                "id": item.id,
                "verdict": item.verdict,
                "severity": item.severity,
                "primary": item.primary,
                "message": item.message,
            }
            for item in report.findings
        ],
    }


def _difference(item: Difference) -> dict[str, Any]:
    return {
        "fact": item.fact,
        "key": item.key,
        "label": item.label,
        "area": item.area,
        "a": item.a,
        "b": item.b,
        "unread": item.unread,
        "matters": item.matters,
        "findings": encode(item.findings),
    }
