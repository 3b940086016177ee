"""Compare two machines fact by fact, as data/diff.json says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envcheck.diff import groups
from envcheck.diff.difference import Difference, Subject, differ, table
from envcheck.diff.frameworks import compare_frameworks, needed_names
from envcheck.diff.plain import NONE, Side, only_here, presence_of, said, side_of, unread
from envcheck.model.facts import Fact, Known, Unknown
from envcheck.model.snapshot import Facts

Pair = tuple[Fact[Any], Fact[Any]]


def compare_facts(a: Facts, b: Facts) -> list[Difference]:
    """List every difference, in the order of the facts."""
    needed = needed_names(a) | needed_names(b)
    same_system = not _one(("host.os", _row("host.os")), (a.host.os, b.host.os))
    found: list[Difference] = []
    for name, row in table()["facts"].items():
        pair = (_fact(a, name), _fact(b, name))
        if row["as"] == "frameworks":
            found += compare_frameworks(pair, libraries=same_system)
        elif row["as"] == "distributions":
            found += _distributions((name, row), pair, needed)
        elif row["as"] in {"root", "roots"}:
            found += _one((name, row), (groups.rooted(a, pair[0]), groups.rooted(b, pair[1])))
        else:
            found += _COMPARE[row["as"]]((name, row), pair)
    return found


def _row(name: str) -> dict[str, str]:
    row: dict[str, str] = table()["facts"][name]
    return row


def _fact(facts: Facts, name: str) -> Fact[Any]:
    value: Any = facts
    for part in name.split("."):
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]  # every leaf of Facts is a fact


Named = tuple[str, dict[str, str]]


def _whole(named: Named) -> Subject:
    name, row = named
    return Subject(name, "", row["label"], row["area"])


def _one(named: Named, pair: Pair, say: Callable[[Fact[Any]], Side] = side_of) -> list[Difference]:
    return differ(_whole(named), say(pair[0]), say(pair[1]))


def _presence(named: Named, pair: Pair) -> list[Difference]:
    return _one(named, pair, presence_of)


def _set(named: Named, pair: Pair) -> list[Difference]:
    """Compare unordered items; only those that one machine lacks are told."""
    mine, other = (frozenset(fact.value) if isinstance(fact, Known) else frozenset() for fact in pair)
    if all(isinstance(fact, Known) for fact in pair):
        a, b = Side(only_here(mine, other)), Side(only_here(other, mine))
        return differ(_whole(named), a, b) if mine != other else []
    return _one(named, pair)


def _table(named: Named, pair: Pair) -> list[Difference]:
    return _by_key(named, pair, dict)


def _by_key(
    named: Named, pair: Pair, keyed: Callable[[Any], dict[str, Any]], needed: frozenset[str] = frozenset()
) -> list[Difference]:
    """Compare items one by one by what tells them apart; a side that was not read is told once."""
    name, row = named
    if any(isinstance(fact, Unknown) for fact in pair):
        counted = [unread(fact) if isinstance(fact, Unknown) else Side("read") for fact in pair]
        return differ(_whole(named), *counted)
    mine, other = (keyed(fact.value) if isinstance(fact, Known) else {} for fact in pair)
    found: list[Difference] = []
    for key in sorted({*mine, *other}):
        sides = [Side(said(items[key])) if key in items else Side(NONE) for items in (mine, other)]
        area = "needed" if key in needed else row["area"]
        found += differ(Subject(name, key, f"{row['label']} {key}", area), *sides)
    return found


def _distributions(named: Named, pair: Pair, needed: frozenset[str]) -> list[Difference]:
    return _by_key(named, pair, groups.versions, needed)


_COMPARE: dict[str, Callable[[Named, Pair], list[Difference]]] = {
    "value": _one,
    "presence": _presence,
    "set": _set,
    "table": _table,
    "nodes": lambda named, pair: _by_key(named, pair, groups.nodes),
    "dkms": lambda named, pair: _by_key(named, pair, groups.dkms),
    "gpus": lambda named, pair: _by_key(named, pair, groups.gpus),
    "toolkits": lambda named, pair: _one(named, pair, groups.toolkits),
    "copies": lambda named, pair: _one(named, pair, groups.copies),
    "extensions": lambda named, pair: _by_key(named, pair, groups.extensions),
    "kernels": lambda named, pair: _by_key(named, pair, groups.kernels),
}
