"""`envcheck matrix`: ask the compatibility matrix."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.cli.matrix_refresh import known_framework
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED

if TYPE_CHECKING:
    from envcheck.matrix.query import Matrix
    from envcheck.render.matrix import Rows, Tables
    from envcheck.rules.matrix_question import Question


def tables_of(loaded: Matrix, text: str) -> Tables | None:
    """Find the rows of the tables that a name asks for; None where it names none of them."""
    from envcheck.render.matrix import Tables
    from envcheck.rules.matrix_question import tables_named

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
    from envcheck.render.matrix import render_tables, render_tables_json

    if printing.form == "json":
        click.echo(render_tables_json(found))
    else:
        click.echo(render_tables(found, verbose=printing.verbose, quiet=printing.quiet))
    return OF_VERDICT[found.verdict]


def load(path: str | None) -> Matrix:
    """Load the matrix to ask; one that cannot be used is the user's error."""
    from envcheck.matrix.load import MatrixError, load_matrix

    try:
        return load_matrix(path)
    except MatrixError as error:
        raise UserError(str(error)) from None


def with_limits(loaded: Matrix, text: str) -> Rows:
    """Find the rows that a requirement admits."""
    from envcheck.render.matrix import Rows
    from envcheck.rules.matrix_question import look_up
    from envcheck.rules.targets import TargetError

    try:
        found = look_up(loaded, text)
    except TargetError as error:
        raise UserError(str(error)) from None
    verdict, message = (COMPATIBLE, _counted(len(found))) if found else _not_held(loaded, text)
    return Rows(verdict, message, loaded.checked, {"requirement": text}, found)


def _not_held(loaded: Matrix, requirement: str) -> tuple[str, str]:
    from envcheck.rules.matrix_question import nearest, removed, required_by

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
    from envcheck.render.matrix import Rows
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
    from envcheck.matrix.gpus import find_capabilities

    if not gpu or loaded.architecture(gpu):
        return (gpu,) if gpu else ()
    if re.fullmatch(r"\d+\.\d+", gpu):
        known = ", ".join(row.compute_capability for row in loaded.architectures())
        raise UserError(f"--gpu {gpu}: the matrix knows no such compute capability; it knows {known}.")
    found = find_capabilities(gpu)
    if not found:
        raise UserError(f"--gpu {gpu}: no such GPU is known; give its compute capability instead, such as 8.9.")
    return found


def _counted(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}."


def print_found(rows: Rows, printing: options.Printing) -> int:
    """Print rows in the form asked for; return the exit code of their verdict."""
    from envcheck.render.matrix import print_rows, render_rows_json

    if printing.form == "json":
        click.echo(render_rows_json(rows))
    else:
        print_rows(rows, color=printing.color, verbose=printing.verbose, quiet=printing.quiet)
    return OF_VERDICT[rows.verdict]


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
    loaded = load(matrix_file)
    table = tables_of(loaded, requirement)
    if table is not None:
        return print_tables(table, printing)
    found = with_limits(loaded, requirement)
    return print_found(found, printing)


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
    named = {name: value or "" for name, value in asked.items()}
    found = queried(load(matrix_file), named, EXAMPLE)
    return print_found(found, printing)


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
    asked = matrix_refresh.RefreshRequest(matrix_file, frameworks, since, output, today, deep)
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
    from envcheck.cli import matrix_refresh as matrix_verify

    if sample and everything:
        raise UserError("--sample and --all exclude each other.")
    rows, wheels = (0, 0) if everything else (sample or 20, sample or 3)
    asked = matrix_verify.VerifyRequest(matrix_file, frameworks, rows, wheels if deep else None)
    return matrix_verify.verify(asked, printing)
