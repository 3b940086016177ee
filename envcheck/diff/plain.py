"""Facts in words, so that two machines can be held side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.model.facts import Absent, Fact, Known, Unknown
from envcheck.model.records import dataclass

NONE = "none"
_TOLD = 12  # items of a set that are spelled out


@dataclass(frozen=True)
class Side:
    """What one machine says: `text` for people; `unread` when it could not be told."""

    text: str
    unread: bool = False


def side_of(fact: Fact[Any]) -> Side:
    """Say a fact of one value."""
    if isinstance(fact, Known):
        return Side(said(fact.value))
    if isinstance(fact, Absent):
        return Side(NONE)
    return unread(fact)


def unread(fact: Unknown) -> Side:
    """Say that a fact could not be told."""
    return Side(f"not read ({fact.why})", unread=True)


def presence_of(fact: Fact[Any]) -> Side:
    """Say whether something is there at all; where it lies differs from machine to machine."""
    return Side("found") if isinstance(fact, Known) else side_of(fact)


def said(value: Any) -> str:
    """Write a value: yes and no for truth, items separated by blanks."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or NONE
    if isinstance(value, Mapping):
        return " ".join(f"{name}={item}" for name, item in value.items()) or NONE
    return str(value)


def only_here(mine: frozenset[str], other: frozenset[str]) -> str:
    """Write what one set has beyond another."""
    beyond = sorted(mine - other)
    rest = f" and {len(beyond) - _TOLD} more" if len(beyond) > _TOLD else ""
    return (" ".join(beyond[:_TOLD]) + rest) or "nothing more"
