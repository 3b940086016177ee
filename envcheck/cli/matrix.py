"""`envcheck matrix`: query the compatibility matrix, refresh it and verify it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, UserError, option
from envcheck.cli.report import FORMATS_WITHOUT_FINDINGS, print_answer
from envcheck.render.matrix import MatrixOptions, describe_found
from envcheck.rules.described_machine import PLATFORMS

EXAMPLE = "Example: envcheck matrix query --python 3.11 --driver 535.104 --gpu 'RTX 4090'"
F = TypeVar("F", bound=Callable[..., Any])


@click.command(cls=click.Group, invoke_without_command=True, epilog=EXAMPLE)
@click.pass_context
def matrix(context: click.Context) -> None:
    """Query, update and verify the matrix of releases that work together.

    Every row names its source.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _add_options(
    quiet: str,
    verbose: str,
    which: str,
    *,
    to_file: bool = True,
) -> Callable[[F], F]:
    """Add the options that every command here has."""

    def add(command: F) -> F:
        add_printing = common.printing(
            *FORMATS_WITHOUT_FINDINGS, quiet=quiet, verbose=verbose, to_file=to_file
        )
        return add_printing(common.matrix(which)(command))

    return add


def _add_row_options(command: F) -> F:
    add = _add_options(
        "Print rows only.",
        "Show requirements, notes, sources and how each cell is known.",
        "Query this matrix instead of the built-in one.",
    )
    sources = option("--sources", "Name the artifact or document that each row rests on.")
    return sources(add(command))


@matrix.command(epilog="Example: envcheck matrix show tensorflow==2.15.*")
@click.argument("requirement", metavar="REQ", shell_complete=common.complete_names)
@_add_row_options
def show(requirement: str, printing: common.Printing, *, sources: bool, **asked: Any) -> int:
    """Show the rows of the releases that match REQ.

    REQ also names a table: cuda, driver, architecture, cudnn==9.10, tensorrt or conda==tensorflow.
    """
    options = MatrixOptions(printing.verbose, printing.quiet, sources=sources or printing.verbose)
    return _print(api.matrix(requirement, **asked), printing, options)


def _print(answer: api.MatrixResult, printing: common.Printing, options: MatrixOptions) -> int:
    print_answer(printing, lambda **_: describe_found(answer.found, options), answer.to_json)
    return OF_VERDICT[answer.verdict]


@matrix.command(epilog=EXAMPLE)
@click.argument("name", metavar="[FRAMEWORK]", default="", shell_complete=common.complete_names)
@option("--python X.Y", "Releases with a wheel for this Python (3.14t: free-threaded).")
@option("--driver VERSION", "GPU builds that run on this driver release.")
@option("--gpu NAME", "GPU builds with code for this product or compute capability.")
@option("--platform", "Releases for this platform.", type=click.Choice(PLATFORMS), default=None)
@option("--framework NAME", "Releases of this framework only.")
@option(
    "--all", "List all releases that meet the conditions, equal ones on one line.", "everything"
)
@_add_row_options
def query(
    name: str, printing: common.Printing, *, everything: bool, sources: bool, **asked: Any
) -> int:
    """Name each framework's newest release that meets all conditions, and why no newer one.

    Without --platform it is for Linux on x86-64. FRAMEWORK limits it as --framework does.
    """
    if name and asked["framework"] not in ("", name):
        raise UserError(f"{name} and --framework {asked['framework']} exclude each other.")
    asked["framework"] = asked["framework"] or name
    is_long = sources or printing.verbose
    options = MatrixOptions(
        printing.verbose, printing.quiet, all_rows=everything or is_long, sources=is_long
    )
    return _print(api.matrix(**asked), printing, options)


