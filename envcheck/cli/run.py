"""`envcheck run`: a command's output passes through untouched; when it fails, why."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath

import click

from envcheck.cli import explain as logs
from envcheck.cli import options
from envcheck.cli.exits import READER_GONE, UserError
from envcheck.explain.scan import Scan, Scanner, Stream
from envcheck.host.interruption import clear_interrupt
from envcheck.host.passthrough import CommandNotStartedError, CommandResult, run_command
from envcheck.model import Snapshot

EXAMPLE = "Example: envcheck run -- python train.py"


@click.command(epilog=EXAMPLE, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@options.matrix("Judge by this compatibility matrix.")
@options.printing()
def run(command: tuple[str, ...], matrix_file: str | None, printing: options.Printing) -> int:
    """Run COMMAND and explain on stderr when it fails; its output and its exit status stay its own.

    On success nothing is added. A failure is judged with what COMMAND printed and with this machine's facts.
    """
    if not command:
        raise UserError("name the command to run: envcheck run -- python train.py")
    watched = _Watched()
    try:
        outcome = run_command(command, watched)
    except CommandNotStartedError as error:
        click.echo(f"envcheck: {error}", err=True)
        return error.status
    if outcome.status not in (0, READER_GONE) and not outcome.was_stopped:
        _explain(command, watched, outcome, (matrix_file, printing))
    return outcome.status


class _Watched:
    """Scans a command's output as it passes."""

    def __init__(self) -> None:
        from envcheck.explain.signatures import load_signatures

        self._scanner = Scanner(load_signatures())
        self._streams: dict[str, Stream] = {}

    def __call__(self, name: str, block: bytes) -> None:
        if name not in self._streams:
            self._streams[name] = self._scanner.stream(name)
        self._streams[name].feed(block)

    def finish(self) -> tuple[Scan, tuple[str, ...]]:
        for stream in self._streams.values():
            stream.finish()
        return self._scanner.result(), tuple(self._streams)


def _explain(
    command: tuple[str, ...], watched: _Watched, outcome: CommandResult, how: tuple[str | None, options.Printing]
) -> None:
    from envcheck.render.explain import print_failure

    matrix_file, style = how
    try:
        if outcome.crash_name:
            watched("exit status", f"{outcome.crash_name}\n".encode())
        scan, names = watched.finish()
        snapshot = _machine(command) if scan.events else None
        reading = logs.Judge(snapshot, matrix_file)(scan, names)
        color = options.wants_color(style.color_mode, sys.stderr)
        print_failure(reading, outcome.status, color=color, verbose=style.verbose, quiet=style.quiet)
    except KeyboardInterrupt:
        clear_interrupt()
        click.echo("envcheck: interrupted.", err=True)
    except Exception as error:  # noqa: BLE001 - a guard: the status is the command's, whatever becomes of our explanation
        click.echo(f"envcheck: the failure could not be explained: {error}", err=True)
    if outcome.watch_error:
        click.echo(f"envcheck: its output was not read to the end ({outcome.watch_error}).", err=True)


def _machine(command: tuple[str, ...]) -> Snapshot:
    """Read this machine, with the Python that the command ran in where it can be told."""
    from envcheck.cli import inspect

    try:
        return inspect.live_snapshot(_python_of(command[0]), "")
    except UserError:
        return inspect.live_snapshot("", "")


def _python_of(program: str) -> str:
    """Return the path of the Python that a program is or that its first line names; "" for neither."""
    from envcheck.host.local import LocalHost
    from envcheck.model import get_value

    host = LocalHost()
    name = PurePath(program).name
    path = get_value(host.find_program(program)) or "" if name == program else program
    if re.fullmatch(r"python[\d.]*t?(?:\.exe)?", name):
        return path
    first = (get_value(host.read_text(path, 256)) or "").partition("\n")[0] if path else ""
    named = re.match(r"#!\s*(/\S*/python[\d.]*t?)\b", first)
    return named.group(1) if named else ""
