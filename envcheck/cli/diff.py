"""`envcheck diff`: what differs between a machine that works and one that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, UserError

if TYPE_CHECKING:
    from envcheck.diff.compare import Comparison

EXAMPLE = "Example: envcheck diff works.json broken.json"


@click.command(epilog=EXAMPLE)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--for", "requirements", multiple=True, metavar="REQ", help="Judge both for this release too.")
@click.option(
    "--expect",
    type=click.Choice(["auto", "gpu", "cpu"]),
    default="auto",
    help="What must work on both; auto: a GPU where there is one.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print.")
@options.matrix("Judge both by this matrix.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdicts and the most likely cause only.")
@click.option("-v", "--verbose", is_flag=True, help="Print every difference.")
@options.color
def diff(
    a: str,
    b: str,
    requirements: tuple[str, ...],
    expect: str,
    form: str,
    matrix_file: str | None,
    quiet: bool,
    verbose: bool,
    color_mode: str,
) -> int:
    """Say what differs between two machines saved by `envcheck snapshot`, most likely cause first.

    Ends with 0 when nothing that matters to the frameworks installed differs, with 1 when something does,
    with 3 when that could not be told.
    """
    found = _compared(a, b, expect, requirements, matrix_file)
    if form == "json":
        from envcheck.render.diff import render_diff_json

        click.echo(render_diff_json(found, (a, b)))
    else:
        from envcheck.render.diff import print_comparison

        print_comparison(found, (a, b), color=options.wants_color(color_mode), verbose=verbose, quiet=quiet)
    return OF_VERDICT[found.verdict]


def _compared(a: str, b: str, expect: str, requirements: tuple[str, ...], matrix_file: str | None) -> Comparison:
    from envcheck.diff.compare import compare
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.rules import Target, TargetError

    machines = inspect.saved_snapshot(a), inspect.saved_snapshot(b)
    try:
        return compare(*machines, load_matrix(matrix_file), Target(expect, requirements))
    except (MatrixError, TargetError) as error:
        raise UserError(str(error)) from None