@matrix.command(
    short_help="Add new releases from the published wheels.",
    epilog="Example: envcheck matrix refresh --framework tensorflow --output matrix.json",
)
@option("--framework NAME", "Refresh this framework only; repeatable.", "frameworks", multiple=True)
@option("--since VERSION", "Leave older releases as they are.")
@option("-o --output PATH", "Write to this file, or its parts to this folder.", default=None)
@option(
    "--deep", "Also read the binaries of new rows, and of all rows since --since; up to 1 GB each."
)
@_add_options(
    "Print only what was left out and how many rows changed.",
    "Name the wheel that each changed row was read from.",
    "Refresh this matrix instead of the built-in one.",
    to_file=False,
)
def refresh(printing: common.Printing, **asked: Any) -> int:
    """Add new releases, Pythons and requirements from the wheels on pip's index.

    Reads index pages and a few kilobytes to megabytes of each new wheel; runs no code from them.
    """
    from envcheck.cli import matrix_refresh  # reading wheels takes 18 more modules: 15 ms

    return matrix_refresh.refresh(printing, **asked)


@matrix.command(
    short_help="Compare the matrix with the wheels that it cites.",
    epilog="Example: envcheck matrix verify --all --framework tensorflow",
)
@option("--sample", "Compare this many random rows (20).", type=click.IntRange(min=1), default=None)
@option("--all", "Compare every row.", "everything")
@option("--framework NAME", "Rows of this framework; repeatable.", "frameworks", multiple=True)
@option("--deep", "Compare binaries too, of --sample wheels (3) or --all; up to 1 GB each.")
@_add_options(
    "Print only how many rows and cells were compared, and how many differ.",
    "Name each row that was compared.",
    "Verify this matrix instead of the built-in one.",
)
def verify(
    sample: int | None, printing: common.Printing, *, everything: bool, deep: bool, **asked: Any
) -> int:
    """Read the wheels again and report each cell of the matrix that differs from them.

    Also compares the releases with the live index pages: reports releases without a row, and rows
    without a release.
    """
    from envcheck.cli import matrix_refresh  # as in refresh

    if sample and everything:
        raise UserError("--sample and --all exclude each other.")
    rows, wheels = (0, 0) if everything else (sample or 20, sample or 3)
    chosen = wheels if deep else None
    return matrix_refresh.verify(printing, sample=rows, deep=chosen, **asked)


@matrix.command(
    short_help="Use a newer data file, checked and proven.",
    epilog="Example: envcheck matrix update matrix-2026-12-01.json --sha256 HASH",
)
@click.argument("source", metavar="[FILE_OR_URL]", default="")
@option("--sha256 HASH", "Accept the file with this SHA-256 alone.")
@option("--bundle FILE", "The attestation of the file, which gh then does not fetch.")
@option("--undo", "Go back to the data before the last update.")
@common.printing(
    *FORMATS_WITHOUT_FINDINGS,
    quiet="Print only which data is in use.",
    verbose="Print each row that changed, too.",
)
def update(source: str, sha256: str, bundle: str, printing: common.Printing, *, undo: bool) -> int:
    """Use the data of a file or address in place of the built-in data, for every command.

    Nothing is fetched by itself, and no address is built in: ENVCHECK_MATRIX_URL names one. The
    file is proven by the SHA-256 that you give, or by the attestation of the repository in
    ENVCHECK_MATRIX_REPOSITORY.
    """
    from envcheck.cli import matrix_refresh  # as in refresh

    if undo and (source or sha256 or bundle):
        raise UserError("--undo takes no file and no proof.")
    if undo:
        return matrix_refresh.run_undo(printing)
    return matrix_refresh.run_update(source, sha256, bundle, printing)


@matrix.command(epilog="Example: envcheck matrix export -o matrix.json")
@option("-o --output FILE", "Write to this file instead of standard output.", default=None)
def export(output: str | None) -> int:
    """Write the whole built-in matrix as one file, for `matrix update` and --matrix."""
    from envcheck.matrix.load import load_document
    from envcheck.matrix.refresh.files import format_document  # as in refresh

    text = format_document(load_document())
    if output is None:
        click.echo(text, nl=False)
    else:
        common.write_file(output, text)
    return 0
