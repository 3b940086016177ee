"""The built-in matrix document for tests: read once, copied where a test changes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data

Document = dict[str, Any]


@lru_cache(maxsize=1)
def text() -> str:
    return read_data("compat_matrix.json").decode("utf-8")


@lru_cache(maxsize=1)
def document() -> Document:
    """The document as it is; use `changed_copy` to alter it."""
    parsed: Document = json.loads(text())
    return parsed


def changed_copy() -> Document:
    changed: Document = json.loads(text())  # several times quicker than a deep copy
    return changed


def releases(framework: str) -> Iterator[tuple[str, Document]]:
    for version, rows in document()["releases"][framework].items():
        for row in rows:
            yield version, row


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
