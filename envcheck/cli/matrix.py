"""`envcheck matrix`: query the compatibility matrix, refresh it and verify it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeVar

import click

from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, UserError
from envcheck.matrix import Matrix
from envcheck.matrix.gpus import find_capabilities
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED
from envcheck.render.matrix import (
    RowsFound,
    TablesFound,
    print_rows,
    render_rows_json,
    render_tables,
    render_tables_json,
)
from envcheck.rules.builds import TargetError
from envcheck.rules.described_machine import describe_unknown_gpu, name_architectures
from envcheck.rules.matrix_question import (
    Question,
    find_nearest,
    find_releases,
    find_removed,
    find_requirer,
    find_rows,
    find_table_rows,
)

EXAMPLE = "Example: envcheck matrix query --python 3.11 --driver 535.104 --gpu 'RTX 4090'"
PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64", "macosx_x86_64", "macosx_arm64")
F = TypeVar("F", bound=Callable[..., Any])


@click.command(cls=click.Group, invoke_without_command=True, epilog=EXAMPLE)
@click.pass_context
def matrix(context: click.Context) -> None:
    """Query, update and verify the matrix of releases that work together. Every row names its source."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _add_options(quiet: str, verbose: str, which: str) -> Callable[[F], F]:
    """Add the options that every command here has."""

    def add(command: F) -> F:
        return common.printing("text", "json", quiet=quiet, verbose=verbose)(common.matrix(which)(command))

    return add


_add_row_options = _add_options(
    "Print rows and their sources only.",
    "Show requirements, notes and how each cell is known.",
    "Query this matrix instead of the built-in one.",
)


@matrix.command(epilog="Example: envcheck matrix show tensorflow==2.15.*")
@click.argument("requirement", metavar="REQ")
@_add_row_options
def show(requirement: str, matrix_file: str | None, printing: common.Printing) -> int:
    """Show the rows of the releases that match REQ.

    REQ also names a table: cuda, driver, architecture, cudnn==9.10, tensorrt or conda==tensorflow.
    """
    loaded = common.load_matrix(matrix_file)
    tables = _show_tables(loaded, requirement)
    return _print_tables(tables, printing) if tables else _print_rows(_show_rows(loaded, requirement), printing)


def _show_tables(loaded: Matrix, text: str) -> TablesFound | None:
    """Find the rows of the table that a name asks for; None if it names no table."""
    found = find_table_rows(loaded, text)
    if found is None:
        return None
    if not found:
        message = f"The matrix has no row for {text}. Update it: envcheck matrix refresh"
        return TablesFound(UNDETERMINED, message, loaded.checked, text, ())
    message = f"{_count_rows(len(found))} * documented, not read from an artifact."
    return TablesFound(COMPATIBLE, message, loaded.checked, text, found)


def _show_rows(loaded: Matrix, text: str) -> RowsFound:
    """Find the rows that a requirement admits."""
    try:
        found = find_rows(loaded, text)
    except TargetError as error:
        raise UserError(str(error)) from None
    verdict, message = (COMPATIBLE, _count_rows(len(found))) if found else _describe_missing(loaded, text)
    return RowsFound(verdict, message, loaded.checked, {"requirement": text}, found)


def _describe_missing(loaded: Matrix, requirement: str) -> tuple[str, str]:
    """Say why the matrix has no row for a requirement, and what it has."""
    removed = find_removed(loaded, requirement)
    if removed is not None:
        return INCOMPATIBLE, f"{removed.name}: {removed.reason} Use {removed.replacement} instead."
    requirer = find_requirer(loaded, requirement)
    if requirer:
        pinned = f"The matrix has no row for {requirement}; {requirer} pins it."
        return UNDETERMINED, f"{pinned} Show {requirer}: envcheck matrix show {requirer}"
    framework, near, newest = find_nearest(loaded, requirement)
    known = f" Nearest releases: {' and '.join(near)}." if near else ""
    known += f" Newest release of {framework} in the matrix: {newest}." if newest else ""
    return UNDETERMINED, f"The matrix has no row for {requirement}.{known} Update it: envcheck matrix refresh"


def _count_rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}."


def _print_tables(found: TablesFound, printing: common.Printing) -> int:
    if printing.form == "json":
        click.echo(render_tables_json(found))
    else:
        click.echo(render_tables(found, verbose=printing.verbose, quiet=printing.quiet))
    return OF_VERDICT[found.verdict]


def _print_rows(found: RowsFound, printing: common.Printing) -> int:
    if printing.form == "json":
        click.echo(render_rows_json(found))
    else:
        print_rows(found, color=printing.color, verbose=printing.verbose, quiet=printing.quiet)
    return OF_VERDICT[found.verdict]


@matrix.command(epilog=EXAMPLE)
@click.option(
    "--python", metavar="X.Y", default="", help="Releases with a wheel for this Python (3.14t: free-threaded)."
)
@click.option("--driver", metavar="VERSION", default="", help="GPU builds that run on this driver release.")
@click.option("--gpu", metavar="NAME", default="", help="GPU builds with code for this product or compute capability.")
@click.option("--platform", type=click.Choice(PLATFORMS), default=None, help="Releases for this platform.")
@click.option("--framework", metavar="NAME", default="", help="Releases of this framework only.")
@_add_row_options
def query(matrix_file: str | None, printing: common.Printing, **values: str | None) -> int:
    """List the releases that meet all conditions, newest first."""
    conditions = {name: value or "" for name, value in values.items()}
    return _print_rows(_query(common.load_matrix(matrix_file), conditions), printing)


