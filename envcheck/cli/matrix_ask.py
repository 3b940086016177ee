"""What `envcheck matrix show` and `query` find; their options stand in matrix.py."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, UNDETERMINED

if TYPE_CHECKING:
    from envcheck.matrix.query import Matrix
    from envcheck.render.matrix_table import Rows
    from envcheck.rules.matrix_question import Question


def load(path: str | None) -> Matrix:
    """Load the matrix to ask; one that cannot be used is the user's error."""
    from envcheck.matrix.load import MatrixError, load_matrix

    try:
        return load_matrix(path)
    except MatrixError as error:
        raise UserError(str(error)) from None


def known_framework(name: str, known: Iterable[str]) -> None:
    """Refuse a framework that the matrix does not know, with the one that may be meant."""
    from difflib import get_close_matches

    names = list(known)
    if name in names:
        return
    close = get_close_matches(name.lower(), names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise UserError(f"--framework {name}: the matrix knows {', '.join(names)}.{hint}")


def shown(loaded: Matrix, text: str) -> Rows:
    """Find the rows that a requirement admits."""
    from envcheck.render.matrix_table import Rows
    from envcheck.rules.matrix_lookup import look_up
    from envcheck.rules.targets import TargetError

    try:
        found = look_up(loaded, text)
    except TargetError as error:
        raise UserError(str(error)) from None
    verdict, message = (COMPATIBLE, _counted(len(found))) if found else _not_held(loaded, text)
    return Rows(verdict, message, loaded.checked, {"requirement": text}, found)


def _not_held(loaded: Matrix, requirement: str) -> tuple[str, str]:
    from envcheck.rules.matrix_lookup import nearest, removed, required_by

    gone = removed(loaded, requirement)
    if gone is not None:
        return INCOMPATIBLE, f"{gone.name}: {gone.reason} Use {gone.replacement} instead."
    asking = required_by(loaded, requirement)
    if asking:
        told = f"The matrix has no rows of {requirement}: {asking} pins it. Show that: envcheck matrix show {asking}"
        return UNDETERMINED, told
    framework, near, newest = nearest(loaded, requirement)
    told = f" Nearest to it: {' and '.join(near)}." if near else ""
    told += f" Its newest release of {framework} is {newest}." if newest else ""
    return UNDETERMINED, f"The matrix does not hold {requirement}.{told} Renew it: envcheck matrix refresh"


def queried(loaded: Matrix, asked: dict[str, str], example: str) -> Rows:
    """Find the rows that fit what was asked for; `asked` maps each option to its value, "" where it is not given."""
    from envcheck.render.matrix_table import Rows
    from envcheck.rules.matrix_question import answer

    found = answer(loaded, _question(loaded, asked, example))
    named = {name: value for name, value in asked.items() if value}
    fits = any(item.fit == COMPATIBLE for item in found)
    verdict = COMPATIBLE if fits else UNDETERMINED if found else INCOMPATIBLE
    message = _counted(len(found)) if found else "No release in the matrix fits all of that."
    if not fits and found:
        message += " Whether they fit could not be told."
    return Rows(verdict, message, loaded.checked, named, found)


def _question(loaded: Matrix, asked: dict[str, str], example: str) -> Question:
    from envcheck.rules.matrix_question import Question

    if not any(asked.values()):
        raise UserError(f"name at least one thing to ask about. {example}")
    if asked["python"] and not re.fullmatch(r"\d+\.\d+t?", asked["python"]):
        raise UserError(f"--python {asked['python']}: give a minor version such as 3.11.")
    if asked["driver"] and not re.fullmatch(r"\d+(\.\d+)*", asked["driver"]):
        raise UserError(f"--driver {asked['driver']}: give a driver release such as 535.104.05.")
    if asked["framework"]:
        known_framework(asked["framework"], loaded.frameworks())
    capabilities = _capabilities(loaded, asked["gpu"])
    return Question(asked["python"], asked["driver"], capabilities, asked["platform"], asked["framework"])


def _capabilities(loaded: Matrix, gpu: str) -> tuple[str, ...]:
    from envcheck.matrix.gpus import capabilities_named

    if not gpu or loaded.architecture(gpu):
        return (gpu,) if gpu else ()
    if re.fullmatch(r"\d+\.\d+", gpu):
        known = ", ".join(row.compute_capability for row in loaded.architectures())
        raise UserError(f"--gpu {gpu}: the matrix knows no such compute capability; it knows {known}.")
    found = capabilities_named(gpu)
    if not found:
        raise UserError(f"--gpu {gpu}: no such GPU is known; give its compute capability instead, such as 8.9.")
    return found


def _counted(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}."


def print_found(rows: Rows, printing: options.Printing) -> int:
    """Print rows in the form asked for; return the exit code of their verdict."""
    from envcheck.render.matrix_table import print_rows, render_rows_json

    if printing.form == "json":
        click.echo(render_rows_json(rows))
    else:
        print_rows(rows, color=printing.color, verbose=printing.verbose, quiet=printing.quiet)
    return OF_VERDICT[rows.verdict]
