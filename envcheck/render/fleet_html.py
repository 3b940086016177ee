"""A fleet as one page: filter, sort and group, without a server and at ten thousand hosts."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from envcheck.fleet.report import Row, groups_of, verdict_of
from envcheck.host.data_files import read_packaged
from envcheck.render.fleet_data import LABELS, fix_of
from envcheck.render.html import page
from envcheck.render.inert import inert

_TONES = {"compatible": "ok", "incompatible": "error", "undetermined": "undetermined"}


def render_fleet_html(rows: list[Row], golden: str) -> str:
    """Render the page; its one script is named by its hash in the page's own policy."""
    import markupsafe

    script = read_packaged("render", "templates", "fleet.js").decode("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return page(
        "fleet.html",
        rows=rows,
        groups=groups_of(rows),
        verdict=verdict_of(rows),
        golden=golden,
        data=_data(rows),
        script=markupsafe.Markup(script),  # noqa: S704 - our own file, no text of a host
        script_hash=f"sha256-{digest}",
    )


def _data(rows: list[Row]) -> dict[str, Any]:
    return {
        "columns": ["Host", "Verdict", "Cause", "Message", *LABELS, "Drift", "Fix"],
        "tones": _TONES,
        "rows": [_cells(row) for row in rows],
    }


def _cells(row: Row) -> list[str]:
    machine = dict(row.machine)
    cells = [row.host, row.verdict, row.cause, row.message, *(machine.get(label, "") for label in LABELS)]
    return [inert(cell) for cell in (*cells, "; ".join(row.drift), fix_of(row))]
