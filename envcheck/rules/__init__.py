"""Judge a snapshot.

The engine and its rules are loaded when they are first needed: explaining a log needs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envcheck.rules.catalogue import catalogue

if TYPE_CHECKING:
    from envcheck.rules.context import RULES, Context, Target
    from envcheck.rules.engine import conclude, evaluate

__all__ = ["RULES", "Context", "Target", "catalogue", "conclude", "evaluate"]

_HOMES = {
    "Context": "context",
    "Target": "context",
    "conclude": "engine",
    "evaluate": "engine",
    "RULES": "engine",  # which registers every rule
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
