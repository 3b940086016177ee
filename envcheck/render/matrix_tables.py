"""Rows of the matrix's tables: one below the other with their cells, or one JSON document for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envcheck import __version__
from envcheck.model.codec import encode
from envcheck.model.records import dataclass
from envcheck.render.inert import inert
from envcheck.render.json_report import document_text
from envcheck.render.matrix_remarks import Sources
from envcheck.rules.matrix_tables import TableRow


@dataclass(frozen=True)
class Tables:
    """What a question to the tables of the matrix found."""

    verdict: str
    message: str  # one sentence
    checked: str  # day the matrix was checked
    requirement: str
    rows: tuple[TableRow, ...]


def render_tables_json(found: Tables) -> str:
    """Render rows, schema envcheck/matrix-tables/1."""
    document = {
        "schema": "envcheck/matrix-tables/1",
        "tool_version": __version__,
        "matrix_checked": found.checked,
        "verdict": found.verdict,
        "message": found.message,
        "question": {"requirement": found.requirement},
        "rows": encode(found.rows),
    }
    return document_text(document)


def render_tables(found: Tables, *, verbose: bool, quiet: bool) -> str:
    """Render rows as text with the sources each rests on; `verbose` tells how cells are known, `quiet` no more."""
    sources = Sources()
    lines = [line for row in found.rows for line in _row(row, sources, verbose=verbose, quiet=quiet)]
    message = [] if quiet and lines else [inert(found.message)]
    return "\n".join([*lines, *sources.lines(), *message])


def _row(row: TableRow, sources: Sources, *, verbose: bool, quiet: bool) -> Iterator[str]:
    yield inert(f"{row.name} {sources.marks(row.citations)}")
    width = max(map(len, row.cells), default=0)
    for name, value in row.cells.items():
        documented = row.proof.get(name, row.proof.get("*")) == "documented"
        yield inert(f"  {name.replace('_', ' '):<{width}}  {_text(value)}" + (" *" if documented and not quiet else ""))
    if row.note and not quiet:
        yield inert(f"  {'note':<{width}}  {row.note}")
    if verbose:
        yield inert(f"  {'proof':<{width}}  {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}")


def _text(value: Any) -> str:
    """Write a cell: lists by blanks, tables as name and value."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}:{_text(item) if item else '?'}" for name, item in value.items())
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "yes" if value is True else str(value)
