"""`envcheck gpus`: show the GPUs, the processes that hold their memory, and whether a job fits."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import click
from click.core import ParameterSource

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, UserError, option
from envcheck.cli.report import print_answer
from envcheck.gpus.fits import Job, is_trainable, load_training_memory, parse_count
from envcheck.gpus.holders import GpuView
from envcheck.gpus.listing import COLUMNS, Listing, Row, RowBuilder, choose_free, judge
from envcheck.gpus.reading import Question, read_listing
from envcheck.host.local import LocalHost
from envcheck.model import (
    COMPATIBLE,
    Fact,
    GpuActivity,
    Known,
    replace,
)
from envcheck.probes.activity import find_nvml
from envcheck.render.gpus import describe_listing, show_live

_GIB = 1 << 30
_FIRST_LINE = 4096  # bytes of a table's first line


def _list_visible(views: tuple[GpuView, ...], visible: str | None) -> tuple[GpuView, ...]:
    """List the GPUs that CUDA_VISIBLE_DEVICES shows; none where that is unknown."""
    if visible is None:
        return views
    from envcheck.rules.gpu_releases import select_devices  # few ask for free GPUs: 20 ms

    uuids = tuple(view.activity.gpu.uuid.value or "" for view in views)
    instances = tuple(
        tuple(item.uuid for item in view.activity.instances.value or ()) for view in views
    )
    selection = select_devices(visible, uuids, instances)
    if selection.decided:
        return tuple(views[at] for at in selection.visible)
    return ()


def _print(listing: Listing, printing: common.Printing) -> None:
    found = api.GpusResult(listing)
    if listing.wanted and printing.form != "json":
        verdict, message = judge(listing)
        # Nothing rather than too few: an empty CUDA_VISIBLE_DEVICES takes no GPU away from anybody.
        click.echo(",".join(listing.free) if verdict == COMPATIBLE else "")
        if verdict != COMPATIBLE:
            click.echo(f"envcheck: {message}", err=True)
    else:
        print_answer(printing, found.document, found.to_json)


def _watch(
    question: Question, printing: common.Printing, seconds: float, table: Table | None
) -> NoReturn:
    """Read and show every `seconds` until interrupted."""
    library = find_nvml(LocalHost())
    with show_live(color=printing.color) as show:
        while True:
            started = time.monotonic()
            listing = read_listing(question, library)
            if table:
                table.append(listing)
            show(describe_listing(listing, verbose=printing.verbose, quiet=printing.quiet))
            time.sleep(max(0.0, seconds - (time.monotonic() - started)))


class Table:
    """A CSV file; each row is appended whole and at once, so that a reader can follow it."""

    def __init__(self, path: str) -> None:
        self._path, self._rows = path, RowBuilder()
        head = _format_row(COLUMNS)
        first = self._write(lambda: _write_head(Path(path), head))
        if first and first.strip() != head.strip():
            raise UserError(
                f"{path} is another table: its first line is not {head.strip()}. Name another file."
            )

    def append(self, listing: Listing) -> None:
        """Append a row for each GPU."""
        now = datetime.now().astimezone().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        gpus: Fact[tuple[GpuActivity, ...]]
        if isinstance(listing.gpus, Known):
            gpus = Known(tuple(view.activity for view in listing.views), listing.gpus.source)
        else:
            gpus = listing.gpus
        text = "".join(map(_format_row, self._rows.build_rows(now, gpus)))
        self._write(lambda: _add(Path(self._path), text))

    def _write(self, write: Callable[[], str]) -> str:
        try:
            return write()
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror}") from None


def _write_head(path: Path, head: str) -> str:
    """Write the head to an empty file; return a file's first line."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return _add(path, head)  # a pipe or a terminal cannot be read back
    with path.open("a+b") as stream:
        stream.seek(0)
        first = stream.readline(_FIRST_LINE).decode("utf-8", "replace")
        if not first:
            stream.write(head.encode())
        elif first.strip() == head.strip() and not _ends_a_line(stream):
            stream.write(b"\n")  # a writer was ended within a row
    return first


def _ends_a_line(stream: BinaryIO) -> bool:
    stream.seek(-1, io.SEEK_END)
    return stream.read(1) == b"\n"


def _add(path: Path, text: str) -> str:
    with path.open("a", encoding="utf-8", newline="") as stream:
        stream.write(text)
    return ""


def _format_row(cells: Row) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(cells)
    return stream.getvalue()


