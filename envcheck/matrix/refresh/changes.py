"""List what differs between two editions of the matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_NO_CELLS = {"distribution", "platform", "citations"}
_SUMMARY = ("pythons", "cuda", "cudnn", "glibc", "compute_capabilities", "stub_for")  # cells shown of a new row


@dataclass(frozen=True)
class Change:
    """One row that was added or removed, or whose cells changed."""

    kind: str
    framework: str
    distribution: str
    version: str
    platform: str
    artifact: str  # file name of the wheel it was read from
    cells: dict[str, dict[str, Any]]  # cell -> {"old": ..., "new": ...}; null where the row has no such cell

    @property
    def label(self) -> str:
        """Name the row: torch 2.6.0 on linux_x86_64."""
        return f"{self.distribution} {self.version} on {self.platform}"


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """List the rows that differ, by framework and version; `checked` and hashes aside."""
    return [change for framework in new["releases"] for change in _compare_framework(framework, old, new)]


def format_change(change: Change) -> list[str]:
    """Format a change: "+ torch 2.6.0 on linux_x86_64: pythons 3.9 3.10", or one line for each changed cell."""
    if change.kind == ADDED:
        cells = {cell: change.cells[cell]["new"] for cell in _SUMMARY if cell in change.cells}
        return [f"+ {change.label}: " + ", ".join(f"{cell} {_format(value)}" for cell, value in cells.items() if value)]
    if change.kind == REMOVED:
        return [f"- {change.label}"]
    lines = (line for cell, both in change.cells.items() for line in _format_cell(cell, both["old"], both["new"]))
    return [f"  {change.label}: {line}" for line in lines]


def _format_cell(cell: str, old: Any, new: Any) -> Iterator[str]:
    """Format how a cell changed; of the proof, only the entries that changed."""
    if cell != "proof":
        yield f"{cell} {_format(old)} -> {_format(new)}"
        return
    before, after = old or {}, new or {}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"proof of {name} {_format(before.get(name))} -> {_format(after.get(name))}"


def _format(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict) and "read" in value:  # the cell binaries
        return f"{len(value['read'])} of {value['binaries']} in {value['wheel']}"
    if isinstance(value, dict):
        return " ".join(f"{name}{item}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)


def _compare_framework(framework: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, after = (edition["releases"].get(framework, {}) for edition in (old, new))
    for version in sorted({*before, *after}, key=Version):
        known, found = _map_rows(before.get(version, ())), _map_rows(after.get(version, ()))
        for key in sorted({*known, *found}):
            row, renewed = known.get(key, {}), found.get(key, {})
            kind = ADDED if not row else CHANGED if renewed else REMOVED
            cells = _compare_cells(row, renewed)
            if cells:
                artifact = _get_artifact(new, renewed) if renewed else _get_artifact(old, row)
                yield Change(kind, framework, key[0], version, key[1], artifact, cells)


def _map_rows(rows: Any) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["distribution"], row["platform"]): row for row in rows}


def _get_artifact(edition: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return str(edition["citations"][row["citations"][0]]["url_or_artifact"])


def _compare_cells(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        cell: {"old": old.get(cell), "new": new.get(cell)}
        for cell in sorted({*old, *new} - _NO_CELLS)
        if old.get(cell) != new.get(cell)
    }
