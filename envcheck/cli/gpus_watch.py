"""Read the GPUs once or again and again, show each reading and append it to a CSV file."""

from __future__ import annotations

import csv
import io
import time
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.gpus.fits import Job, fits
from envcheck.gpus.holders import blind_spots, listed_pids, views
from envcheck.gpus.listing import Listing, judge
from envcheck.gpus.samples import COLUMNS, Row, Sampler
from envcheck.host.local import LocalHost
from envcheck.host.open_devices import read_processes
from envcheck.model.activity import ActivityReading
from envcheck.model.facts import Fact, Known
from envcheck.model.records import dataclass
from envcheck.probes.gpu_activity import find_nvml, read_activity


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
            from envcheck.render.gpus_json import render_gpus_json

            click.echo(render_gpus_json(listing))
            return
        from envcheck.render.gpus_text import print_gpus

        print_gpus(listing, color=self.color, verbose=self.verbose, quiet=self.quiet)


def read_listing(job: Job | None, library: Fact[str] | None = None) -> Listing:
    """Read the GPUs and the processes on them; a host of its own each time, whose answers are not remembered."""
    host = LocalHost()
    reading = read_activity(host, find_nvml(host) if library is None else library)
    return _listing(reading, host.system, job)


def _listing(reading: ActivityReading, system: str, job: Job | None) -> Listing:
    taken_at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if not isinstance(reading.gpus, Known):
        return Listing(taken_at, reading.driver, reading.gpus, job=job)
    found = reading.gpus.value
    processes = read_processes(listed_pids(found))
    shown = views(found, processes, system)
    gpus = Known(shown, reading.gpus.source)
    return Listing(taken_at, reading.driver, gpus, blind_spots(processes, system), job, fits(job, shown) if job else ())


def watch(job: Job | None, shown: Shown, seconds: float | None, csv_file: str | None) -> int:
    """Read once, or every `seconds` until interrupted; return the exit code of the last reading."""
    from envcheck.render.gpus_text import live_gpus

    library, table = find_nvml(LocalHost()), Table(csv_file) if csv_file else None
    if seconds is None:
        return _once(job, shown, table, library)
    with live_gpus(color=shown.color, verbose=shown.verbose, quiet=shown.quiet) as show:
        while True:
            begun = time.monotonic()
            listing = read_listing(job, library)
            show(listing)
            if table:
                table.append(listing)
            time.sleep(max(0.0, seconds - (time.monotonic() - begun)))


def _once(job: Job | None, shown: Shown, table: Table | None, library: Fact[str]) -> int:
    listing = read_listing(job, library)
    shown.print(listing)
    if table:
        table.append(listing)
    return OF_VERDICT[judge(listing)[0]]


class Table:
    """A CSV file that rows are appended to, each whole and at once, so that a reader can follow it."""

    def __init__(self, path: str) -> None:
        self._path, self._sampler = path, Sampler()
        head = _line(COLUMNS)
        try:
            with Path(path).open("a+", encoding="utf-8", newline="") as stream:
                stream.seek(0)
                first = stream.readline()
                if not first:
                    stream.write(head)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text file"
            raise UserError(f"cannot write {path}: {why}") from None
        if first and first.strip() != head.strip():
            raise UserError(f"{path} holds something else: its first line is not {head.strip()}. Name another file.")

    def append(self, listing: Listing) -> None:
        """Append a row for each GPU."""
        now = datetime.now().astimezone().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        told = listing.gpus
        gpus = Known(tuple(view.activity for view in told.value), told.source) if isinstance(told, Known) else told
        text = "".join(_line(row) for row in self._sampler.rows(now, gpus))
        try:
            with Path(self._path).open("a", encoding="utf-8", newline="") as stream:
                stream.write(text)
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror}") from None


def _line(cells: Row) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(cells)
    return stream.getvalue()
