"""What `envcheck matrix show` finds beside the frameworks: CUDA, drivers, cuDNN, TensorRT, conda, Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT
from envcheck.model.findings import COMPATIBLE, UNDETERMINED

if TYPE_CHECKING:
    from envcheck.matrix.query import Matrix
    from envcheck.render.matrix_tables import Tables


def shown(loaded: Matrix, text: str) -> Tables | None:
    """Find the rows of the tables that a name asks for; None where it names none of them."""
    from envcheck.render.matrix_tables import Tables
    from envcheck.rules.matrix_tables import tables_named

    found = tables_named(loaded, text)
    if found is None:
        return None
    if not found:
        message = f"The matrix does not hold {text}. Renew it: envcheck matrix refresh"
        return Tables(UNDETERMINED, message, loaded.checked, text, ())
    message = f"{len(found)} row{'' if len(found) == 1 else 's'}. * documented, not read from an artifact."
    return Tables(COMPATIBLE, message, loaded.checked, text, found)


def print_tables(found: Tables, printing: options.Printing) -> int:
    """Print rows in the form asked for; return the exit code of their verdict."""
    from envcheck.render.matrix_tables import render_tables, render_tables_json

    if printing.form == "json":
        click.echo(render_tables_json(found))
    else:
        click.echo(render_tables(found, verbose=printing.verbose, quiet=printing.quiet))
    return OF_VERDICT[found.verdict]
