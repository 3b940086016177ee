"""`envcheck plan`: the exact commands for this machine, or for one that is described."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

from envcheck.actions import shells_of
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, UserError
from envcheck.host.prerequisites import find_python
from envcheck.model import COMPATIBLE, INCOMPATIBLE, PIP, UNDETERMINED, Facts, Known, Plan, replace
from envcheck.plan.build import build_plan, goal_of
from envcheck.plan.requests import PlanOptions, check_description, check_folder, read_requests
from envcheck.plan.steps import use_free_folders
from envcheck.render.documents import terminal_size
from envcheck.render.plan import FORMATS, fitted, render_plan, render_plan_text
from envcheck.rules.described_machine import PLATFORMS, Description, RequestError, in_an_image, planned_facts

# Probes that are left out: for every plan, for one on the CPU as well, and in the second reading.
_NEVER_NEEDED = ("compilers",)
_FOR_CUDA = ("toolkits", "cudnn tensorrt nccl")
_READ_BEFORE = ("python", "driver", "gpus", "host")
EXAMPLE = "Example: envcheck plan 'tensorflow>=2.15' --python 3.11 --driver 535.104.05 --gpu 'RTX 4090'"


@click.command(epilog=EXAMPLE)
@click.argument("requirements", metavar="REQ...", nargs=-1, required=True)
@click.option("--python", metavar="X.Y", default="", help="Plan with this Python (3.14t: free-threaded).")
@click.option("--driver", metavar="VERSION", default="", help="Plan for this driver release.")
@click.option("--gpu", "gpus", metavar="NAME", multiple=True, help="Plan for this GPU or compute capability, or none.")
@click.option("--glibc", metavar="VERSION", default="", help="Plan for this C library.")
@click.option("--platform", type=click.Choice(PLATFORMS), default=None, help="Plan for another machine.")
@common.expectation()
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Plan for a saved machine.")
@click.option(
    "--installer",
    type=click.Choice(["pip", "uv", "conda"]),
    default=None,
    help="Installer to use [pip if it can install all].",
)
@click.option("--env", "folder", metavar="DIR", default="", help="Folder of the environment.")
@common.output_format(*FORMATS)
@click.option("--verify", is_flag=True, help="Resolve the plan on the package index, and pin the result.")
@common.matrix("Plan by this compatibility matrix.")
@common.torch_index
@click.option("-v", "--verbose", is_flag=True, help="Show every rejected release, and how to undo each step.")
def plan(
    requirements: tuple[str, ...],
    python: str,
    driver: str,
    gpus: tuple[str, ...],
    glibc: str,
    platform: str | None,
    expect: str,
    snapshot_file: str | None,
    installer: str | None,
    folder: str,
    form: str,
    verify: bool,
    matrix_file: str | None,
    torch_index: str,
    verbose: bool,
) -> int:
    """Print the commands that install REQ on this machine, and why no newer release works. Changes nothing."""
    said = Description(python, driver, gpus, glibc, platform or "")
    given = {"--snapshot": snapshot_file, "--matrix": matrix_file, "--installer": installer, "--env": folder}
    repeated = tuple(word for name, value in given.items() if value for word in (name, value))
    here = not platform and not snapshot_file and form != "dockerfile"
    shells = shells_of(os.environ if here else {})
    found = find_python(python, os.environ) if here and python and installer != "conda" else ""
    wish = PlanOptions(
        expect, installer or "", folder, form == "dockerfile", said, repeated, interpreter=found, shells=shells
    )
    made = build(requirements, wish, snapshot_file, matrix_file)
    if torch_index:
        from envcheck.cli.installation import use_mirror  # what installs is loaded for few plans: 40 ms

        made = use_mirror(made, torch_index)
    if here:
        made = _note_installer(use_free_folders(made, _exists), installer)
    made, unverified = _verify(made) if verify and made.releases else (made, "")
    verdict = unverified or verdict_on(made)
    if unverified and form not in ("text", "json"):
        click.echo(made.verified, err=True)
    show(made, verdict, form, verbose=verbose)
    return OF_VERDICT[verdict]


def _note_installer(plan: Plan, installer: str | None) -> Plan:
    """Add the note that `envcheck install` runs the same steps, with uv if it is installed."""
    if not plan.releases or installer or any(made.installer != PIP for made in plan.environments):
        return plan
    note = "These commands use pip. `envcheck install` takes the same steps, with uv where it finds it."
    result: Plan = replace(plan, notes=(*plan.notes, note))
    return result


def _exists(folder: str) -> bool:
    return os.path.lexists(os.path.expanduser(folder))  # noqa: PTH111 - pathlib costs a third of a bare start


def build(requirements: tuple[str, ...], wish: PlanOptions, snapshot_file: str | None, matrix_file: str | None) -> Plan:
    """Build the plan; raises UserError for a request that cannot be planned."""
    said = wish.description
    try:
        check_description(said)
        check_folder(wish.folder)
        matrix = common.load_matrix(matrix_file)
        requests = read_requests(requirements, matrix)
        facts = planned_facts(_read_facts(said, snapshot_file), said, matrix, expects_gpu=wish.expect == "gpu")
        if not isinstance(facts.python.version, Known):
            raise UserError("the Python to plan for is unknown: name one, such as --python 3.12.")
        if wish.in_container:
            facts = in_an_image(facts)
        elif not snapshot_file and not said.platform and goal_of(facts, matrix, requests, wish) == "gpu":
            facts = _with_cuda(facts)
        return build_plan(facts, matrix, requests, wish)
    except RequestError as error:
        raise UserError(str(error)) from None
    except ValueError as error:
        if not matrix_file:
            raise
        raise UserError(f"{matrix_file} holds a value that no command may contain: {str(error)[:200]}") from None


def _read_facts(said: Description, snapshot_file: str | None) -> Facts | None:
    if snapshot_file:
        return common.saved_snapshot(snapshot_file).facts
    return (
        None
        if said.platform
        else common.live_snapshot("", "", (*_NEVER_NEEDED, *_FOR_CUDA), without_packages=True).facts
    )


def _with_cuda(facts: Facts) -> Facts:
    """Add this machine's CUDA libraries."""
    read = common.live_snapshot("", "", (*_NEVER_NEEDED, *_READ_BEFORE)).facts
    return replace(facts, toolkits=read.toolkits, cudnn=read.cudnn, tensorrt=read.tensorrt, nccl=read.nccl)


