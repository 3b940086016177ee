"""Judge a snapshot. Rules are registered when they are first needed: explaining a log needs none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envcheck.rules.catalogue import catalogue

if TYPE_CHECKING:
    from envcheck.rules.builds import TargetError
    from envcheck.rules.context import RULES, Context, Target
    from envcheck.rules.engine import conclude, evaluate

__all__ = ["RULES", "Context", "Target", "TargetError", "catalogue", "conclude", "evaluate"]

_HOMES = {
    "Context": "context",
    "Target": "context",
    "TargetError": "builds",
    "conclude": "engine",
    "evaluate": "engine",
    "RULES": "context",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for; RULES with every rule in it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "RULES":
        register_rules()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def register_rules() -> None:
    """Import the modules that hold rules: doing so registers them."""
    # One line each, alphabetical.
    # isort: off
    import envcheck.rules.compilers
    import envcheck.rules.cuda_wheels
    import envcheck.rules.cudnn
    import envcheck.rules.dependencies
    import envcheck.rules.driver
    import envcheck.rules.driver_access
    import envcheck.rules.engine
    import envcheck.rules.frameworks
    import envcheck.rules.gpu_architecture
    import envcheck.rules.hardware
    import envcheck.rules.python
    import envcheck.rules.toolkit
    # isort: on
