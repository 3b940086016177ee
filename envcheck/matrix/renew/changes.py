"""What differs between two editions of a matrix: as records, and one line a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_NO_CELLS = ("distribution", "platform", "citations")
_SUMMARY = ("pythons", "cuda", "cudnn", "glibc", "compute_capabilities", "stub_for")  # cells of a new row


@dataclass(frozen=True)
class Change:
    """One row that came, went or has other cells."""

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
    """List rows that came, went or changed, by framework and version; `checked` and hashes aside."""
    return [change for framework in new["releases"] for change in _framework(framework, old, new)]


def describe_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Write the changes, one line each."""
    return [line for change in list_changes(old, new) for line in lines_of(change)]


def lines_of(change: Change) -> list[str]:
    """Write one change: "+ torch 2.6.0 on linux_x86_64: pythons 3.9 3.10", one line a changed cell."""
    if change.kind == ADDED:
        shown = [f"{cell} {_shown(change.cells[cell]['new'])}" for cell in _SUMMARY if _is_told(change, cell)]
        return [f"+ {change.label}: {', '.join(shown)}"]
    if change.kind == REMOVED:
        return [f"- {change.label}"]
    said = (words for cell, both in change.cells.items() for words in _differing(cell, both["old"], both["new"]))
    return [f"  {change.label}: {words}" for words in said]


def _differing(cell: str, old: Any, new: Any) -> Iterator[str]:
    """Say how a cell differs; of how the cells are known, only those known in another way."""
    if cell != "proof":
        yield f"{cell} {_shown(old)} -> {_shown(new)}"
        return
    was, now = old or {}, new or {}
    for name in sorted({*was, *now}):
        if was.get(name) != now.get(name):
            yield f"{name} is {now[name]} now" if name in now else f"{name} is {was[name]} no more"


def _is_told(change: Change, cell: str) -> bool:
    return bool(change.cells.get(cell, {}).get("new"))


def _framework(framework: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    from packaging.version import Version

    before, after = (edition["releases"].get(framework, {}) for edition in (old, new))
    for version in sorted({*before, *after}, key=Version):
        known, found = _rows(before.get(version, ())), _rows(after.get(version, ()))
        for key in sorted({*known, *found}):
            was, now = known.get(key, {}), found.get(key, {})
            kind = ADDED if not was else CHANGED if now else REMOVED
            cells = _cells(was, now)
            if cells:
                artifact = _artifact(new, now) if now else _artifact(old, was)
                yield Change(kind, framework, key[0], version, key[1], artifact, cells)


def _rows(rows: Any) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["distribution"], row["platform"]): row for row in rows}


def _artifact(edition: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return str(edition["citations"][row["citations"][0]]["url_or_artifact"])


def _cells(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        cell: {"old": old.get(cell), "new": new.get(cell)}
        for cell in sorted({*old, *new} - set(_NO_CELLS))
        if old.get(cell) != new.get(cell)
    }


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict) and "read" in value:  # the cell binaries
        return f"{len(value['read'])} of {value['binaries']} in {value['wheel']}"
    if isinstance(value, dict):
        return " ".join(f"{name}{item}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)
