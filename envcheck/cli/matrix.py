"""`envcheck matrix`: ask the compatibility matrix, and renew it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, UNDETERMINED

if TYPE_CHECKING:
    from envcheck.matrix.query import Matrix
    from envcheck.render.matrix_table import Rows
    from envcheck.rules.matrix_question import Question

EXAMPLE = "Example: envcheck matrix query --python 3.11 --driver 535.104 --gpu 'RTX 4090'"
PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64", "macosx_x86_64", "macosx_arm64")
F = TypeVar("F", bound=Callable[..., Any])


@click.command(cls=click.Group, epilog=EXAMPLE)
def matrix() -> None:
    """Ask the matrix which releases work with what, and renew it; every row names what it rests on."""


def _reporting(command: F) -> F:
    """Add the options of what prints rows."""
    form = click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print.")
    file = click.option("--matrix", "matrix_file", metavar="FILE", help="Ask this compatibility matrix.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Show requirements, notes and how each cell is known.")
    return form(file(verbose(options.color(command))))


@matrix.command(epilog="Example: envcheck matrix show tensorflow==2.15.*")
@click.argument("requirement", metavar="REQ")
@_reporting
def show(requirement: str, form: str, matrix_file: str | None, verbose: bool, color_mode: str) -> int:
    """Show what the matrix holds of the releases that REQ admits."""
    return _print(_shown(_load(matrix_file), requirement), form, verbose, color_mode)


@matrix.command(epilog=EXAMPLE)
@click.option(
    "--python", metavar="X.Y", default="", help="Releases with a wheel for this Python (3.14t: free-threaded)."
)
@click.option("--driver", metavar="VERSION", default="", help="GPU builds that this driver release runs.")
@click.option("--gpu", metavar="NAME", default="", help="GPU builds with code for this GPU, or compute capability.")
@click.option("--platform", type=click.Choice(PLATFORMS), default=None, help="Releases for this platform.")
@click.option("--framework", metavar="NAME", default="", help="Releases of this framework only.")
@_reporting
def query(
    python: str,
    driver: str,
    gpu: str,
    platform: str | None,
    framework: str,
    form: str,
    matrix_file: str | None,
    verbose: bool,
    color_mode: str,
) -> int:
    """List the releases that fit what you name, newest first."""
    loaded = _load(matrix_file)
    asked = {"python": python, "driver": driver, "gpu": gpu, "platform": platform or "", "framework": framework}
    return _print(_queried(loaded, _question(loaded, asked), asked), form, verbose, color_mode)


@matrix.command(epilog="Example: envcheck matrix refresh --framework tensorflow --output matrix.json")
@click.option("--framework", "frameworks", multiple=True, metavar="NAME", help="Renew this framework only; repeatable.")
@click.option("--since", metavar="VERSION", default="", help="Leave older releases as they are.")
@click.option("-o", "--output", metavar="FILE", help="Write here instead of to the user's data folder.")
@click.option("--matrix", "matrix_file", metavar="FILE", help="Renew this matrix instead of the built-in one.")
def refresh(frameworks: tuple[str, ...], since: str, output: str | None, matrix_file: str | None) -> int:
    """Learn new releases, Pythons and requirements from the wheels on the index that pip is configured for.

    Reads index pages and a few kilobytes to megabytes of each new wheel; runs no code from them.
    """
    from datetime import datetime, timezone

    from envcheck.cli import matrix_renew

    today = datetime.now(timezone.utc).date().isoformat()
    return matrix_renew.refresh(matrix_file, frameworks, since, output, today)


@matrix.command(epilog="Example: envcheck matrix verify --all --framework tensorflow")
@click.option("--sample", type=click.IntRange(min=1), default=None, help="Hold this many rows, chosen at random (20).")
@click.option(
    "--all", "everything", is_flag=True, help="Hold every row, and name what the index has beyond the matrix."
)
@click.option("--framework", "frameworks", multiple=True, metavar="NAME", help="Rows of this framework; repeatable.")
@click.option("--matrix", "matrix_file", metavar="FILE", help="Verify this matrix instead of the built-in one.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def verify(
    sample: int | None, everything: bool, frameworks: tuple[str, ...], matrix_file: str | None, form: str
) -> int:
    """Read the wheels anew and report each cell of the matrix that says something else than they do."""
    from envcheck.cli import matrix_renew

    if sample and everything:
        raise UserError("--sample and --all exclude each other.")
    return matrix_renew.verify(matrix_file, frameworks, 0 if everything else sample or 20, form)


def _load(path: str | None) -> Matrix:
    from envcheck.matrix.load import MatrixError, load_matrix

    try:
        return load_matrix(path)
    except MatrixError as error:
        raise UserError(str(error)) from None


def _shown(loaded: Matrix, text: str) -> Rows:
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
    from envcheck.rules.matrix_lookup import newest, removed

    gone = removed(loaded, requirement)
    if gone is not None:
        return INCOMPATIBLE, f"{gone.name}: {gone.reason} Use {gone.replacement} instead."
    latest = newest(loaded, requirement)
    held = f" Its newest release of {latest.distribution} is {latest.version}." if latest else ""
    return UNDETERMINED, f"The matrix does not hold {requirement}.{held} Renew it: envcheck matrix refresh"


def _question(loaded: Matrix, asked: dict[str, str]) -> Question:
    from envcheck.rules.matrix_question import Question

    if not any(asked.values()):
        raise UserError(f"name at least one thing to ask about. {EXAMPLE}")
    if asked["python"] and not re.fullmatch(r"\d+\.\d+t?", asked["python"]):
        raise UserError(f"--python {asked['python']}: give a minor version such as 3.11.")
    if asked["driver"] and not re.fullmatch(r"\d+(\.\d+)*", asked["driver"]):
        raise UserError(f"--driver {asked['driver']}: give a driver release such as 535.104.05.")
    if asked["framework"] and asked["framework"] not in loaded.frameworks():
        raise UserError(f"--framework {asked['framework']}: the matrix knows {', '.join(loaded.frameworks())}.")
    capabilities = _capabilities(loaded, asked["gpu"])
    return Question(asked["python"], asked["driver"], capabilities, asked["platform"], asked["framework"])


def _capabilities(loaded: Matrix, gpu: str) -> tuple[str, ...]:
    from envcheck.matrix.gpus import capabilities_named

    if not gpu or loaded.architecture(gpu):
        return (gpu,) if gpu else ()
    found = capabilities_named(gpu)
    if not found:
        raise UserError(f"--gpu {gpu}: no such GPU is known; give its compute capability instead, such as 8.9.")
    return found


def _queried(loaded: Matrix, question: Question, asked: dict[str, str]) -> Rows:
    from envcheck.render.matrix_table import Rows
    from envcheck.rules.matrix_question import answer

    found = answer(loaded, question)
    named = {name: value for name, value in asked.items() if value}
    fits = any(item.fit == COMPATIBLE for item in found)
    verdict = COMPATIBLE if fits else UNDETERMINED if found else INCOMPATIBLE
    message = _counted(len(found)) if found else "No release in the matrix fits all of that."
    if not fits and found:
        message += " Whether they fit could not be told."
    return Rows(verdict, message, loaded.checked, named, found)


def _counted(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}."


def _print(rows: Rows, form: str, verbose: bool, color_mode: str) -> int:
    from envcheck.render.matrix_table import print_rows, render_rows_json

    if form == "json":
        click.echo(render_rows_json(rows))
    else:
        print_rows(rows, color=options.wants_color(color_mode), verbose=verbose)
    return OF_VERDICT[rows.verdict]
