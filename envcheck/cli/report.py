"""Print a report in the format that the user chooses."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from envcheck.cli.common import Printing
from envcheck.host import plugins
from envcheck.model import Report, Snapshot, dataclass, inert, replace
from envcheck.render.documents import render_json
from envcheck.render.html import render_html
from envcheck.render.markdown import render_github, render_markdown
from envcheck.render.text import print_text


@dataclass(frozen=True)
class ReportSubject:
    """What a report is about, beside the machine."""

    no_snapshot: bool = False
    project_file: str = ""  # for formats that point at lines
    ignored: tuple[str, ...] = ()  # finding ids that the project ignores today
    expired: tuple[str, ...] = ()  # finding ids whose ignore has ended
    smoke: dict[str, Any] | None = None  # document of the smoke test that was run for the report


def _render_as_json(report: Report, snapshot: Snapshot, subject: ReportSubject) -> str:
    project = {
        "file": subject.project_file,
        "ignored": list(subject.ignored),
        "expired": list(subject.expired),
    }
    about = project if subject.project_file else None
    return render_json(report, None if subject.no_snapshot else snapshot, subject.smoke, about)


def _render_as_junit(report: Report, _: Snapshot, __: ReportSubject) -> str:
    from envcheck.render.junit import render_report  # the XML library takes 3 ms

    return render_report(report)


def _render_as_sarif(report: Report, _: Snapshot, subject: ReportSubject) -> str:
    from envcheck.render.sarif import render_sarif  # hashlib and urllib take 3 ms

    return render_sarif(report, subject.project_file)


# All formats except text: `print_text` writes that one to the terminal itself.
_RENDERERS: dict[str, Callable[[Report, Snapshot, ReportSubject], str]] = {
    "json": _render_as_json,
    "html": lambda report, snapshot, _: render_html(report, snapshot),
    "junit": _render_as_junit,
    "sarif": _render_as_sarif,
    "github": lambda report, _, subject: render_github(report, subject.project_file),
    "markdown": lambda report, snapshot, _: render_markdown(report, snapshot),
}


def _accept_format(_: str, render: Any) -> Callable[[Report, Snapshot, ReportSubject], str]:
    if not callable(render):
        raise plugins.PluginError("it is no function of a report and a snapshot")
    return lambda report, snapshot, _: plugins.call(lambda: str(render(report, snapshot)))


_PLUGINS = plugins.load_plugins(plugins.FORMATS, {"text", *_RENDERERS}, _accept_format)
FORMATS = ("text", *_RENDERERS, *_PLUGINS)


def print_report(report: Report, snapshot: Snapshot, printing: Printing, subject: ReportSubject) -> None:
    """Print a report to stdout; on GitHub add its Markdown to the step summary as well."""
    if printing.form == "text":
        print_text(report, snapshot, color=printing.color, verbose=printing.verbose, quiet=printing.quiet)
        return
    try:
        text = (_RENDERERS.get(printing.form) or _PLUGINS[printing.form])(report, snapshot, subject).rstrip("\n")
    except Exception as error:
        if printing.form not in _PLUGINS:
            raise
        click.echo(f"envcheck: the plugin of --format {printing.form} failed: {inert(repr(error))[:300]}", err=True)
        print_report(report, snapshot, replace(printing, form="text"), subject)
        return
    encoding = sys.stdout.encoding or "ascii"  # a file name may hold characters that the encoding lacks
    click.echo(text.encode(encoding, "replace").decode(encoding))
    if printing.form == "github":
        _add_step_summary(report, snapshot)


def _add_step_summary(report: Report, snapshot: Snapshot) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - pathlib is slow to import
            stream.write(render_markdown(report, snapshot) + "\n")
    except OSError as error:
        click.echo(f"envcheck: cannot add to the step summary {path}: {error.strerror}", err=True)
