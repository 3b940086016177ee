"""Compose, from an expression itself, the lines that would make a backtracking search of it take long."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser as parser
else:
    import sre_parse as parser

_ALTERNATIVES = 4  # of each branch, tried by turns
_REPEATED = 8  # what may stand more often than this is worth filling a line with
_OF_CATEGORY = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": " "}


def lines_for(pattern: str, length: int) -> list[str]:
    """List lines that begin to match again and again, or match but for their end, each about `length` long."""
    tree: Any = parser.parse(pattern)
    fillings = {"a", " ", "1", ".", *repeated(tree)} - {""}
    found: set[str] = {(filling * length)[:length] for filling in fillings}
    for text in {matching(tree, turn) for turn in range(_ALTERNATIVES)} - {""}:
        for part in {text, text[:-1], text[: len(text) * 2 // 3], text[: len(text) // 2]} - {""}:
            found.add((part * length)[:length])
            for filling in fillings:
                full = filling * length
                found |= {part + full[:length], ((part + filling) * length)[:length]}
                found.add(full[: length // 2] + part + full[: length // 2])
    return sorted(found)


def matching(tree: Iterable[tuple[Any, Any]], turn: int) -> str:
    """Write a short text that a parsed expression matches, or nearly."""
    return "".join(_one(str(kind), value, turn) for kind, value in tree)


def _one(kind: str, value: Any, turn: int) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind == "IN":
        return _of_class(value)
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        return matching(value[2], turn) * max(int(value[0]), 1)
    if kind == "SUBPATTERN":
        return matching(value[3], turn)
    if kind == "BRANCH":
        return matching(value[1][turn % len(value[1])], turn)
    return "a" if kind in ("ANY", "NOT_LITERAL") else ""


def _of_class(members: Any) -> str:
    kind, value = members[0]
    if str(kind) == "NEGATE":
        return "~"
    if str(kind) == "CATEGORY":
        return _OF_CATEGORY.get(str(value), "a")
    return chr(int(value[0] if str(kind) == "RANGE" else value))


def repeated(tree: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """List what an expression may match many times in a row."""
    for kind, value in tree:
        if str(kind) in ("MAX_REPEAT", "MIN_REPEAT"):
            if value[1] > _REPEATED:
                yield matching(value[2], 0)
            yield from repeated(value[2])
        elif str(kind) == "SUBPATTERN":
            yield from repeated(value[3])
        elif str(kind) == "BRANCH":
            for branch in value[1]:
                yield from repeated(branch)
