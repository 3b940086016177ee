"""The frameworks that envcheck knows.

A module each, a row each in data/frameworks/identity.json, a protocol in `base`.

Names are read without loading a framework's module; `framework` loads the one that is asked for.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import re
from typing import AbstractSet, Any, Dict, FrozenSet, Mapping, Tuple

from envcheck.frameworks.base import Framework
from envcheck.host import plugins
from envcheck.host.data_files import read_data
from envcheck.model import UserError

__all__ = [
    "Framework",
    "UnknownFrameworkError",
    "all_frameworks",
    "companions",
    "distribution_names",
    "framework",
    "framework_names",
    "framework_of",
    "identities",
    "identity",
    "imported_modules",
]


class UnknownFrameworkError(UserError):
    """A framework that no module describes, with one sentence that names those that are known."""


@functools.lru_cache(maxsize=1)
def _load_rows() -> Mapping[str, Mapping[str, Any]]:
    rows: Dict[str, Mapping[str, Any]] = json.loads(read_data("frameworks/identity.json"))[
        "frameworks"
    ]
    taken = {item for row in rows.values() for item in row["distributions"]}
    return {
        **rows,
        **plugins.load_plugins(
            plugins.FRAMEWORKS, set(rows), lambda name, row: _check_row(name, row, taken)
        ),
    }


def _check_row(name: str, row: Any, taken: AbstractSet[str]) -> Mapping[str, Any]:
    """Return the row of a plugin's framework.

    Raises PluginError for cells that no framework has.
    """
    unknown = [cell for cell in row if cell not in Framework.__annotations__]
    distributions = row["distributions"]
    try:
        Framework(name, row)
    except (AttributeError, TypeError) as error:
        raise plugins.PluginError(str(error)) from None
    if unknown or not re.match(r"[a-z][a-z0-9_]*$", name):
        raise plugins.PluginError(
            f"{unknown[0]!r} is no cell of a framework" if unknown else f"{name!r} is no name"
        )
    if not distributions or not all(
        isinstance(text, str) for pair in distributions.items() for text in pair
    ):
        raise plugins.PluginError("distributions must map each distribution to its module")
    if taken & set(distributions):
        raise plugins.PluginError(
            f"the distribution {min(taken & set(distributions))} belongs to another framework"
        )
    return {"title": name, **row, "from_plugin": True}


def framework_names() -> Tuple[str, ...]:
    """List the frameworks by name, in the order in which they are reported."""
    return tuple(_load_rows())


@functools.lru_cache(maxsize=None)
def framework(name: str) -> Framework:
    """Return a framework by its name; raises UnknownFrameworkError."""
    if name not in _load_rows():
        raise UnknownFrameworkError(
            f"{name!r} is no framework that envcheck knows; it knows {_list_names()}."
        )
    row = _load_rows()[name]
    is_row_alone = row.get("from_plugin") or "wheels" not in row
    kind = Framework
    if not is_row_alone:  # by __import__, around which a collector puts a lock
        kind = __import__(f"{__name__}.{name}", fromlist=("FRAMEWORK",)).FRAMEWORK
    return kind(name, row)


def all_frameworks() -> Tuple[Framework, ...]:
    """Load every framework."""
    return tuple(map(framework, _load_rows()))


@functools.lru_cache(maxsize=1)
def identities() -> Tuple[Framework, ...]:
    """Return every framework by the cells of its row alone, without loading its module."""
    return tuple(Framework(name, row) for name, row in _load_rows().items())


@functools.lru_cache(maxsize=None)
def identity(name: str) -> Framework:
    """Return a framework by the cells of its row, without loading its module.

    Raises UnknownFrameworkError.
    """
    found = next((item for item in identities() if item.name == name), None)
    return found or framework(name)


@functools.lru_cache(maxsize=1)
def distribution_names() -> Mapping[str, str]:
    """Map each distribution, and each pattern of plugins, to the framework that it belongs to."""
    return {
        item: name
        for name, row in _load_rows().items()
        for item in (*row["distributions"], *row.get("plugins", ()))
    }


@functools.lru_cache(maxsize=None)
def framework_of(distribution: str) -> str:
    """Name the framework that a distribution belongs to, "" for none; plugins count."""
    names = distribution_names()
    patterns = (item for item in names if "*" in item and fnmatch.fnmatchcase(distribution, item))
    return names.get(distribution) or names.get(next(patterns, ""), "")


@functools.lru_cache(maxsize=1)
def _load_imports() -> Mapping[str, Mapping[str, Any]]:
    return {
        row["framework"]: row
        for row in json.loads(read_data("frameworks/imported_modules.json"))["frameworks"]
    }


@functools.lru_cache(maxsize=None)
def imported_modules(name: str) -> Tuple[FrozenSet[str], FrozenSet[str]]:
    """Return the modules that an import of a framework or companion needs, and the others."""
    row = _load_imports().get(name, {})
    return frozenset(row.get("needed", "").split()), frozenset(row.get("loaded", "").split())


def needed_distributions(name: str) -> FrozenSet[str]:
    """Return the distributions that importing a companion was seen to die without."""
    return frozenset(_load_imports().get(name, {}).get("needs", "").split())


@functools.lru_cache(maxsize=1)
def companions() -> Mapping[str, str]:
    """Map each companion to its framework: torchvision to torch."""
    return {name: row["beside"] for name, row in _load_imports().items() if "beside" in row}


def _list_names() -> str:
    *others, last = _load_rows()
    return f"{', '.join(others)} and {last}"
