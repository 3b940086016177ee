"""`envcheck gpus`: the GPUs, who holds them, and whether a job fits."""

from __future__ import annotations

import click
from click.core import ParameterSource

from envcheck.cli import options
from envcheck.cli.exits import UserError
from envcheck.cli.gpus_watch import Asked, Shown, once, watch
from envcheck.gpus.fits import Job, parse_count, tables, trains

EXAMPLE = "Example: envcheck gpus --fits 340M --dtype fp32 --optimizer adam --batch 32 --activations 12M"
DTYPES, OPTIMIZERS = (tuple(tables()[name]) for name in ("dtypes", "optimizers"))


@click.command(epilog=EXAMPLE)
@click.option(
    "--watch", "seconds", type=click.FloatRange(0.1), metavar="SECONDS", help="Look again and again; Ctrl-C ends it."
)
@click.option("--csv", "csv_file", metavar="FILE", help="Append a row for each GPU and reading to this file.")
@click.option("--fits", "parameters", metavar="PARAMS", help="Does a model of 340M or 1.3B weights fit in free memory?")
@click.option("--dtype", type=click.Choice(DTYPES), default="fp32", show_default=True, help="What its numbers are.")
@click.option("--optimizer", type=click.Choice(OPTIMIZERS), default="adam", show_default=True, help="none: inference.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Samples in a batch.")
@click.option("--activations", metavar="COUNT", default="0", help="Numbers one sample leaves for the backward pass.")
@click.option(
    "--timeout", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Seconds that the driver may take."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@options.color
@options.verbosity
def gpus(
    seconds: float | None,
    csv_file: str | None,
    parameters: str | None,
    dtype: str,
    optimizer: str,
    batch: int,
    activations: str,
    timeout: float,
    form: str,
    color_mode: str,
    verbose: bool,
    quiet: bool,
) -> int:
    """Show GPUs, their memory and the processes that hold it, those nvidia-smi hides too. Ends nothing itself.

    The command that ends a process is printed, never run. -v shows whole command lines.
    """
    asked = Asked(_job(parameters, dtype, optimizer, batch, activations), timeout)
    shown = Shown(form, options.wants_color(color_mode), verbose, quiet)
    if seconds is not None and form == "json":
        raise UserError("--watch prints many readings and JSON is one document: use --csv FILE for a record.")
    return once(asked, shown, csv_file) if seconds is None else watch(asked, shown, seconds, csv_file)


def _job(parameters: str | None, dtype: str, optimizer: str, batch: int, activations: str) -> Job | None:
    if parameters is None:
        _refuse_without_job()
        return None
    if not trains(dtype) and optimizer != "none":
        raise UserError(f"weights of {dtype} are not trained: --optimizer none.")
    try:
        return Job(parse_count(parameters), dtype, optimizer, batch, parse_count(activations))
    except ValueError as error:
        raise UserError(f"--fits and --activations: {error}.") from None


def _refuse_without_job() -> None:
    context = click.get_current_context()
    for name in ("dtype", "optimizer", "batch", "activations"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise UserError(f"--{name} is of a job: add --fits with the number of its weights.")