def _verify(plan: Plan) -> tuple[Plan, str]:
    """Resolve a plan's requirements on the index; return it with the verdict, "" if it resolves."""
    from envcheck.plan.verify import UnreachableError, UnresolvableError, verify_plan  # for --verify only: 3 ms

    try:
        with common.slow_programs():
            return verify_plan(plan, os.environ), ""
    except UnresolvableError as error:
        return replace(plan, verified=f"Not verified: {error}"), INCOMPATIBLE
    except UnreachableError as error:
        return replace(plan, verified=f"Not verified: {error}"), UNDETERMINED


def verdict_on(plan: Plan) -> str:
    """Judge a plan: incompatible without releases; undetermined with doubts, or if no release is known."""
    if not plan.releases or plan.blocked_by:
        unknown = not plan.blocked_by and {item.finding for item in plan.rejected} == {"release-unknown"}
        return UNDETERMINED if unknown else INCOMPATIBLE
    return UNDETERMINED if any(release.doubts for release in plan.releases) else COMPATIBLE


def show(plan: Plan, verdict: str, form: str, *, verbose: bool) -> None:
    """Print a plan to standard output; if a file gets it, print to stderr why there is none."""
    try:
        text = render_plan(plan, verdict, form, verbose=verbose)
    except ValueError as error:
        raise UserError(f"--format {form}: {error}") from None
    click.echo(_fit(text, sys.stdout) if form == "text" else text, nl=False)
    if not plan.releases and form not in ("text", "json") and not sys.stdout.isatty():
        click.echo(text.partition("\n")[0], err=True)


def show_to_run(plan: Plan, stream: TextIO, *, verbose: bool) -> None:
    """Print a plan whose commands are run for the user."""
    click.echo(_fit(render_plan_text(plan, verbose=verbose, run_for_you=True), stream), stream, nl=False)


def _fit(text: str, stream: TextIO) -> str:
    return fitted(text, terminal_size(stream)[0]) if stream.isatty() else text
