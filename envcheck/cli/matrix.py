"""`envcheck matrix`: ask the compatibility matrix, and renew it. What the commands do stands in matrix_*.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from envcheck.cli import options
from envcheck.cli.exits import UserError

EXAMPLE = "Example: envcheck matrix query --python 3.11 --driver 535.104 --gpu 'RTX 4090'"
PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64", "macosx_x86_64", "macosx_arm64")
F = TypeVar("F", bound=Callable[..., Any])


@click.command(cls=click.Group, invoke_without_command=True, epilog=EXAMPLE)
@click.pass_context
def matrix(context: click.Context) -> None:
    """Ask the matrix which releases work with what, and renew it; every row names what it rests on."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _telling(quiet: str, verbose: str, which: str) -> Callable[[F], F]:
    """Add the options that every command here has."""

    def add(command: F) -> F:
        return options.printing("text", "json", quiet=quiet, verbose=verbose)(options.matrix(which)(command))

    return add


_rows = _telling(
    "Leave out remarks; rows and their sources only.",
    "Show requirements, notes and how each cell is known.",
    "Ask this matrix instead of the built-in one.",
)


@matrix.command(epilog="Example: envcheck matrix show tensorflow==2.15.*")
@click.argument("requirement", metavar="REQ")
@_rows
def show(requirement: str, matrix_file: str | None, printing: options.Printing) -> int:
    """Show what the matrix holds of the releases that REQ admits.

    cuda, driver, architecture, cudnn, tensorrt and conda name its tables: cudnn==9.10, conda==tensorflow.
    """
    from envcheck.cli import matrix_ask, matrix_tables

    loaded = matrix_ask.load(matrix_file)
    table = matrix_tables.shown(loaded, requirement)
    if table is not None:
        return matrix_tables.print_tables(table, printing)
    found = matrix_ask.shown(loaded, requirement)
    return matrix_ask.print_found(found, printing)


@matrix.command(epilog=EXAMPLE)
@click.option(
    "--python", metavar="X.Y", default="", help="Releases with a wheel for this Python (3.14t: free-threaded)."
)
@click.option("--driver", metavar="VERSION", default="", help="GPU builds that this driver release runs.")
@click.option("--gpu", metavar="NAME", default="", help="GPU builds with code for this GPU, or compute capability.")
@click.option("--platform", type=click.Choice(PLATFORMS), default=None, help="Releases for this platform.")
@click.option("--framework", metavar="NAME", default="", help="Releases of this framework only.")
@_rows
def query(
    matrix_file: str | None,
    printing: options.Printing,
    **asked: str | None,
) -> int:
    """List the releases that fit what you name, newest first."""
    from envcheck.cli import matrix_ask

    named = {name: value or "" for name, value in asked.items()}
    found = matrix_ask.queried(matrix_ask.load(matrix_file), named, EXAMPLE)
    return matrix_ask.print_found(found, printing)


@matrix.command(
    short_help="Learn new releases from the published wheels.",
    epilog="Example: envcheck matrix refresh --framework tensorflow --output matrix.json",
)
@click.option("--framework", "frameworks", multiple=True, metavar="NAME", help="Renew this framework only; repeatable.")
@click.option("--since", metavar="VERSION", default="", help="Leave older releases as they are.")
@click.option("-o", "--output", metavar="FILE", help="Write here instead of to the user's data folder.")
@click.option(
    "--deep", is_flag=True, help="Read binaries too, of new rows and of all from --since on; up to 1 GB each."
)
@_telling(
    "Tell only what was left out and how many rows changed.",
    "Name the wheel that each changed row was read from.",
    "Renew this matrix instead of the built-in one.",
)
def refresh(
    frameworks: tuple[str, ...],
    since: str,
    output: str | None,
    deep: bool,
    matrix_file: str | None,
    printing: options.Printing,
) -> int:
    """Learn new releases, Pythons and requirements from the wheels on the index that pip is configured for.

    Reads index pages and a few kilobytes to megabytes of each new wheel; runs no code from them.
    """
    from datetime import datetime, timezone

    from envcheck.cli import matrix_refresh

    today = datetime.now(timezone.utc).date().isoformat()
    asked = matrix_refresh.Asked(matrix_file, frameworks, since, output, today, deep)
    return matrix_refresh.refresh(asked, printing)


@matrix.command(
    short_help="Hold the matrix against the wheels it cites.",
    epilog="Example: envcheck matrix verify --all --framework tensorflow",
)
@click.option("--sample", type=click.IntRange(min=1), default=None, help="Hold this many rows, chosen at random (20).")
@click.option("--all", "everything", is_flag=True, help="Hold every row.")
@click.option("--framework", "frameworks", multiple=True, metavar="NAME", help="Rows of this framework; repeatable.")
@click.option("--deep", is_flag=True, help="Hold binaries too, of --sample wheels (3) or --all; up to 1 GB each.")
@_telling(
    "Tell only how many rows and cells were held, and how many disagree.",
    "Name each row that was held.",
    "Verify this matrix instead of the built-in one.",
)
def verify(
    sample: int | None,
    everything: bool,
    frameworks: tuple[str, ...],
    deep: bool,
    matrix_file: str | None,
    printing: options.Printing,
) -> int:
    """Read the wheels anew and report each cell of the matrix that says something else than they do.

    The releases are held against the live index page: those without a row, and rows without a release, are named.
    """
    from envcheck.cli import matrix_verify

    if sample and everything:
        raise UserError("--sample and --all exclude each other.")
    rows, wheels = (0, 0) if everything else (sample or 20, sample or 3)
    asked = matrix_verify.Asked(matrix_file, frameworks, rows, wheels if deep else None)
    return matrix_verify.verify(asked, printing)
