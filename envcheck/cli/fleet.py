"""`envcheck fleet`: many machines, one table. What the commands do stands in fleet_session.py."""

from __future__ import annotations

import click

from envcheck.cli import options

EXAMPLE = "Example: envcheck fleet run -i inventory.ini -o machines && envcheck fleet report machines --html fleet.html"


@click.command(cls=click.Group, invoke_without_command=True, epilog=EXAMPLE)
@click.pass_context
def fleet(context: click.Context) -> None:
    """Read every machine of an inventory and judge them here: one table, one page."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@fleet.command(epilog="Example: envcheck fleet run -i inventory.ini --limit gpu -o machines")
@click.option(
    "-i", "--inventory", default="", metavar="FILE", help="Ansible's inventory: INI, YAML, a script or a folder."
)
@click.option("-o", "--output", default="envcheck-fleet", metavar="DIR", help="Keep one file for each host here.")
@click.option(
    "--engine", type=click.Choice(["ansible", "slurm", "local"]), default="ansible", help="Who reaches the hosts."
)
@click.option("--partition", default="", metavar="NAME", help="Slurm's partition.")
@click.option("--limit", "pattern", default="all", metavar="PATTERN", help="Only these hosts, as Ansible names them.")
@click.option("--forks", default=50, type=click.IntRange(1, 1000), help="Hosts at a time.")
@click.option("--timeout", "host_seconds", default=60, type=click.IntRange(5, 3600), help="Seconds for one host.")
@click.option(
    "--connect-timeout", "connect_seconds", default=10, type=click.IntRange(1, 600), help="Seconds to reach it."
)
@click.option("--become", is_flag=True, help="Read as root, by Ansible's become.")
@click.option("--python", default="", metavar="PATH", help="Inspect this interpreter on each host.")
@click.option("--again", is_flag=True, help="Ask the hosts too that have answered before.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print.")
@click.option("-q", "--quiet", is_flag=True, help="Do not tell each host's answer.")
def run(output: str, *, again: bool, form: str, quiet: bool, **asked: object) -> int:
    """Take a snapshot of every host; run again, it asks those that have not answered."""
    from envcheck.cli.fleet_session import ask

    return ask(output, asked, again=again, form=form, quiet=quiet)


@fleet.command(epilog="Example: envcheck fleet report machines --golden gpu001 --html fleet.html")
@click.argument("folder", metavar="DIR")
@click.option("--golden", default="", metavar="HOST", help="Tell where each host differs from this one.")
@click.option("--html", "html_file", default="", metavar="FILE", help="Write one page that filters, sorts and groups.")
@click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", help="What must work.")
@click.option("--for", "requirements", multiple=True, metavar="REQ", help="Judge this release too, installed or not.")
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", help="How to print.")
@options.matrix("Judge by this compatibility matrix.")
@options.color
@options.verbosity
def report(folder: str, **asked: object) -> int:
    """Judge the hosts of a folder: grouped by verdict and primary cause; exit code by the worst."""
    from envcheck.cli.fleet_session import tell

    return tell(folder, asked)
