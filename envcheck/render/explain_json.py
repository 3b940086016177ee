"""What a log says as a JSON document, schema envcheck/explain/1."""

from __future__ import annotations

from typing import Any

from envcheck import __version__
from envcheck.explain.events import Event
from envcheck.explain.reading import Reading, harmless_lines, line_that_matters
from envcheck.render.json_report import document_text, planned


def render_explanation(reading: Reading) -> str:
    """Render the verdict on logs with the lines it rests on."""
    report, scan = reading.report, reading.scan
    matters = line_that_matters(reading)
    return document_text(
        {
            "schema": "envcheck/explain/1",
            "tool_version": __version__,
            "verdict": report.verdict,
            "headline": report.headline,
            "judged": "log and machine" if reading.with_machine else "log",
            "matters": None if matters is None else _message(matters),
            **planned(report),
            "harmless": [_message(event) for event in harmless_lines(reading)],
            "messages": [_message(event) for event in scan.events],
            "read": {
                "files": list(reading.files),
                "lines": scan.lines,
                "bytes": scan.bytes,
                "known": sum(event.count for event in scan.events),
                "unkept": scan.unkept,
                "notes": list(reading.notes),
            },
        }
    )


def _message(event: Event) -> dict[str, Any]:
    return {
        "signature": event.signature,
        "file": event.file,
        "line": event.line,
        "last_line": event.last_line,
        "count": event.count,
        "worker": event.worker,
        "text": event.text,
        "captures": event.captured,
    }
