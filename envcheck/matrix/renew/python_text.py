"""Read the constants of a Python text without running it."""

from __future__ import annotations

import ast
from typing import Any

from envcheck.matrix.renew.errors import ArtifactError


def parse_constants(text: str) -> dict[str, Any]:
    """Map each name assigned at the top of a module to its literal; what is no literal is left out.

    The items of TensorFlow's table stand beside the other names:

    build_info = collections.OrderedDict([("cuda_version", "12.5.1"), ("is_cuda_build", True)])
    """
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArtifactError("a Python text in it cannot be parsed") from error
    found: dict[str, Any] = {}
    for statement in statements:
        name, value = _assigned(statement)
        literals = _literals(value) if value is not None else []
        if name == "build_info" and literals:
            found.update(dict(literals[0]))
        elif literals:
            found[name] = literals[0]
    return found


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """Return the name and value of `name = value` or `name: type = value`."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    return "", None


def _literals(value: ast.expr) -> list[Any]:
    """Return a list of the one literal, found in calls such as OrderedDict([...]) and dict(a=1) too, or of none."""
    while isinstance(value, ast.Call):
        if value.args:
            value = value.args[0]
        else:
            keys: list[ast.expr | None] = [ast.Constant(item.arg) for item in value.keywords]
            value = ast.Dict(keys, [item.value for item in value.keywords])
    try:
        return [ast.literal_eval(value)]
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return []
