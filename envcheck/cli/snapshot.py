"""`envcheck snapshot`: save what the probes read."""

from __future__ import annotations

import click

from envcheck.cli import inspect, options
from envcheck.cli.options import write_file

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
        write_file(output, text)
        click.echo(f"Saved to {output}. Judge it anywhere: envcheck doctor --snapshot {output}", err=True)
    return 0