EXAMPLE = (
    "Example: envcheck gpus --fits 340M --dtype fp32 --optimizer adam --batch 32 --activations 12M"
)
DTYPES, OPTIMIZERS = map(tuple, (load_training_memory().dtypes, load_training_memory().optimizers))


@click.command(epilog=EXAMPLE)
@option(
    "--watch SECONDS",
    "Read again every SECONDS; Ctrl-C ends it.",
    "seconds",
    type=click.FloatRange(0.1),
)
@option(
    "--free N",
    "Print the UUIDs of N GPUs that no process uses:"
    " CUDA_VISIBLE_DEVICES=$(envcheck gpus --free 2).",
    type=click.IntRange(1),
)
@option(
    "--csv FILE", "Append a row for each GPU and reading to this file.", "csv_file", default=None
)
@option(
    "--fits PARAMS",
    "Check whether a model with 340M or 1.3B weights fits into memory.",
    "parameters",
    default=None,
)
@option(
    "--dtype",
    "Data type of the weights.",
    type=click.Choice(DTYPES),
    default="fp32",
    show_default=True,
)
@option(
    "--optimizer",
    "none: inference.",
    type=click.Choice(OPTIMIZERS),
    default="adam",
    show_default=True,
)
@option("--batch", "Samples in a batch.", type=click.IntRange(1), default=1, show_default=True)
@option("--activations COUNT", "Numbers that one sample keeps for the backward pass.", default="0")
@option(
    "--activation-copies",
    "2 counts the activations' gradients as well, as textbooks do.",
    "copies",
    type=click.IntRange(1, 2),
    default=2,
    show_default=True,
)
@option(
    "--checkpointing LAYERS",
    "The model has LAYERS layers and recomputes activations (gradient checkpointing).",
    "layers",
    type=click.IntRange(2),
)
@option(
    "--reserve GIB",
    "Leave this much for the CUDA context, workspaces and fragmentation.",
    type=click.FloatRange(0),
    default=2.0,
    show_default=True,
)
@option(
    "--timeout",
    "Seconds to wait for the driver.",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
)
@common.printing("text", "json", verbose="Show whole command lines.")
def gpus(
    seconds: float | None,
    free: int | None,
    csv_file: str | None,
    parameters: str | None,
    timeout: float,
    printing: common.Printing,
    **job: Any,
) -> int:
    """Show GPUs, their memory and its holders, even those that nvidia-smi hides.

    Prints the command that ends a process, but never runs it.
    """
    question = Question(_parse_job(parameters, **job), timeout)
    if free and (seconds is not None or parameters is not None):
        raise UserError("--free prints one list: leave out --watch and --fits.")
    if seconds is not None and printing.form == "json":
        raise UserError(
            "--watch prints many readings and JSON is one document: use --csv FILE for a record."
        )
    table = Table(csv_file) if csv_file else None
    if seconds is not None:
        _watch(question, printing, seconds, table)
    with common.slow_programs():
        listing = read_listing(question)
    if free:
        visible = _list_visible(listing.views, os.environ.get("CUDA_VISIBLE_DEVICES"))
        listing = replace(listing, wanted=free, free=choose_free(visible, free))
    _print(listing, printing)
    if table:
        table.append(listing)
    return OF_VERDICT[judge(listing)[0]]


def _parse_job(
    parameters: str | None,
    dtype: str,
    optimizer: str,
    batch: int,
    activations: str,
    copies: int,
    layers: int | None,
    reserve: float,
) -> Job | None:
    if parameters is None:
        _refuse_options("dtype", "optimizer", "batch", "activations", "copies", "layers", "reserve")
        return None
    if not is_trainable(dtype) and optimizer != "none":
        raise UserError(f"weights of {dtype} cannot be trained: add --optimizer none.")
    try:
        count, kept = parse_count(parameters), parse_count(activations)
    except ValueError as error:
        raise UserError(f"--fits and --activations: {error}.") from None
    if not count:
        raise UserError("--fits 0: a model has at least one weight.")
    return Job(count, dtype, optimizer, batch, kept, copies, layers or 0, round(reserve * _GIB))


def _refuse_options(*names: str) -> None:
    context = click.get_current_context()
    for each in context.command.params:
        if (
            each.name in names
            and context.get_parameter_source(each.name) is not ParameterSource.DEFAULT
        ):
            raise UserError(
                f"{each.opts[0]} describes a job: add --fits with the number of its weights."
            )
