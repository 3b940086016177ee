"""Print a report in the format asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.exits import UserError
from envcheck.model import Report, Snapshot, dataclass

if TYPE_CHECKING:
    from envcheck.smoke.devices import Session


FORMATS = ("text", "json", "html", "junit", "sarif", "github", "markdown")


@dataclass(frozen=True)
class Style:
    """How to print a report, and what it is about."""

    printing: options.Printing = options.Printing()
    no_snapshot: bool = False
    judged: str = ""  # the project file a report is about, for formats that point at lines
    ignored: tuple[str, ...] = ()  # the ids it ignores today
    expired: tuple[str, ...] = ()  # the ids whose ignore has ended


def print_report(report: Report, snapshot: Snapshot, style: Style, smoke: Session | None = None) -> None:
    """Print a report to stdout; on GitHub its Markdown goes to the step summary as well.

    `smoke` is the smoke test that was run for the report: JSON carries all of it.
    """
    how = style.printing
    if how.form == "text":
        from envcheck.render.report_text import print_text

        print_text(report, snapshot, color=how.color, verbose=how.verbose, quiet=how.quiet)
        return
    encoding = sys.stdout.encoding or "ascii"  # a file name may hold what no encoding can say
    click.echo(_document(report, snapshot, style, smoke).rstrip("\n").encode(encoding, "replace").decode(encoding))
    if style.printing.form == "github":
        _summarise(report, snapshot)


def _document(report: Report, snapshot: Snapshot, style: Style, smoke: Session | None) -> str:
    if style.printing.form == "junit":
        from envcheck.render.junit import render_report

        return render_report(report)
    if style.printing.form == "sarif":
        from envcheck.render.sarif import render_sarif

        return render_sarif(report, style.judged)
    if style.printing.form == "github":
        from envcheck.render.markdown import render_github

        return render_github(report, style.judged)
    if style.printing.form == "markdown":
        from envcheck.render.markdown import render_markdown

        return render_markdown(report, snapshot)
    if style.printing.form == "html":
        return _html(report, snapshot)
    from envcheck.render.json_report import render_json

    project = {"file": style.judged, "ignored": list(style.ignored), "expired": list(style.expired)}
    return render_json(report, None if style.no_snapshot else snapshot, smoke, project if style.judged else None)


def _html(report: Report, snapshot: Snapshot) -> str:
    from envcheck.render.html import render_html

    try:
        return render_html(report, snapshot)
    except ModuleNotFoundError as error:
        raise UserError(f"--format html needs the package {error.name}: pip install 'envcheck-gpu[html]'") from None


def _summarise(report: Report, snapshot: Snapshot) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return
    from envcheck.render.markdown import render_markdown

    try:
        with open(path, "a", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - the runner's own file, shared
            stream.write(render_markdown(report, snapshot) + "\n")
    except OSError as error:
        click.echo(f"envcheck: cannot add to the step summary {path}: {error.strerror}", err=True)
