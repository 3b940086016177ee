"""`envcheck plan`: the exact commands for this machine, or for one that is described."""

from __future__ import annotations

import sys
from typing import Any, TextIO

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT
from envcheck.model import Plan
from envcheck.render.formats import FORMATS
from envcheck.render.plan import FILES, describe_plan
from envcheck.render.text import print_document
from envcheck.rules.described_machine import PLATFORMS

EXAMPLE = (
    "Example: envcheck plan 'tensorflow>=2.15' --python 3.11 --driver 535.104.05 --gpu 'RTX 4090'"
)


@click.command(epilog=EXAMPLE)
@common.with_requirements
@click.option(
    "--python", metavar="X.Y", default="", help="Plan with this Python (3.14t: free-threaded)."
)
@click.option("--driver", metavar="VERSION", default="", help="Plan for this driver release.")
@click.option(
    "--gpu", metavar="NAME", multiple=True, help="Plan for this GPU or compute capability, or none."
)
@click.option("--glibc", metavar="VERSION", default="", help="Plan for this C library.")
@click.option(
    "--platform", type=click.Choice(PLATFORMS), default=None, help="Plan for another machine."
)
@common.expectation()
@common.snapshot("Plan for a saved machine.")
@common.installer("pip if it can install all")
@click.option("--env", metavar="DIR", default="", help="Folder of the environment.")
@common.output_format("text", "json", *FILES, *FORMATS[1:])
@common.verification
@common.matrix("Plan by this compatibility matrix.")
@common.torch_index
@click.option(
    "-v", "--verbose", is_flag=True, help="Show every rejected release, and how to undo each step."
)
def plan(
    requirements: tuple[str, ...],
    platform: str | None,
    installer: Any,
    form: str,
    *,
    verbose: bool,
    **asked: Any,
) -> int:
    """Print the commands that install REQ on this machine, and why no newer release works.

    Changes nothing.

    REQ is a framework: tensorflow, torch, jax, onnxruntime-gpu or cupy-cuda12x. Packages on top of
    one, such as vllm, flash-attn or keras-hub, are planned with the framework that they need. A
    folder, such as ., is a project: what its pyproject.toml requires is planned.
    """
    if not common.names_requirements({"requirements": requirements, **asked}):
        raise common.UserError("name what to plan, such as tensorflow, . or -r requirements.txt.")
    with common.slow_programs():
        is_image = form == "dockerfile"
        made = api.plan(
            *requirements,
            platform=platform or "",
            installer=installer or "",
            container=is_image,
            **asked,
        )
    if made.unverified and form not in ("text", "json"):
        click.echo(made.plan.verified, err=True)
    show(made, form, verbose=verbose)
    return OF_VERDICT[made.verdict]


def show(made: api.PlanResult, form: str, *, verbose: bool) -> None:
    """Print a plan to standard output; if a file gets it, print to stderr why there is none."""
    if form == "text":
        _print_plan(made.plan, sys.stdout, verbose=verbose)
        return
    text = made.render(form, verbose=verbose)
    click.echo(text.rstrip("\n"))
    if not made.plan.releases and form in FILES and not sys.stdout.isatty():
        click.echo(text.partition("\n")[0], err=True)


def show_to_run(plan: Plan, stream: TextIO, *, verbose: bool) -> None:
    """Print a plan whose commands are run for the user."""
    _print_plan(plan, stream, verbose=verbose, run_for_you=True)


def _print_plan(plan: Plan, stream: TextIO, *, verbose: bool, run_for_you: bool = False) -> None:
    shown = describe_plan(plan, verbose=verbose, run_for_you=run_for_you)
    print_document(shown, color=common.Printing().wants_color(stream), stream=stream)
