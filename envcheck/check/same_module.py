"""Two requirements of a file whose distributions bring the same module."""

from __future__ import annotations

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envcheck.check.blueprint import Line
from envcheck.check.gates import applies
from envcheck.model.facts import Source
from envcheck.model.findings import ERROR, INCOMPATIBLE, Evidence, Finding, Fix
from envcheck.rules import Context
from envcheck.rules.context import UndecidedError


def of_one_module(wanted: list[Line], context: Context) -> list[Finding]:
    """Find the requirements of which one overwrites the other's files; `wanted` are of frameworks."""
    owners: dict[str, dict[str, Line]] = {}
    for line in wanted:
        name = canonicalize_name(Requirement(line.text).name)
        module = context.matrix.module_of(name)
        if module and module != "jax_plugins" and _surely_applies(line, context):  # a namespace that plugins share
            owners.setdefault(module, {}).setdefault(name, line)
    return [_clash(module, named) for module, named in owners.items() if len(named) > 1]


def _surely_applies(line: Line, context: Context) -> bool:
    try:
        return applies(context, line.text)
    except UndecidedError:
        return False


def _clash(module: str, named: dict[str, Line]) -> Finding:
    seen = tuple(Evidence("requirement", line.text, Source("file", line.where, line.text)) for line in named.values())
    message = (
        f"{' and '.join(named)} both bring the module {module}: their files overwrite each other, and which build "
        "remains depends on the order of installation."
    )
    return Finding("framework-duplicate-dists", INCOMPATIBLE, ERROR, message, seen, Fix("Name one of them only."))
