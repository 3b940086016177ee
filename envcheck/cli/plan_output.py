"""Print a plan in the format asked for, and have it verified."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

from envcheck.cli.exits import UserError
from envcheck.model.findings import INCOMPATIBLE, UNDETERMINED
from envcheck.model.plans import Plan
from envcheck.model.records import replaced

_USUAL = 80  # columns
FORMATS = ("text", "json", "script", "requirements", "dockerfile", "environment-yml")


def show(plan: Plan, verdict: str, form: str, *, verbose: bool) -> None:
    """Print a plan to standard output; text fits the terminal. Why there is none is told beside a file, too."""
    text = rendered(plan, verdict, form, verbose=verbose)
    click.echo(_fitting(text, form, sys.stdout), nl=False)
    if not plan.releases and form not in ("text", "json") and not sys.stdout.isatty():
        click.echo(text.partition("\n")[0], err=True)


def show_what_runs(plan: Plan, stream: TextIO, *, verbose: bool) -> None:
    """Print a plan whose commands nobody has to type."""
    from envcheck.render.plan_text import render_plan_text

    click.echo(_fitting(render_plan_text(plan, verbose=verbose, run_for_you=True), "text", stream), stream, nl=False)


def _fitting(text: str, form: str, stream: TextIO) -> str:
    if form != "text" or not stream.isatty():
        return text
    from envcheck.render.plan_text import fitted

    return fitted(text, _width(stream))


def _width(stream: TextIO) -> int:
    stated = os.environ.get("COLUMNS", "")
    try:
        return int(stated) if stated.isdecimal() else os.get_terminal_size(stream.fileno()).columns or _USUAL
    except OSError:
        return _USUAL  # a terminal that does not say


def rendered(plan: Plan, verdict: str, form: str, *, verbose: bool = False) -> str:
    """Render a plan; of one that is blocked a file holds comments alone, which tell why."""
    if form == "json":
        from envcheck.render.plan_json import render_plan_json

        return render_plan_json(plan, verdict) + "\n"
    if form == "text" or not plan.releases:
        from envcheck.render.plan_text import render_plan_text

        text = render_plan_text(plan, verbose=verbose)
        return text if form == "text" else _told_in_a_file(text, form)
    try:
        return _file(plan, form)
    except ValueError as error:
        raise UserError(f"--format {form}: {error}") from None


def _told_in_a_file(text: str, form: str) -> str:
    """Write a text as comments, whatever a machine put into it: somebody may run what was to be a plan."""
    comments = "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())
    return comments + ("exit 1\n" if form == "script" else "")


def _file(plan: Plan, form: str) -> str:
    if form == "script":
        from envcheck.render.plan_script import render_script

        return render_script(plan)
    if form == "requirements":
        from envcheck.render.plan_requirements import render_requirements

        return render_requirements(plan)
    if form == "environment-yml":
        from envcheck.render.plan_environment import render_environment_file

        return render_environment_file(plan)
    from envcheck.plan.images import images_for
    from envcheck.render.plan_dockerfile import render_dockerfile
    from envcheck.render.plan_files import the_environment

    return render_dockerfile(plan, images_for(the_environment(plan)))


def verified(plan: Plan) -> tuple[Plan, str]:
    """Resolve a plan's requirements on the index; return it with its verdict."""
    from envcheck.cli.progress import slow_programs
    from envcheck.plan.verify import UnreachableError, UnresolvableError, verify_plan

    try:
        with slow_programs():
            return verify_plan(plan, os.environ), ""
    except UnresolvableError as error:
        return replaced(plan, verified=f"Not verified: {error}"), INCOMPATIBLE
    except UnreachableError as error:
        return replaced(plan, verified=f"Not verified: {error}"), UNDETERMINED
