"""`envcheck explain --follow`: name a cause while the log still grows."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from envcheck.cli import logs, options
from envcheck.cli.exits import INTERRUPTED, OF_VERDICT, UserError
from envcheck.explain.scan import Scanner


def follow_log(files: tuple[str, ...], judge: logs.Judge, style: options.Printing) -> int:
    """Print each cause once, when it becomes the main one; at the end or on Ctrl-C the whole verdict.

    A file has no end: only Ctrl-C ends it, with the exit code of an interruption. Standard input and pipes have one.
    """
    from envcheck.explain.signatures import load_signatures
    from envcheck.host.log_files import LogFileError

    if len(files) > 1:
        raise UserError("--follow takes one file, or standard input.")
    name, notes = (files or (logs.STANDARD_INPUT,))[0], list[str]()
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
    logs.print_reading(reading, style)
    return OF_VERDICT[reading.report.verdict] if code is None else code


def _blocks(name: str, notes: list[str]) -> Iterator[bytes]:
    from envcheck.host.log_files import follow_log as growing
    from envcheck.host.log_files import is_awaited

    if name == logs.STANDARD_INPUT:
        return logs.open_log(name, notes)
    if is_awaited(name):
        click.echo(f"envcheck: {name} is not there yet; waiting for it.", err=True)
    return growing(name)


class _Told:
    """Remembers what was said, and says what is new."""

    def __init__(self, judge: logs.Judge, name: str, style: options.Printing) -> None:
        self._judge, self._name, self._style = judge, name, style
        self._kinds = 0
        self._cause = ""

    def tell(self, scanner: Scanner) -> None:
        """Judge again when a message of a new kind was seen; print the cause when it is another one."""
        from envcheck.explain.reading import main_finding

        if scanner.collected.kinds == self._kinds or self._style.form == "json":
            return
        self._kinds = scanner.collected.kinds
        reading = self._judge(scanner.result(), (self._name,))
        main = main_finding(reading.report)
        if main is not None and main.id != self._cause:
            from envcheck.render.explain_text import print_cause

            self._cause = main.id
            print_cause(reading, color=self._style.color)
            sys.stdout.flush()
