"""Print an answer in the format that the user chooses."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from envcheck import api
from envcheck.cli.common import Printing
from envcheck.host import plugins
from envcheck.model import Report, Snapshot, inert, replace
from envcheck.render import formats
from envcheck.render.document import Document
from envcheck.render.text import print_document

FORMATS = ("text", "json", *formats.FORMATS[1:])
FORMATS_WITHOUT_FINDINGS = tuple(
    form for form in FORMATS if form != "sarif"
)  # a page of code scanning shows these alone


def print_answer(
    printing: Printing, describe: Callable[..., Document], encode: Callable[[], str]
) -> None:
    """Print an answer to stdout; on GitHub add its Markdown to the step summary as well.

    `describe` builds its document as -v and -q say, `encode` its JSON. Other formats hold all that
    -v shows.
    """
    if printing.form == "text":
        print_document(
            describe(verbose=printing.verbose, quiet=printing.quiet), color=printing.color
        )
    elif printing.form == "json":
        _print(encode())
    else:
        document = describe(verbose=True)
        _print(formats.render(document, printing.form))
        if printing.form == "github":
            _add_step_summary(document)


def _print(text: str) -> None:
    # a file name may hold characters that the encoding lacks
    encoding = sys.stdout.encoding or "ascii"
    click.echo(text.rstrip("\n").encode(encoding, "replace").decode(encoding))


def _accept_format(_: str, render: Any) -> Callable[[Report, Snapshot], str]:
    if not callable(render):
        raise plugins.PluginError("it is no function of a report and a snapshot")
    return lambda report, snapshot: plugins.call(lambda: str(render(report, snapshot)))


_PLUGINS = plugins.load_plugins(plugins.FORMATS, {*FORMATS}, _accept_format)
REPORT_FORMATS = (*FORMATS, *_PLUGINS)


def print_report(
    found: api.DoctorResult,
    printing: Printing,
    *,
    no_snapshot: bool,
    smoke: dict[str, Any] | None = None,
) -> None:
    """Print a report in a format of any answer or of a plugin.

    `smoke` is the document of the smoke test that was run for it.
    """
    if printing.form in _PLUGINS:
        try:
            _print(_PLUGINS[printing.form](found.report, found.snapshot))
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises
            click.echo(
                f"envcheck: the plugin of --format {printing.form} failed:"
                f" {inert(repr(error))[:300]}",
                err=True,
            )
            printing = replace(printing, form="text")
        else:
            return
    kept = None if no_snapshot else found.snapshot
    print_answer(printing, found.document, partial(_encode, found, kept, smoke))


def _encode(
    found: api.DoctorResult, snapshot: Snapshot | None, smoke: dict[str, Any] | None
) -> str:
    from envcheck.render.json_contracts import render_json

    return render_json(found.report, snapshot, smoke, found.project)


def _add_step_summary(document: Document) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - pathlib is slow to import
            stream.write(formats.render(document, "markdown") + "\n")
    except OSError as error:
        click.echo(f"envcheck: cannot add to the step summary {path}: {error.strerror}", err=True)