def _query(loaded: Matrix, conditions: dict[str, str]) -> RowsFound:
    """Find the rows that meet all conditions; `conditions` maps each option to its value, "" if it is not given."""
    question = _make_question(loaded, conditions)
    found = find_releases(loaded, question)
    given = {name: value for name, value in conditions.items() if value}
    fits = any(item.fit == COMPATIBLE for item in found)
    verdict = COMPATIBLE if fits else UNDETERMINED if found else INCOMPATIBLE
    message = _count_rows(len(found)) if found else "No release in the matrix meets all of these conditions."
    if found and not fits:
        message += " The matrix does not show whether they meet all conditions."
    if len(question.capabilities) > 1:
        message += _describe_ambiguity(loaded, conditions["gpu"], question.capabilities)
    return RowsFound(verdict, message, loaded.checked, given, found)


def _describe_ambiguity(loaded: Matrix, name: str, capabilities: tuple[str, ...]) -> str:
    """Say which architectures a product name stands for, and ask for the one that is meant."""
    meant = name_architectures(capabilities, loaded)
    return f" --gpu {name[:40]!r} stands for {meant}. Give the one that you mean, such as --gpu {capabilities[-1]}."


def _make_question(loaded: Matrix, conditions: dict[str, str]) -> Question:
    if not any(conditions.values()):
        raise UserError(f"name at least one condition. {EXAMPLE}")
    if conditions["python"] and not re.fullmatch(r"\d+\.\d+t?", conditions["python"]):
        raise UserError(f"--python {conditions['python']}: give a minor version such as 3.11.")
    if conditions["driver"] and not re.fullmatch(r"\d+(\.\d+)*", conditions["driver"]):
        raise UserError(f"--driver {conditions['driver']}: give a driver release such as 535.104.05.")
    if conditions["framework"]:
        common.check_framework(conditions["framework"], loaded.frameworks())
    capabilities = _find_capabilities(loaded, conditions["gpu"])
    return Question(
        conditions["python"], conditions["driver"], capabilities, conditions["platform"], conditions["framework"]
    )


def _find_capabilities(loaded: Matrix, gpu: str) -> tuple[str, ...]:
    if not gpu or loaded.architecture(gpu):
        return (gpu,) if gpu else ()
    if re.fullmatch(r"\d+\.\d+", gpu):
        known = ", ".join(row.compute_capability for row in loaded.architectures())
        raise UserError(f"--gpu {gpu}: unknown compute capability. The matrix has {known}.")
    found = find_capabilities(gpu)
    if not found:
        raise UserError(f"--gpu {gpu}: {describe_unknown_gpu(gpu)}.")
    return found


@matrix.command(
    short_help="Add new releases from the published wheels.",
    epilog="Example: envcheck matrix refresh --framework tensorflow --output matrix.json",
)
@click.option(
    "--framework", "frameworks", multiple=True, metavar="NAME", help="Refresh this framework only; repeatable."
)
@click.option("--since", metavar="VERSION", default="", help="Leave older releases as they are.")
@click.option("-o", "--output", metavar="PATH", help="Write to this file, or its parts to this folder.")
@click.option(
    "--deep", is_flag=True, help="Also read the binaries of new rows, and of all rows since --since; up to 1 GB each."
)
@_add_options(
    "Print only what was left out and how many rows changed.",
    "Name the wheel that each changed row was read from.",
    "Refresh this matrix instead of the built-in one.",
)
def refresh(
    frameworks: tuple[str, ...],
    since: str,
    output: str | None,
    deep: bool,
    matrix_file: str | None,
    printing: common.Printing,
) -> int:
    """Add new releases, Pythons and requirements from the wheels on the index that pip is configured for.

    Reads index pages and a few kilobytes to megabytes of each new wheel; runs no code from them.
    """
    from envcheck.cli import matrix_refresh  # reading wheels takes 18 more modules: 15 ms

    today = datetime.now(timezone.utc).date().isoformat()
    request = matrix_refresh.RefreshRequest(matrix_file, frameworks, since, output, today, deep)
    return matrix_refresh.refresh(request, printing)


@matrix.command(
    short_help="Compare the matrix with the wheels that it cites.",
    epilog="Example: envcheck matrix verify --all --framework tensorflow",
)
@click.option("--sample", type=click.IntRange(min=1), default=None, help="Compare this many random rows (20).")
@click.option("--all", "everything", is_flag=True, help="Compare every row.")
@click.option("--framework", "frameworks", multiple=True, metavar="NAME", help="Rows of this framework; repeatable.")
@click.option("--deep", is_flag=True, help="Compare binaries too, of --sample wheels (3) or --all; up to 1 GB each.")
@_add_options(
    "Print only how many rows and cells were compared, and how many differ.",
    "Name each row that was compared.",
    "Verify this matrix instead of the built-in one.",
)
def verify(
    sample: int | None,
    everything: bool,
    frameworks: tuple[str, ...],
    deep: bool,
    matrix_file: str | None,
    printing: common.Printing,
) -> int:
    """Read the wheels again and report each cell of the matrix that differs from them.

    Also compares the releases with the live index pages: reports releases without a row, and rows without a release.
    """
    from envcheck.cli import matrix_refresh  # as in refresh

    if sample and everything:
        raise UserError("--sample and --all exclude each other.")
    rows, wheels = (0, 0) if everything else (sample or 20, sample or 3)
    request = matrix_refresh.VerifyRequest(matrix_file, frameworks, rows, wheels if deep else None)
    return matrix_refresh.verify(request, printing)
