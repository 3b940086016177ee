"""A smoke test as a JSON document, schema envcheck/smoke/1."""

from __future__ import annotations

import json
from typing import Any

from envcheck import __version__
from envcheck.model.codec import encode
from envcheck.smoke.devices import Run, Session
from envcheck.smoke.verdict import findings_of, headline_of, proven_gpus, verdict_of


def render_smoke_json(session: Session) -> str:
    """Render a session on one line."""
    return json.dumps(smoke_document(session))


def smoke_document(session: Session) -> dict[str, Any]:
    """Return a session's JSON document."""
    return {
        "schema": "envcheck/smoke/1",
        "tool_version": __version__,
        "verdict": verdict_of(session),
        "headline": headline_of(session),
        "level": session.level,
        "expect": session.expect,
        "tested_gpus": list(proven_gpus(session)),
        "runs": [_run(run) for run in session.runs],
        "left_out": [vars(item) for item in session.left_out],
        "gpus_unread": session.gpus_unread,
        "findings": [encode(finding) for finding in findings_of(session)],
    }


def _run(run: Run) -> dict[str, Any]:
    device = run.job.device
    return {
        "framework": run.job.framework.name,
        "version": run.job.framework.version,
        "device": {
            "kind": device.kind,
            "label": device.label,
            "name": device.name,
            "uuid": device.uuid,
            "visible": device.visible,
        },
        "outcome": run.outcome,
        "seconds": round(run.seconds, 3),
        "peak_memory_bytes": run.peak_memory,
        "told": run.told or {},
        "listings": {item.way: list(item.devices) for item in run.listings},
        "results": [dict(vars(result)) for result in run.results],
        "measures": [dict(vars(measure)) for measure in run.measures],
        "placements": len(run.placements),
        "log": run.log,
    }
