"""`envcheck explain`: a log goes in, the root cause comes out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.exits import INTERRUPTED, OF_VERDICT, UserError
from envcheck.explain.judge import Reading
from envcheck.explain.scan import Scan, Scanner

if TYPE_CHECKING:
    from envcheck.model import Snapshot


STANDARD_INPUT = "-"
_PASTE = "Paste the log, then end it with Ctrl-D on a line of its own (Windows: Ctrl-Z and Enter).\n"


def read_logs(files: tuple[str, ...], notes: list[str]) -> Scan:
    """Scan every file; `notes` gets what could not be read to its end."""
    from envcheck.explain.signatures import load_signatures
    from envcheck.host.log_files import LogFileError

    scanner = Scanner(load_signatures())
    for file in files:
        stream = scanner.stream(file)
        try:
            for block in open_log(file, notes):
                stream.feed(block)
        except LogFileError as error:
            raise UserError(str(error)) from None
        stream.finish()
    return scanner.result()


def open_log(file: str, notes: list[str]) -> Iterator[bytes]:
    """Yield the blocks of a file, or of standard input for "-"."""
    from envcheck.host.log_files import read_descriptor, read_log

    if file != STANDARD_INPUT:
        return read_log(file, notes)
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(_PASTE)
        sys.stderr.flush()
    return read_descriptor(0, notes)


class Judge:
    """Judges what was read, together with a machine's facts where they are given."""

    def __init__(self, snapshot: Snapshot | None, matrix_file: str | None = None) -> None:
        from envcheck.matrix.load import MatrixError, load_matrix

        self._facts = None if snapshot is None else snapshot.facts
        try:
            self._matrix = load_matrix(matrix_file)
        except MatrixError as error:
            raise UserError(str(error)) from None

    def __call__(self, scan: Scan, files: tuple[str, ...], notes: Sequence[str] = ()) -> Reading:
        """Judge one scan."""
        from envcheck.explain.judge import judge_log

        report = judge_log(scan.events, self._matrix, self._facts)
        return Reading(report, scan, files, tuple(notes), with_machine=self._facts is not None)


def print_reading(reading: Reading, style: options.Printing) -> None:
    """Print an explanation to stdout in the format asked for."""
    if style.form == "json":
        from envcheck.render.explain import render_explanation

        click.echo(render_explanation(reading))
        return
    from envcheck.render.explain import print_explanation

    color = style.color
    print_explanation(reading, color=color, verbose=style.verbose, quiet=style.quiet)


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
    judge = Judge(_snapshot(snapshot_file, here=here), matrix_file)
    if follow:
        return follow_log(files, judge, printing)
    files = files or (STANDARD_INPUT,)
    notes: list[str] = []
    reading = judge(read_logs(files, notes), files, notes)
    print_reading(reading, printing)
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


def follow_log(files: tuple[str, ...], judge: Judge, style: options.Printing) -> int:
    """Print each cause once, when it becomes the main one; at the end or on Ctrl-C the whole verdict.

    A file has no end: only Ctrl-C ends it, with the exit code of an interruption. Standard input and pipes have one.
    """
    from envcheck.explain.signatures import load_signatures
    from envcheck.host.log_files import LogFileError

    if len(files) > 1:
        raise UserError("--follow takes one file, or standard input.")
    name, notes = (files or (STANDARD_INPUT,))[0], list[str]()
    scanner = Scanner(load_signatures())
    told = _Told(judge, name, style)
    stream, code = scanner.stream(name), None
    try:
        for block in _blocks(name, notes):
            stream.feed(block)
            told.tell(scanner)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except LogFileError as error:
        raise UserError(str(error)) from None
    stream.finish()
    reading = judge(scanner.result(), (name,), notes)
    print_reading(reading, style)
    return OF_VERDICT[reading.report.verdict] if code is None else code


def _blocks(name: str, notes: list[str]) -> Iterator[bytes]:
    from envcheck.host.log_files import follow_log as growing
    from envcheck.host.log_files import is_not_created_yet

    if name == STANDARD_INPUT:
        return open_log(name, notes)
    if is_not_created_yet(name):
        click.echo(f"envcheck: {name} is not there yet; waiting for it.", err=True)
    return growing(name)


class _Told:
    """Remembers what was said, and says what is new."""

    def __init__(self, judge: Judge, name: str, style: options.Printing) -> None:
        self._judge, self._name, self._style = judge, name, style
        self._kinds = 0
        self._cause = ""

    def tell(self, scanner: Scanner) -> None:
        """Judge again when a message of a new kind was seen; print the cause when it is another one."""
        from envcheck.explain.judge import main_finding

        if scanner.collected.kinds == self._kinds or self._style.form == "json":
            return
        self._kinds = scanner.collected.kinds
        reading = self._judge(scanner.result(), (self._name,))
        main = main_finding(reading.report)
        if main is not None and main.id != self._cause:
            from envcheck.render.explain import print_cause

            self._cause = main.id
            print_cause(reading, color=self._style.color)
            sys.stdout.flush()
