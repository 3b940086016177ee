"""`envcheck snapshot`: save what the probes read."""

from __future__ import annotations

import click

from envcheck.actions import type_here
from envcheck.cli import common
from envcheck.cli.common import option
from envcheck.render.json_contracts import render_snapshot

EXAMPLE = "Example: envcheck snapshot -o machine.json && envcheck doctor --snapshot machine.json"


@click.command(epilog=EXAMPLE)
@common.inspected_python
@option("-o --output FILE", "Write to this file instead of standard output.", default=None)
def snapshot(python: str, env: str, output: str | None) -> int:
    """Save the facts of this machine as JSON, without user names, home folders or credentials."""
    text = render_snapshot(common.live_snapshot(python, env)) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        common.write_file(output, text)
        judge = type_here("envcheck", "doctor", "--snapshot", output)
        click.echo(f"Saved to {output}. Judge it anywhere: {judge}", err=True)
    return 0
