"""`envcheck run`: pass a command's output through untouched; explain it if it fails."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import READER_GONE, UserError
from envcheck.explain.scan import Scan, Scanner, Stream
from envcheck.explain.signatures import load_signatures
from envcheck.host.interruption import clear_interrupt
from envcheck.host.passthrough import CommandNotStartedError, CommandResult, run_command
from envcheck.model import Snapshot, replace

EXAMPLE = "Example: envcheck run -- python train.py"


@click.command(
    epilog=EXAMPLE,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@common.matrix("Judge by this compatibility matrix.")
@common.printing()
def run(command: tuple[str, ...], matrix: str | None, printing: common.Printing) -> int:
    """Run COMMAND and explain on stderr if it fails; its output and exit status stay as they are.

    Adds nothing on success. Judges a failure by what COMMAND printed and by the facts of this
    machine.
    """
    if not command:
        raise UserError("name the command to run: envcheck run -- python train.py")
    output = _OutputScanner()
    try:
        outcome = run_command(command, output)
    except CommandNotStartedError as error:
        click.echo(f"envcheck: {error}", err=True)
        return error.status
    if outcome.status not in (0, READER_GONE) and not outcome.was_stopped:
        _explain(command, output, outcome, matrix, printing)
    return outcome.status


class _OutputScanner:
    """Scans a command's output as it passes."""

    def __init__(self) -> None:
        self._scanner = Scanner(load_signatures())
        self._streams: dict[str, Stream] = {}

    def __call__(self, name: str, block: bytes) -> None:
        if name not in self._streams:
            self._streams[name] = self._scanner.stream(name)
        self._streams[name].feed(block)

    def finish(self) -> tuple[Scan, tuple[str, ...]]:
        for stream in self._streams.values():
            stream.finish()
        scan = self._scanner.result()
        return replace(scan, ending=scan.ending.failure), tuple(self._streams)


def _explain(
    command: tuple[str, ...],
    output: _OutputScanner,
    outcome: CommandResult,
    matrix: str | None,
    printing: common.Printing,
) -> None:
    # a command that succeeds needs none of it: 15 ms
    from envcheck.render.explain import describe_failure
    from envcheck.render.text import print_document

    try:
        if outcome.crash_name:
            output("exit status", f"{outcome.crash_name}\n".encode())
        scan, names = output.finish()
        snapshot = _read_machine(command) if scan.events else None
        reading = api.log_judge(snapshot, here=False, expect="auto", matrix=matrix)(scan, names)
        color = printing.wants_color(sys.stderr)
        shown = describe_failure(
            reading, outcome.status, verbose=printing.verbose, quiet=printing.quiet
        )
        if shown.findings:
            click.echo(err=True)  # apart from what the command printed
        print_document(shown, color=color, stream=sys.stderr)
    except KeyboardInterrupt:
        clear_interrupt()
        click.echo("envcheck: interrupted.", err=True)
    except Exception as error:  # noqa: BLE001 - the exit status is the command's, even if the explanation fails
        click.echo(f"envcheck: the failure could not be explained: {error}", err=True)
    if outcome.watch_error:
        click.echo(
            f"envcheck: the output was not read to its end ({outcome.watch_error}).", err=True
        )


def _read_machine(command: tuple[str, ...]) -> Snapshot:
    """Read this machine, with the Python that the command ran in if that is known."""
    try:
        return common.live_snapshot(_python_of(command[0]), "")
    except UserError:
        return common.live_snapshot("", "")


def _python_of(program: str) -> str:
    """Return the Python that a program is, or that its first line names; "" for neither."""
    from envcheck.host.local import LocalHost  # only a failure is explained: 2 ms

    host = LocalHost()
    name = PurePath(program).name
    path = host.find_program(program).value or "" if name == program else program
    if re.fullmatch(r"python[\d.]*t?(?:\.exe)?", name):
        return path
    first = ""
    if path:
        first = (host.read_text(path, 256).value or "").partition("\n")[0]
    named = re.match(r"#!\s*(/\S*/python[\d.]*t?)\b", first)
    return named.group(1) if named else ""
