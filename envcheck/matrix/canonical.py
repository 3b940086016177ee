"""The one way a matrix document is written: fixed section order, sorted versions, one row per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from envcheck.matrix.tables import SECTIONS


def canonical(text: str) -> str:
    """Rewrite the text of a matrix document in canonical form."""
    return canonical_text(json.loads(text))


def canonical_text(document: dict[str, Any]) -> str:
    """Write a matrix document in canonical form."""
    sections = _ordered(document)
    written = (f" {json.dumps(name)}: {_written(sections[name], depth, ' ')}" for name, depth in SECTIONS.items())
    body = ",\n".join(written)
    return "{\n" + body + "\n}\n"


def _ordered(document: dict[str, Any]) -> dict[str, Any]:
    """Order sections, versions and rows; cells are sorted when written."""
    parts = {name: document[name] for name in SECTIONS}
    parts["citations"] = dict(sorted(parts["citations"].items()))
    parts["releases"] = {
        framework: {
            version: sorted(rows, key=lambda row: (row["distribution"], row["platform"]))
            for version, rows in _by_version(versions)
        }
        for framework, versions in sorted(parts["releases"].items())
    }
    for section in ("toolkits", "drivers", "architectures"):
        parts[section] = dict(_by_version(parts[section]))
    for section in ("cudnn", "tensorrt"):
        parts[section] = {
            line: sorted(rows, key=lambda row: int(row["cuda_major"])) for line, rows in _by_version(parts[section])
        }
    parts["conda"] = {
        package: sorted(rows, key=lambda row: (row["channel"], row["versions"], row["build"] or ""))
        for package, rows in sorted(parts["conda"].items())
    }
    parts["removed"] = dict(sorted(parts["removed"].items()))
    parts["problems"] = sorted(parts["problems"], key=lambda row: str(row["id"]))
    return parts


def _by_version(table: dict[str, Any]) -> list[tuple[str, Any]]:
    from packaging.version import Version  # only who writes a matrix pays for it

    return sorted(table.items(), key=lambda item: Version(item[0]))


def _written(value: Any, depth: int, indent: str) -> str:
    """Write a value: tables down to `depth` opened, one item per line; rows below on one line."""
    if depth == 0 or not value:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = indent + " "
    body = ",\n".join(inner + key + _written(item, depth - 1, inner) for key, item in _items(value))
    return f"{opening}\n{body}\n{indent}{closing}"


def _items(table: Any) -> Iterator[tuple[str, Any]]:
    """Pair each item of a table with how its key is written; list items have none."""
    if isinstance(table, dict):
        return ((json.dumps(key) + ": ", item) for key, item in table.items())
    return zip(repeat(""), table)
