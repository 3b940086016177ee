"""Judge a snapshot. Rules are registered when they are first needed: explaining a log needs none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envcheck.rules.catalogue import catalogue

if TYPE_CHECKING:
    from envcheck.rules.context import Context, Target
    from envcheck.rules.engine import conclude, evaluate
    from envcheck.rules.registry import RULES
    from envcheck.rules.targets import TargetError

__all__ = ["RULES", "Context", "Target", "TargetError", "catalogue", "conclude", "evaluate"]

_HOMES = {
    "Context": "context",
    "Target": "context",
    "TargetError": "targets",
    "conclude": "engine",
    "evaluate": "engine",
    "RULES": "registry",
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
    import envcheck.rules.cuda_wheels
    import envcheck.rules.cudnn
    import envcheck.rules.cudnn_headers
    import envcheck.rules.dependencies
    import envcheck.rules.driver_container
    import envcheck.rules.driver_fabric
    import envcheck.rules.driver_floor
    import envcheck.rules.driver_library
    import envcheck.rules.driver_nodes
    import envcheck.rules.driver_start
    import envcheck.rules.driver_state
    import envcheck.rules.driver_wsl
    import envcheck.rules.environment_mix
    import envcheck.rules.extensions
    import envcheck.rules.framework_presence
    import envcheck.rules.framework_releases
    import envcheck.rules.gpu_architecture
    import envcheck.rules.hardware
    import envcheck.rules.host_compiler
    import envcheck.rules.python_interpreter
    import envcheck.rules.release_unknown
    import envcheck.rules.runtime
    import envcheck.rules.toolkit
    import envcheck.rules.toolkit_paths
    import envcheck.rules.toolkit_tools
    import envcheck.rules.unanswered
    import envcheck.rules.visible_devices
    import envcheck.rules.windows_runtime
    # isort: on
