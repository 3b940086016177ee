"""`envcheck explain`: a log goes in, the root cause comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envcheck.cli import logs, options
from envcheck.cli.exits import OF_VERDICT, UserError

if TYPE_CHECKING:
    from envcheck.model.machine import Snapshot

EXAMPLE = "Example: envcheck explain train.log, or python train.py 2>&1 | envcheck explain -"


@click.command(epilog=EXAMPLE)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Judge with the facts of this saved machine.")
@click.option("--here", is_flag=True, help="Judge with the facts of this machine: the log was written on it.")
@click.option("--follow", is_flag=True, help="Name a cause as soon as it is known, while the log grows.")
@options.matrix("Judge by this compatibility matrix.")
@options.printing("text", "json")
def explain(
    files: tuple[str, ...],
    snapshot_file: str | None,
    here: bool,
    follow: bool,
    matrix_file: str | None,
    printing: options.Printing,
) -> int:
    """Find the line of a log that matters, why it happens, what to type, and which lines are harmless.

    FILE may be gzip; - or nothing reads standard input. Without --here or --snapshot the log alone is judged: it may be
    another machine's.
    """
    judge = logs.Judge(_snapshot(snapshot_file, here=here), matrix_file)
    if follow:
        from envcheck.cli.follow import follow_log

        return follow_log(files, judge, printing)
    files = files or (logs.STANDARD_INPUT,)
    notes: list[str] = []
    reading = judge(logs.read_logs(files, notes), files, notes)
    logs.print_reading(reading, printing)
    return OF_VERDICT[reading.report.verdict]


def _snapshot(snapshot_file: str | None, *, here: bool) -> Snapshot | None:
    if snapshot_file and here:
        raise UserError("--here and --snapshot name two machines: a log was written on one.")
    if not (snapshot_file or here):
        return None
    from envcheck.cli import inspect  # the log alone needs none

    if snapshot_file:
        return inspect.saved_snapshot(snapshot_file)
    return inspect.live_snapshot("", "")
