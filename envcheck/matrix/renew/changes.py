"""What differs between two editions of a matrix, one line a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NO_CELLS = ("distribution", "platform", "citations")
_SUMMARY = ("pythons", "cuda", "cudnn", "glibc", "compute_capabilities", "stub_for")  # cells of a new row


def describe_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List rows that came, went or changed, by framework and version; `checked` and hashes aside."""
    return [line for framework in new["releases"] for line in _framework(framework, old, new)]


def _framework(framework: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    from packaging.version import Version

    before, after = (edition["releases"].get(framework, {}) for edition in (old, new))
    for version in sorted({*before, *after}, key=Version):
        known, found = _rows(before.get(version, ())), _rows(after.get(version, ()))
        for key in sorted({*known, *found}):
            label = f"{key[0]} {version} on {key[1]}"
            if key not in known:
                yield f"+ {label}: {_summary(found[key])}"
            elif key not in found:
                yield f"- {label}"
            else:
                yield from (f"  {label}: {change}" for change in _cells(known[key], found[key]))


def _rows(rows: Any) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["distribution"], row["platform"]): row for row in rows}


def _summary(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{cell} {_shown(row[cell])}" for cell in _SUMMARY if row.get(cell))


def _cells(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for cell in sorted({*old, *new} - set(_NO_CELLS)):
        if old.get(cell) != new.get(cell):
            yield f"{cell} {_shown(old.get(cell))} -> {_shown(new.get(cell))}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return " ".join(f"{name}{item}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)
