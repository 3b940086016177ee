"""Rule about an environment that takes packages from more than one place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, WARNING, Distribution, Finding, Known, Problem, major_minor
from envcheck.rules.context import Context
from envcheck.rules.dependencies import violations
from envcheck.rules.registry import rule

# Compiled or closely tied parts of the frameworks: a second copy of one of these breaks the first.
_PARTS = frozenset(
    (
        "h5py",
        "keras",
        "ml-dtypes",
        "numpy",
        "protobuf",
        "scipy",
        "tensorflow-estimator",
        "tf-keras",
        "typing-extensions",
    )
)
_OUTSIDE = {"user": "the user's site-packages", "path": "a folder on PYTHONPATH"}


@rule("env-mixed", goal="any")
def env_mixed(context: Context) -> Iterator[Finding]:
    """Find copies of one package in several places, and packages of another Python."""
    yield from _foreign_python(context)
    fact = context.facts.python.distributions
    copies: dict[str, list[Distribution]] = {}
    for item in fact.value if isinstance(fact, Known) else ():
        if item.name in _PARTS or context.matrix.framework_of(item.name):
            copies.setdefault(item.name, []).append(item)
    for name, found in copies.items():
        if _from_outside(found):
            yield _outside(context, name, found)
        elif _two_installers(found):
            yield _overlaid(context, name, found)


def _from_outside(found: list[Distribution]) -> bool:
    """Tell whether an environment's package has another version outside of it."""
    scopes = {item.scope for item in found}
    several = len({item.version for item in found}) > 1
    return several and "environment" in scopes and bool(scopes & set(_OUTSIDE))


def _two_installers(found: list[Distribution]) -> bool:
    """Tell whether conda and pip both registered one package in the same folder."""
    here = [item for item in found if item.location == found[0].location]
    conda = {item.installer == "conda" for item in here if item.installer}
    return len({item.version for item in here}) > 1 and len(conda) > 1


def _outside(context: Context, name: str, found: list[Distribution]) -> Finding:
    inner = next(item for item in found if item.scope == "environment")
    outer = next(item for item in found if item.scope in _OUTSIDE and item.version != inner.version)
    winner = found[0]
    broken = any(item.name == name for item in violations(context))
    return Finding(
        "env-mixed",
        INCOMPATIBLE,
        ERROR if broken else WARNING,
        f"{name} {inner.version} of the environment and {name} {outer.version} of {_OUTSIDE[outer.scope]} are both "
        f"importable; {winner.version} is found first.",
        tuple(
            context.seen("python.distributions", shown=f"{item.name} {item.version} in {item.location or item.scope}")
            for item in found
        ),
        problem=Problem(("user-site" if outer.scope == "user" else "python-path",)),
    )


def _overlaid(context: Context, name: str, found: list[Distribution]) -> Finding:
    by_conda = next(item for item in found if item.installer == "conda")
    by_pip = next(item for item in found if item.installer and item.installer != "conda")
    return Finding(
        "env-mixed",
        INCOMPATIBLE,
        WARNING,
        f"conda installed {name} {by_conda.version} and {by_pip.installer} installed {name} {by_pip.version} over it "
        f"in the same folder: files of both are mixed.",
        (
            context.seen("python.distributions", shown=f"{name} {by_conda.version} by conda"),
            context.seen("python.distributions", shown=f"{name} {by_pip.version} by {by_pip.installer}"),
        ),
        problem=Problem(("two-installers",), names=(name,), values=(("installer", by_pip.installer),)),
    )


def _foreign_python(context: Context) -> Iterator[Finding]:
    """Yield PYTHONPATH entries that belong to another Python than the inspected one."""
    version = context.facts.python.version
    if not isinstance(version, Known):
        return
    minor = major_minor(version.value)
    for entry in context.environment.get("PYTHONPATH", "").split(";" if context.os == "windows" else ":"):
        match = re.search(r"python(\d\.\d+)/(?:site|dist)-packages", entry.replace("\\", "/"))
        if match and match.group(1) != minor:
            yield Finding(
                "env-mixed",
                INCOMPATIBLE,
                WARNING,
                f"PYTHONPATH puts {entry}, packages of Python {match.group(1)}, before those of this Python {minor}.",
                (
                    context.seen("host.environment", shown=f"PYTHONPATH names {entry}"),
                    context.seen("python.version"),
                    context.seen("python.executable"),
                ),
                problem=Problem(("other-python",)),
            )
