"""`envcheck check`: gate a project on its [tool.envcheck] requirements."""

from __future__ import annotations

import os
from datetime import date
from typing import Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, option
from envcheck.cli.report import REPORT_FORMATS, print_report

EXAMPLE = "Example: envcheck check Dockerfile requirements.txt --format github"
# What several answers, one after the other, are in a format.
_JOINED = ("text", "markdown", "github")


@click.command(epilog=EXAMPLE)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@common.inspected_python
@option("--config FILE", f"The file with the [tool.envcheck] table [{api.CONFIG}].")
@option("--dockerfile FILE", "The same as FILE: judge what this file builds.", "file")
@option("--expect", "Override the table's `expect`.", type=click.Choice(["auto", "gpu", "cpu"]))
@option("--driver VERSION", "The driver of the machines that a FILE is for.")
@option("--gpu NAME", "Their GPU, or its compute capability.", multiple=True)
@option("--extra NAME", "An extra of it that is installed.", "extras", multiple=True)
@option("--group NAME", "A group of it that is installed.", "groups", multiple=True)
@common.snapshot("Judge a saved machine instead of this one.")
@option("--no-snapshot", "Leave the snapshot out of the JSON report.")
@common.matrix("Judge by this compatibility matrix.")
@common.printing(*REPORT_FORMATS)
def check(
    printing: common.Printing,
    files: tuple[str, ...],
    file: str,
    config: str,
    *,
    no_snapshot: bool,
    **asked: Any,
) -> int:
    """Check whether this machine, or what a FILE builds, meets the project's requirements.

    FILE is a Dockerfile, a compose file, environment.yml, requirements, pyproject.toml, a lock
    file, or a folder with some of these. Of several, each is judged by itself; the worst answer is
    the exit code.
    """
    named = [each for name in filter(None, (*files, file)) for each in _list_files(name)]
    if len(named) > 1 and printing.form not in _JOINED:
        raise common.UserError(
            f"--format {printing.form} writes one document: name one file, or use"
            f" --format {' or '.join(_JOINED)}."
        )
    codes = []
    for place, name in enumerate(named or ("",)):
        with common.slow_programs():
            found = api.check(config, file=name, **asked)
        if not place:
            warn_of_expired(found.expired, config or api.CONFIG)
        elif printing.form != "github":
            click.echo()
        print_report(found, printing, no_snapshot=no_snapshot)
        codes.append(OF_VERDICT[found.verdict])
    return 1 if 1 in codes else max(codes)  # incompatible is worse than undetermined


def _list_files(name: str) -> list[str]:
    """Return the files that a name on the command line stands for."""
    if not os.path.isdir(name):  # noqa: PTH112 - pathlib is slow to import
        return [name]
    found = api.list_project_files(name)
    if not found:
        raise common.UserError(f"{name} holds no file of a project: name the file.")
    return found


def warn_of_expired(expired: tuple[tuple[str, date], ...], file: str) -> None:
    """Name on stderr the findings that a project no longer ignores."""
    for name, until in expired:
        click.echo(
            f"envcheck: {file}: the ignore of {name} ended on {until}; it counts again.", err=True
        )
