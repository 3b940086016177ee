"""`envcheck check`: gate a project on its [tool.envcheck] requirements."""

from __future__ import annotations

from datetime import date
from typing import Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT
from envcheck.cli.report import REPORT_FORMATS, ReportSubject, print_report

EXAMPLE = "Example: envcheck check --dockerfile Dockerfile --format github"


@click.command(epilog=EXAMPLE)
@common.inspected_python
@click.option(
    "--config",
    metavar="FILE",
    default="",
    help=f"The file with the [tool.envcheck] table [{api.CONFIG}].",
)
@click.option(
    "--dockerfile",
    "file",
    metavar="FILE",
    default="",
    help=(
        "Judge what this file builds: a Dockerfile, compose, environment.yml, requirements,"
        " pyproject or lock file."
    ),
)
@click.option(
    "--expect", type=click.Choice(["auto", "gpu", "cpu"]), help="Override the table's `expect`."
)
@click.option(
    "--driver",
    default="",
    metavar="VERSION",
    help="The driver of the machines that --dockerfile is for.",
)
@click.option("--gpu", multiple=True, metavar="NAME", help="Their GPU, or its compute capability.")
@common.snapshot("Judge a saved machine instead of this one.")
@click.option("--no-snapshot", is_flag=True, help="Leave the snapshot out of the JSON report.")
@common.matrix("Judge by this compatibility matrix.")
@common.printing(*REPORT_FORMATS)
def check(printing: common.Printing, config: str, *, no_snapshot: bool, **asked: Any) -> int:
    """Check whether this machine, or what a file will build, meets the project's requirements."""
    with common.slow_programs():
        found = api.check(config, **asked)
    warn_of_expired(found.expired, config or api.CONFIG)
    ended = tuple(name for name, _ in found.expired)
    print_report(
        found.report,
        found.snapshot,
        printing,
        ReportSubject(no_snapshot, found.file, found.ignored, ended),
    )
    return OF_VERDICT[found.verdict]


def warn_of_expired(expired: tuple[tuple[str, date], ...], file: str) -> None:
    """Name on stderr the findings that a project no longer ignores."""
    for name, until in expired:
        click.echo(
            f"envcheck: {file}: the ignore of {name} ended on {until}; it counts again.", err=True
        )
