"""`envcheck explain`: find the root cause in a log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from envcheck.cli import common
from envcheck.cli.common import INTERRUPTED, OF_VERDICT, UserError
from envcheck.explain.judge import Reading, find_main_finding, judge_log
from envcheck.explain.scan import Scan, Scanner
from envcheck.explain.signatures import load_signatures
from envcheck.host import log_files
from envcheck.render.explain import print_cause, print_explanation, render_explanation
from envcheck.rules.context import Target

if TYPE_CHECKING:
    from envcheck.model import Snapshot

STANDARD_INPUT = "-"
_PASTE = "Paste the log, then press Ctrl-D on a line of its own (Windows: Ctrl-Z and Enter).\n"

EXAMPLE = "Example: envcheck explain train.log, or python train.py 2>&1 | envcheck explain -"


@click.command(epilog=EXAMPLE)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Judge with the facts of this saved machine.")
@click.option("--here", is_flag=True, help="Judge with the facts of this machine: the log was written on it.")
@common.expectation("What the program needs; auto: a GPU if the log shows or asks for one.")
@click.option("--follow", is_flag=True, help="Name a cause as soon as it is known, while the log grows.")
@common.matrix("Judge by this compatibility matrix.")
@common.printing("text", "json")
def explain(
    files: tuple[str, ...],
    snapshot_file: str | None,
    here: bool,
    expect: str,
    follow: bool,
    matrix_file: str | None,
    printing: common.Printing,
) -> int:
    """Find the line of a log that matters, why it happens, what to type, and which lines are harmless.

    FILE may be a gzip file; - or no FILE reads standard input. Without --here or --snapshot, only the log is judged: it
    may come from another machine.
    """
    judge = Judge(_read_machine(snapshot_file, here=here), matrix_file, expect)
    if follow:
        return _follow(files, judge, printing)
    files = files or (STANDARD_INPUT,)
    notes: list[str] = []
    reading = judge(_scan(files, notes), files, notes)
    _print(reading, printing)
    return OF_VERDICT[reading.report.verdict]


class Judge:
    """Judges scanned logs, together with a machine's facts if they are given."""

    def __init__(self, snapshot: Snapshot | None, matrix_file: str | None = None, expect: str = "auto") -> None:
        self._facts = None if snapshot is None else snapshot.facts
        self._target = Target(expect)
        self._matrix = common.load_matrix(matrix_file)

    def __call__(self, scan: Scan, files: tuple[str, ...], notes: Sequence[str] = ()) -> Reading:
        """Judge one scan."""
        report = judge_log(scan.events, self._matrix, self._facts, self._target, scan.ending)
        return Reading(report, scan, files, tuple(notes), with_machine=self._facts is not None)


def _read_machine(snapshot_file: str | None, *, here: bool) -> Snapshot | None:
    if snapshot_file and here:
        raise UserError("--here and --snapshot exclude each other: a log was written on one machine.")
    if snapshot_file:
        return common.saved_snapshot(snapshot_file)
    return common.live_snapshot("", "") if here else None


def _scan(files: tuple[str, ...], notes: list[str]) -> Scan:
    """Scan every file; `notes` gets what could not be read to its end."""
    scanner = Scanner(load_signatures())
    for file in files:
        stream = scanner.stream(file)
        try:
            for block in _read(file, notes):
                stream.feed(block)
        except log_files.LogFileError as error:
            raise UserError(str(error)) from None
        stream.finish()
    return scanner.result()


def _read(file: str, notes: list[str]) -> Iterator[bytes]:
    """Yield the blocks of a file, or of standard input for "-"."""
    if file != STANDARD_INPUT:
        return log_files.read_log(file, notes)
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(_PASTE)
        sys.stderr.flush()
    return log_files.read_descriptor(0, notes)


def _print(reading: Reading, printing: common.Printing) -> None:
    if printing.form == "json":
        from envcheck.probes.collection import Redactor  # a document is sent to others

        click.echo(render_explanation(Redactor.from_environment(os.environ).redact(reading)))
    else:
        print_explanation(reading, color=printing.color, verbose=printing.verbose, quiet=printing.quiet)


def _follow(files: tuple[str, ...], judge: Judge, printing: common.Printing) -> int:
    """Print each cause once, when it becomes the main one; at the end or on Ctrl-C the whole verdict.

    A file has no end: only Ctrl-C ends it, with the exit code of an interruption. Standard input and pipes have one.
    """
    if len(files) > 1:
        raise UserError("--follow takes one file, or standard input.")
    name, notes = (files or (STANDARD_INPUT,))[0], list[str]()
    scanner = Scanner(load_signatures())
    causes = _CausePrinter(judge, name, printing)
    stream, code = scanner.stream(name), None
    try:
        for block in _read_growing(name, notes):
            stream.feed(block)
            causes.update(scanner)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except log_files.LogFileError as error:
        raise UserError(str(error)) from None
    stream.finish()
    reading = judge(scanner.result(), (name,), notes)
    _print(reading, printing)
    return OF_VERDICT[reading.report.verdict] if code is None else code


def _read_growing(name: str, notes: list[str]) -> Iterator[bytes]:
    if name == STANDARD_INPUT:
        return _read(name, notes)
    if log_files.is_not_created_yet(name):
        click.echo(f"envcheck: {name} does not exist yet; waiting for it.", err=True)
    return log_files.follow_log(name)


class _CausePrinter:
    """Prints the main cause when it changes."""

    def __init__(self, judge: Judge, name: str, printing: common.Printing) -> None:
        self._judge, self._name, self._printing = judge, name, printing
        self._kinds = 0
        self._cause = ""

    def update(self, scanner: Scanner) -> None:
        """Judge again after a message of a new kind; print the cause if it is another one."""
        if scanner.collector.kinds == self._kinds or self._printing.form == "json":
            return
        self._kinds = scanner.collector.kinds
        reading = self._judge(scanner.result(), (self._name,))
        main = find_main_finding(reading.report)
        if main is not None and main.id != self._cause:
            self._cause = main.id
            print_cause(reading, color=self._printing.color)
            sys.stdout.flush()
