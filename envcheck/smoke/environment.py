"""Find in an inspected Python's facts what can be tested there."""

from __future__ import annotations

from envcheck.model.facts import Known, value_of
from envcheck.model.python_env import PythonFacts
from envcheck.smoke.runs import Framework

NAMES = ("tensorflow", "torch", "jax", "driver")


def installed_frameworks(python: PythonFacts) -> tuple[Framework, ...]:
    """List the frameworks of an environment; of two copies of one, the one that is imported."""
    builds = python.frameworks.value if isinstance(python.frameworks, Known) else ()
    found: dict[str, Framework] = {}
    for build in builds:
        # jaxlib and JAX's plugins have numbers of their own; jax's is the one people know.
        if build.framework != "jax" or build.distribution in {"jax", "jaxlib"}:
            found.setdefault(build.framework, Framework(build.framework, build.version))
    versions = {item.name: item.version for item in value_of(python.distributions) or ()}
    if "jax" in found and "jax" in versions:
        found["jax"] = Framework("jax", versions["jax"])
    return tuple(found[name] for name in NAMES if name in found)


def hidden_folders(python: PythonFacts) -> tuple[str, ...]:
    """List the folders that an isolated start (-I) leaves out: the user's site-packages and PYTHONPATH."""
    distributions = value_of(python.distributions) or ()
    return tuple(dict.fromkeys(item.location for item in distributions if item.scope in {"user", "path"}))
