"""The rows of data/advice/remedies.json, by finding."""

from __future__ import annotations

from envcheck.remedies.rows import RemedyRow, load_rows, remedy_table


def list_rows_by_finding() -> dict[str, tuple[RemedyRow, ...]]:
    """Map every finding to its rows."""
    return {name: load_rows(name) for name in remedy_table().remedies}
