"""A baseline: the findings of one day, which later reports do not count.

The file is a [tool.envcheck] table whose reasons are the messages: a finding that says anything
else is new, and counts.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone

from envcheck.check.config import ConfigError, Ignored, parse_config
from envcheck.check.judge import apply_ignores, count_ignored, stops_import
from envcheck.diagnosis import with_steps
from envcheck.diagnosis.doctor import Diagnosis
from envcheck.model import NOTE, Finding, Report, inert, replace
from envcheck.rules import conclude


def list_baseline(report: Report) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings that a baseline holds, and the errors that count all the same."""
    roots = [item for item in report.findings if item.severity != NOTE and not item.caused_by]
    counting = tuple(filter(stops_import, roots))
    return tuple(item for item in roots if item not in counting), counting


def write_baseline(report: Report) -> str:
    """Write the text of a baseline; a finding that is mended may be deleted from it."""
    rows = [
        json.dumps(f"{item.id}: {inert(item.message)}", ensure_ascii=False)
        for item in list_baseline(report)[0]
    ]
    day = datetime.now(timezone.utc).date()
    lines = [f"# Findings of {day}, by `envcheck doctor --write-baseline`.", "[tool.envcheck]"]
    return "\n".join([*lines, "ignore = [", *(f"  {row}," for row in rows), "]", ""])


def read_baseline(text: str, path: str) -> tuple[Ignored, ...]:
    """Read a baseline; raises ConfigError."""
    try:
        return parse_config(text).ignored
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def with_baseline(found: Diagnosis, rows: tuple[Ignored, ...], path: str) -> Report:
    """Return a report that counts only what a baseline does not hold."""
    report = found.report
    held = {(row.id, row.reason) for row in rows}
    new = {item.id for item in report.findings if (item.id, inert(item.message)) not in held}
    today = datetime.now(timezone.utc).date()
    known = tuple(
        replace(row, reason=f"in {path}")
        for row in rows
        if row.id not in new and row.until >= today
    )
    final = apply_ignores(report.findings, known, today)
    judged = conclude(found.context, final, report.checked)
    report = with_steps(
        replace(
            report,
            verdict=judged.verdict,
            headline=judged.headline,
            findings=judged.findings,
            steps=(),
        )
    )
    if not report.steps:
        report = replace(report, fix_command=())
    return count_ignored(report)
