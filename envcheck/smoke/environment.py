"""Find among the distributions of an inspected Python what can be tested there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envcheck.model.python_env import Distribution
from envcheck.smoke.protocol import FRAMEWORKS
from envcheck.smoke.runs import Framework


def installed_frameworks(
    distributions: Sequence[Distribution], named: Mapping[str, Sequence[str]]
) -> tuple[Framework, ...]:
    """List the frameworks of an environment; of two copies of one, the first in the order of import.

    `named` maps a framework to the distributions it comes in. One that brings no module of that name is an empty shell.
    """
    found: dict[str, Framework] = {}
    for item in distributions:
        for name, names in named.items():
            owns = name in item.modules or not item.modules
            if owns and item.name in names and not (name == "jax" and item.name != "jax"):  # jaxlib counts on its own
                found.setdefault(name, Framework(name, item.version))
    return tuple(found[name] for name in FRAMEWORKS if name in found)


def hidden_folders(distributions: Sequence[Distribution]) -> tuple[str, ...]:
    """List the folders that an isolated start (-I) leaves out: the user's site-packages and PYTHONPATH."""
    return tuple(dict.fromkeys(item.location for item in distributions if item.scope in {"user", "path"}))
