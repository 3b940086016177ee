"""A fleet for programs: JSON, and CSV that a spreadsheet does not execute."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from envcheck import __version__
from envcheck.fleet.report import Row, groups_of, verdict_of
from envcheck.fleet.results import Failure
from envcheck.model.codec import encode
from envcheck.render.inert import inert

# What a spreadsheet takes for a formula (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and their full-width forms
LABELS = ("Machine", "GPU", "Driver", "CUDA", "cuDNN", "Compiler", "Python", "Frameworks")


def render_fleet_json(rows: list[Row], golden: str) -> str:
    """Render the rows, schema envcheck/fleet-report/1."""
    document: dict[str, Any] = {
        "schema": "envcheck/fleet-report/1",
        "tool_version": __version__,
        "verdict": verdict_of(rows),
        "golden": golden or None,
        "groups": [
            {"verdict": group.verdict, "cause": group.cause, "message": group.message, "hosts": list(group.hosts)}
            | {"fixes": [encode(fix) for fix, _ in group.fixes]}
            for group in groups_of(rows)
        ],
        "hosts": [host_data(row) for row in rows],
    }
    return json.dumps(document)


def render_run_json(folder: str, answers: Mapping[str, Failure | None], before: int) -> str:
    """Render what came of asking, schema envcheck/fleet-run/1; None is a host whose snapshot lies in the folder."""
    hosts = [
        {"host": host, "answer": failure.kind if failure else "read", "reason": failure.reason if failure else ""}
        for host, failure in sorted(answers.items())
    ]
    document = {"schema": "envcheck/fleet-run/1", "tool_version": __version__, "folder": folder, "before": before}
    return json.dumps({**document, "hosts": hosts})


def host_data(row: Row) -> dict[str, Any]:
    """Return one host's row as plain data."""
    return {
        "host": row.host,
        "verdict": row.verdict,
        "cause": row.cause,
        "message": row.message,
        "fix": encode(row.fix) if row.fix else None,
        "machine": dict(row.machine),
        "drift": list(row.drift),
    }


def fix_of(row: Row) -> str:
    """Say in words what to do about a host."""
    return row.fix.summary if row.fix else ""


def render_fleet_csv(rows: list[Row]) -> str:
    """Render the rows as CSV; a cell that a spreadsheet would execute begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)  # so that a semicolon is no separator either
    writer.writerow(["host", "verdict", "cause", "message", *(label.lower() for label in LABELS), "drift", "fix"])
    for row in rows:
        machine = dict(row.machine)
        cells = [row.host, row.verdict, row.cause, row.message, *(machine.get(label, "") for label in LABELS)]
        writer.writerow([_cell(cell) for cell in (*cells, "; ".join(row.drift), fix_of(row))])
    return text.getvalue()


def _cell(text: str) -> str:
    shown = inert(text)
    return f"'{shown}" if shown.lstrip("\ufffd \xa0\u3000").startswith(_FORMULA) else shown
