"""`envcheck diff`: what differs between a machine that works and one that does not."""

from __future__ import annotations

from typing import Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT
from envcheck.cli.report import FORMATS_WITHOUT_FINDINGS, print_answer

EXAMPLE = "Example: envcheck diff works.json broken.json"


@click.command(epilog=EXAMPLE)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@common.releases("Judge both for this release too.")
@common.expectation("What must work on both; auto: a GPU if there is one.")
@common.matrix("Judge both by this matrix.")
@common.printing(
    *FORMATS_WITHOUT_FINDINGS,
    quiet="Print only the verdicts and the most likely cause.",
    verbose="Print every difference.",
)
def diff(a: str, b: str, printing: common.Printing, **asked: Any) -> int:
    """Report what differs between two machines saved by `envcheck snapshot`.

    The most likely cause stands first.

    Exits with 0 if nothing that matters to the installed frameworks differs, with 1 if something
    does, and with 3 if that is unknown.
    """
    found = api.diff(a, b, **asked)
    print_answer(printing, found.document, found.to_json)
    return OF_VERDICT[found.verdict]
