"""`envcheck explain`: find the root cause in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import INTERRUPTED, OF_VERDICT, UserError, option
from envcheck.cli.report import FORMATS, print_answer
from envcheck.explain.judge import LogJudge
from envcheck.explain.scan import Scanner
from envcheck.explain.signatures import load_signatures
from envcheck.host import log_files
from envcheck.host.log_files import STANDARD_INPUT
from envcheck.render.explain import describe_cause
from envcheck.render.text import print_document

_PASTE = "Paste the log, then press Ctrl-D on a line of its own (Windows: Ctrl-Z and Enter).\n"

EXAMPLE = "Example: envcheck explain train.log, or python train.py 2>&1 | envcheck explain -"


@click.command(epilog=EXAMPLE)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@common.snapshot("Judge with the facts of this saved machine.")
@option("--here", "Judge with the facts of this machine: the log was written on it.")
@common.expectation("What the program needs; auto: a GPU if the log shows or asks for one.")
@option("--follow", "Name a cause as soon as it is known, while the log grows.")
@common.matrix("Judge by this compatibility matrix.")
@common.printing(*FORMATS)
def explain(
    files: tuple[str, ...], printing: common.Printing, *, follow: bool, **asked: Any
) -> int:
    """Find the line of a log that matters, its cause, what to type, and the harmless lines.

    FILE may be a gzip file, or a folder with a log for each rank; - or no FILE reads standard
    input. Without --here or --snapshot, only the log is judged: it may come from another machine.
    """
    files = files or (STANDARD_INPUT,)
    if follow:
        with common.slow_programs():
            judge = api.log_judge(**asked)
        return _follow(files, judge, printing)
    if STANDARD_INPUT in files:
        _ask_for_log()
    with common.slow_programs():
        found = api.explain(files=files, **asked)
    _print(found, printing)
    return OF_VERDICT[found.verdict]


def _ask_for_log() -> None:
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(_PASTE)
        sys.stderr.flush()


def _print(found: api.ExplainResult, printing: common.Printing) -> None:
    """Print an explanation; what is sent to others holds no user names and homes."""
    shown = found if printing.form == "text" else found.redact()
    print_answer(printing, shown.document, shown.to_json)


def _follow(files: tuple[str, ...], judge: LogJudge, printing: common.Printing) -> int:
    """Print each cause once, when it becomes the main one.

    At the end or on Ctrl-C the whole verdict.

    A file has no end: only Ctrl-C ends it, with the exit code of an interruption. Standard input
    and pipes have one.
    """
    if len(files) > 1:
        raise UserError("--follow takes one file, or standard input.")
    name, notes = files[0], list[str]()
    scanner = Scanner(load_signatures())
    causes = _CausePrinter(judge, name, printing)
    stream, code = scanner.stream(name), None
    try:
        for block in _read_growing(name, notes):
            stream.feed(block)
            causes.update(scanner)
    except KeyboardInterrupt:
        code = INTERRUPTED
    stream.finish()
    reading = judge(scanner.result(), (name,), notes)
    _print(api.ExplainResult(reading), printing)
    return OF_VERDICT[reading.report.verdict] if code is None else code


def _read_growing(name: str, notes: list[str]) -> Iterator[bytes]:
    if name == STANDARD_INPUT:
        _ask_for_log()
        return log_files.read_descriptor(0, notes)
    if log_files.is_not_created_yet(name):
        click.echo(f"envcheck: {name} does not exist yet; waiting for it.", err=True)
    return log_files.follow_log(name)


class _CausePrinter:
    """Prints the main cause when it changes."""

    def __init__(self, judge: LogJudge, name: str, printing: common.Printing) -> None:
        self._judge, self._name, self._printing = judge, name, printing
        self._kinds = 0
        self._cause = ""

    def update(self, scanner: Scanner) -> None:
        """Judge again after a message of a new kind; print the cause if it is another one."""
        if scanner.collector.kinds == self._kinds or self._printing.form != "text":
            return
        self._kinds = scanner.collector.kinds
        reading = self._judge(scanner.result(), (self._name,))
        main = reading.cause
        if main is not None and main.id != self._cause:
            self._cause = main.id
            print_document(describe_cause(reading), color=self._printing.color)
            click.echo()
