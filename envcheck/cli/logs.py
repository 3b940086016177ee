"""Open the logs a command was given, judge what they say, and print the verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.exits import UserError
from envcheck.cli.mending import mended
from envcheck.explain.reading import Reading
from envcheck.explain.scan import Scan, Scanner

if TYPE_CHECKING:
    from envcheck.model.machine import Snapshot

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

        report = judge_log(scan.events, self._matrix, self._facts, mended)
        return Reading(report, scan, files, tuple(notes), with_machine=self._facts is not None)


def print_reading(reading: Reading, style: options.Printing) -> None:
    """Print an explanation to stdout in the format asked for."""
    if style.form == "json":
        from envcheck.render.explain_json import render_explanation

        click.echo(render_explanation(reading))
        return
    from envcheck.render.explain_text import print_explanation

    color = style.color
    print_explanation(reading, color=color, verbose=style.verbose, quiet=style.quiet)
