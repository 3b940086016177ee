"""Plugins: what other packages add by entry points, where ENVCHECK_PLUGINS=1 allows it.

Finding entry points costs half of a bare start, and a plugin runs inside envcheck: without the
variable, nothing looks for one.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, List, Set, Tuple, TypeVar

from envcheck.model import inert

RULES = "envcheck.rules"
FRAMEWORKS = "envcheck.frameworks"
FORMATS = "envcheck.formats"
FLEET_ENGINES = "envcheck.fleet_engines"
T = TypeVar("T")
_failures: Dict[str, str] = {}  # plugin -> the first thing that was wrong with it


class PluginError(Exception):
    """A plugin that cannot be used; the message says what is wrong with it."""


def are_allowed() -> bool:
    """Return whether plugins may be looked for; a collector on an old Python has none."""
    return os.environ.get("ENVCHECK_PLUGINS") == "1" and sys.version_info >= (3, 10)


def load_plugins(group: str, taken: Set[str], accept: Callable[[str, Any], T]) -> Dict[str, T]:
    """Load the plugins of a group by name, each as `accept` returns it for its name and object.

    One that fails, or whose name is `taken`, is left out and noted.
    """
    found: Dict[str, T] = {}
    for point in _entry_points(group):
        plugin = f"{group}: {point.name} = {point.value}"
        if point.name in taken or point.name in found:
            note_failure(plugin, PluginError(f"the name {point.name} is taken"))
            continue
        try:
            found[point.name] = accept(point.name, call(point.load))
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            note_failure(plugin, error)
    return found


def call(work: Callable[[], T]) -> T:
    """Call a plugin; one that would end the program raises PluginError."""
    try:
        return work()
    except BaseException as error:
        if isinstance(error, (Exception, KeyboardInterrupt)):
            raise
        raise PluginError(f"{type(error).__name__}: {error}") from error


def _entry_points(group: str) -> List[Any]:
    if not are_allowed():
        return []
    from importlib.metadata import entry_points

    try:
        return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    except Exception as error:  # noqa: BLE001 - metadata that cannot be read
        note_failure(group, error)
        return []


def note_failure(plugin: str, error: BaseException) -> None:
    """Note what is wrong with a plugin; the report says it."""
    kind = "" if isinstance(error, PluginError) else f"{type(error).__name__}: "
    _failures.setdefault(plugin, inert(f"{kind}{error}")[:300])


def list_failures() -> Tuple[Tuple[str, str], ...]:
    """List the plugins that were left out, each with the reason."""
    return tuple(_failures.items())
