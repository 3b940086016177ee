"""Variants of a machine in which one known fact could not be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from envcheck.model import Absent, Facts, Known, Unknown, replace
from envcheck.model.records import list_fields

UNREAD = Unknown("failed", "not read in this variant")


def list_variants(facts: Facts) -> Iterator[tuple[str, Facts]]:
    """Yield a name like "python.frameworks.value[0].cuda_build" with the facts that lack that one value."""
    yield from _vary(facts, "")


def name_of_fact(path: str) -> str:
    """Return the path without positions: "python.frameworks.cuda_build"."""
    return re.sub(r"\[\d+\]", "", path.replace(".value", ""))


def _vary(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Known):
        yield path, UNREAD
        for name, inner in _vary(value.value, f"{path}.value"):
            yield name, Known(inner, value.source)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            for name, inner in _vary(item, f"{path}[{index}]"):
                yield name, (*value[:index], inner, *value[index + 1 :])
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, (Absent, Unknown)):
        for field in list_fields(value):
            for name, inner in _vary(getattr(value, field), f"{path}.{field}".lstrip(".")):
                yield name, replace(value, **{field: inner})
