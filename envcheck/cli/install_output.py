"""Print what an installation is going to do, and as JSON what came of it."""

from __future__ import annotations

import sys

import click

from envcheck.model.plans import Plan
from envcheck.model.records import dataclass
from envcheck.render.install_json import Result, render_install_json


@dataclass(frozen=True)
class Manner:
    """How to go about it."""

    dry_run: bool = False
    agreed: bool = False
    smoke: bool = False
    system: bool = False
    as_root: bool = False
    verbose: bool = False
    quiet: bool = False
    form: str = "text"


def show_plan(plan: Plan, manner: Manner) -> None:
    """Show a plan as text; with JSON on standard error, so that whoever is asked sees what about."""
    from envcheck.cli.plan_output import show_what_runs

    if manner.form == "text" or not (manner.agreed or manner.dry_run):
        show_what_runs(plan, sys.stderr if manner.form == "json" else sys.stdout, verbose=manner.verbose)


def tell(result: Result, manner: Manner, plan: Plan | None = None) -> None:
    """Print the JSON document, where that is asked for: the text was told while it happened."""
    if manner.form == "json":
        from envcheck.cli.plan import verdict_on
        from envcheck.render.plan_json import plan_document

        click.echo(render_install_json(result, plan_document(plan, verdict_on(plan)) if plan else None))
