"""`envcheck snapshot`: save what the probes read."""

from __future__ import annotations

from pathlib import Path

import click

from envcheck.cli import inspect, options
from envcheck.cli.exits import UserError

EXAMPLE = "Example: envcheck snapshot -o machine.json && envcheck doctor --snapshot machine.json"


@click.command(epilog=EXAMPLE)
@options.inspected_python
@click.option("-o", "--output", metavar="FILE", help="Write here instead of to standard output.")
def snapshot(python: str, env: str, output: str | None) -> int:
    """Save this machine's facts as JSON, without user names, home folders or credentials."""
    from envcheck.render.json_report import render_snapshot

    text = render_snapshot(inspect.live_snapshot(python, env)) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text)
        click.echo(f"Saved to {output}. Judge it anywhere: envcheck doctor --snapshot {output}", err=True)
    return 0


def _write(path: str, text: str) -> None:
    from envcheck.host.writing import write_atomically

    try:
        write_atomically(Path(path), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
