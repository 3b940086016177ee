"""`envcheck rule`: explain a finding in general."""

from __future__ import annotations

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.report import FORMATS_WITHOUT_FINDINGS, print_answer
from envcheck.render.text import print_document


def _complete_ids(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from envcheck.rules.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


@click.command(epilog="Example: envcheck rule numpy-abi")
@click.argument("finding", metavar="[ID]", default="", shell_complete=_complete_ids)
@common.printing(
    *FORMATS_WITHOUT_FINDINGS, quiet="Print one line.", verbose="Show every message that states it."
)
def rule(finding: str, printing: common.Printing) -> int:
    """Explain a finding: its messages, how it is decided, what to do, how to ignore it.

    Without ID, list all findings.
    """
    if finding:
        found = api.rule(finding)
        print_answer(printing, found.document, found.to_json)
        return 0
    if printing.form != "text":
        raise common.UserError("name a finding, such as numpy-abi: the list is text alone.")
    from envcheck.render.rule_page import describe_rule_list

    print_document(describe_rule_list(), color=printing.color)
    return 0
