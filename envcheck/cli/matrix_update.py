"""Run `envcheck matrix update` and print which data is in use."""

from __future__ import annotations

import os
from datetime import date, datetime, timezone
from typing import Any

import click

from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT
from envcheck.cli.matrix_refresh import count_changes, print_changes
from envcheck.matrix.refresh.refresh import Change, list_changes
from envcheck.matrix.stored import DataFile
from envcheck.matrix.update import Update, read_request, undo, update
from envcheck.model import COMPATIBLE, inert
from envcheck.model.text import counted
from envcheck.render.json_contracts import document_text, schema_keys


def run_update(source: str, sha256: str, bundle: str, printing: common.Printing) -> int:
    """Fetch, check and store a data file, then say what changed and which data is in use."""
    return _print(update(read_request(source, sha256, bundle, os.environ), os.environ), printing)


def run_undo(printing: common.Printing) -> int:
    """Go back to the data before the last update."""
    return _print(undo(), printing)


def _print(done: Update, printing: common.Printing) -> int:
    if done.before is not done.after:
        changes = list_changes(done.before, done.after)
    else:
        changes = []
    if printing.form == "json":
        click.echo(document_text(_make_document(done, changes)))
        return OF_VERDICT[COMPATIBLE]
    if printing.verbose:
        print_changes(changes, printing)
    if not printing.quiet:
        click.echo(count_changes(changes))
    click.echo(inert(_describe(done)))
    return OF_VERDICT[COMPATIBLE]


def _describe(done: Update) -> str:
    """Say which data is in use, how old it is, and how it was proven."""
    used, day = done.in_use, done.after["checked"]
    origin = "built in"
    if used:
        origin = f"from {used.source}, proven by {used.proof}"
    return f"The data in use is of {day} ({_count_days(day)}), {origin}."


def _count_days(day: str) -> str:
    days = (datetime.now(timezone.utc).date() - date.fromisoformat(day)).days
    if days <= 0:
        return "today"
    return f"{counted(days, 'day')} old"


def _make_document(done: Update, changes: list[Change]) -> dict[str, Any]:
    """Build the document of schema envcheck/matrix-update/1."""
    used, previous = done.in_use, done.stored.previous
    return {
        **schema_keys("envcheck/matrix-update/1"),
        "verdict": COMPATIBLE,
        "message": _describe(done),
        "checked": done.after["checked"],
        "used": _encode(used),
        "previous": _encode(previous),
        "changes": [vars(change) for change in changes],
    }


def _encode(file: DataFile | None) -> dict[str, str] | None:
    return dict(vars(file)) if file else None
