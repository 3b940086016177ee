"""`envcheck gpus`: the GPUs, who holds them, and whether a job fits."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO, NoReturn

import click
from click.core import ParameterSource

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.cli.inspect import slow_programs
from envcheck.gpus.fits import Job, is_trainable, judge_fits, load_training_memory, parse_count
from envcheck.gpus.holders import build_views, list_blind_spots, list_reported_pids
from envcheck.gpus.listing import COLUMNS, Listing, Row, RowBuilder, judge
from envcheck.host.local import LocalHost
from envcheck.host.system import read_available_memory, read_processes
from envcheck.model import Fact, Known, Source, Unknown, dataclass
from envcheck.model.activity import ActivityReading
from envcheck.probes.activity import find_nvml, read_activity

_FIRST_LINE = 4096  # bytes of a first line that is ours
_REST = 2.0  # seconds for everything but NVML


@dataclass(frozen=True)
class Asked:
    """What to find out: whether a job fits, and how many seconds NVML may take."""

    job: Job | None = None
    timeout: float = 10.0


@dataclass(frozen=True)
class Shown:
    """How to show a reading."""

    form: str
    color: bool
    verbose: bool
    quiet: bool

    def print(self, listing: Listing) -> None:
        """Print one reading."""
        if self.form == "json":
            from envcheck.render.gpus import render_gpus_json

            click.echo(render_gpus_json(listing))
            return
        from envcheck.render.gpus import print_gpus

        print_gpus(listing, color=self.color, verbose=self.verbose, quiet=self.quiet)


def read_listing(asked: Asked, library: Fact[str] | None = None) -> Listing:
    """Read the GPUs and the processes on them; a host of its own each time, whose answers are not remembered."""
    host = LocalHost(asked.timeout + _REST)
    reading = read_activity(host, find_nvml(host) if library is None else library, asked.timeout)
    return _listing(reading, host.system, asked.job)


def _listing(reading: ActivityReading, system: str, job: Job | None) -> Listing:
    taken_at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if not isinstance(reading.gpus, Known):
        return Listing(taken_at, reading.driver, reading.gpus, job=job)
    found = reading.gpus.value
    processes = read_processes(list_reported_pids(found))
    shown = build_views(found, processes, system)
    gpus, spots = Known(shown, reading.gpus.source), list_blind_spots(processes, system)
    return Listing(taken_at, reading.driver, gpus, spots, job, judge_fits(job, shown, _machine()) if job else ())


def _machine() -> Fact[int]:
    free = read_available_memory()
    if free is None:
        return Unknown("failed", "this system does not tell its available memory", ("/proc/meminfo",))
    return Known(free, Source("file", "/proc/meminfo", "MemAvailable"))


def once(asked: Asked, shown: Shown, csv_file: str | None) -> int:
    """Read once; return the exit code."""
    table = Table(csv_file) if csv_file else None
    with slow_programs():
        listing = read_listing(asked)
    shown.print(listing)
    if table:
        table.append(listing)
    return OF_VERDICT[judge(listing)[0]]


def watch(asked: Asked, shown: Shown, seconds: float, csv_file: str | None) -> NoReturn:
    """Read every `seconds` until interrupted."""
    from envcheck.render.gpus import live_gpus

    library, table = find_nvml(LocalHost()), Table(csv_file) if csv_file else None
    with live_gpus(color=shown.color, verbose=shown.verbose, quiet=shown.quiet) as show:
        while True:
            begun = time.monotonic()
            listing = read_listing(asked, library)
            if table:
                table.append(listing)
            show(listing)
            time.sleep(max(0.0, seconds - (time.monotonic() - begun)))


class Table:
    """A CSV file that rows are appended to, each whole and at once, so that a reader can follow it."""

    def __init__(self, path: str) -> None:
        self._path, self._rows = path, RowBuilder()
        head = _line(COLUMNS)
        first = self._tried(lambda: _begin(Path(path), head))
        if first and first.strip() != head.strip():
            raise UserError(f"{path} holds something else: its first line is not {head.strip()}. Name another file.")

    def append(self, listing: Listing) -> None:
        """Append a row for each GPU."""
        now = datetime.now().astimezone().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        told = listing.gpus
        gpus = Known(tuple(view.activity for view in told.value), told.source) if isinstance(told, Known) else told
        text = "".join(_line(row) for row in self._rows.build_rows(now, gpus))
        self._tried(lambda: _add(Path(self._path), text))

    def _tried(self, write: Callable[[], str]) -> str:
        try:
            return write()
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror}") from None


def _begin(path: Path, head: str) -> str:
    """Write the head where there is nothing; return the first line that is there, in what is a file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return _add(path, head)  # a pipe or a terminal: there is nothing to read back
    with path.open("a+b") as stream:
        stream.seek(0)
        first = stream.readline(_FIRST_LINE).decode("utf-8", "replace")
        if not first:
            stream.write(head.encode())
        elif first.strip() == head.strip() and not _ends_a_line(stream):
            stream.write(b"\n")  # somebody was ended within a row
    return first


def _ends_a_line(stream: BinaryIO) -> bool:
    stream.seek(-1, io.SEEK_END)
    return stream.read(1) == b"\n"


def _add(path: Path, text: str) -> str:
    with path.open("a", encoding="utf-8", newline="") as stream:
        stream.write(text)
    return ""


def _line(cells: Row) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(cells)
    return stream.getvalue()


EXAMPLE = "Example: envcheck gpus --fits 340M --dtype fp32 --optimizer adam --batch 32 --activations 12M"
DTYPES, OPTIMIZERS = (tuple(table) for table in (load_training_memory().dtypes, load_training_memory().optimizers))


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
    if not is_trainable(dtype) and optimizer != "none":
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
