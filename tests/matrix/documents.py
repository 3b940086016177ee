"""The built-in matrix document for tests: read once, copied where a test changes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from envcheck.matrix.load import load_document
from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.refresh import format_change, list_changes

Document = dict[str, Any]


@lru_cache(maxsize=1)
def text() -> str:
    """The built-in document as one file in canonical form."""
    return format_document(document())


@lru_cache(maxsize=1)
def document() -> Document:
    """The document as it is; use `changed_copy` to alter it."""
    return load_document()


def changed_copy() -> Document:
    changed: Document = json.loads(text())  # several times quicker than a deep copy
    return changed


def describe_changes(old: Document, new: Document) -> list[str]:
    return [line for change in list_changes(old, new) for line in format_change(change)]


def releases(framework: str) -> Iterator[tuple[str, Document]]:
    for version, rows in document()["releases"][framework].items():
        for row in rows:
            yield version, row


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
