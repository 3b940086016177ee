"""Reports as they are printed."""

from __future__ import annotations

from envcheck.model import Finding, Report, Snapshot
from envcheck.render import formats
from envcheck.render.document import Document
from envcheck.render.report import describe_report, show_finding
from envcheck.render.text import print_document, render_text


def print_text(
    report: Report, snapshot: Snapshot, *, color: bool, verbose: bool, quiet: bool
) -> None:
    """Print a report to stdout."""
    print_document(describe_report(report, snapshot, verbose=verbose, quiet=quiet), color=color)


def write(report: Report, form: str, snapshot: Snapshot | None = None, file: str = "") -> str:
    """Return a report in a format, with all that it holds."""
    return formats.render(
        describe_report(report, snapshot, verbose=form != "text", file=file), form
    )


def finding_text(finding: Finding, system: str = "") -> str:
    """Return one finding as text."""
    shown = show_finding(finding, system)
    return render_text(Document("envcheck", finding.verdict, "", findings=(shown,)))
