"""`envcheck plan`: the exact commands for this machine, or for one that is described."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

from envcheck.actions.activation import shells_of
from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Facts, replace
from envcheck.model.plans import Plan
from envcheck.plan.requests import PLATFORMS, Description, Wish
from envcheck.plan.steps import mark_existing

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
        from envcheck.render.plan_files import render_plan_json

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
        from envcheck.render.plan_files import render_script

        return render_script(plan)
    if form == "requirements":
        from envcheck.render.plan_files import render_requirements

        return render_requirements(plan)
    if form == "environment-yml":
        from envcheck.render.plan_files import render_environment_file

        return render_environment_file(plan)
    from envcheck.plan.images import images_for
    from envcheck.render.plan_files import render_dockerfile, the_environment

    return render_dockerfile(plan, images_for(the_environment(plan)))


def verified(plan: Plan) -> tuple[Plan, str]:
    """Resolve a plan's requirements on the index; return it with its verdict."""
    from envcheck.cli.inspect import slow_programs
    from envcheck.plan.verify import UnreachableError, UnresolvableError, verify_plan

    try:
        with slow_programs():
            return verify_plan(plan, os.environ), ""
    except UnresolvableError as error:
        return replace(plan, verified=f"Not verified: {error}"), INCOMPATIBLE
    except UnreachableError as error:
        return replace(plan, verified=f"Not verified: {error}"), UNDETERMINED


_OF_CUDA = ("toolkits", "cudnn tensorrt nccl")  # probes that concern a plan for the GPU alone
_OF_ALL = ("python", "driver", "gpus", "host")
_OF_NONE = ("compilers",)
EXAMPLE = "Example: envcheck plan 'tensorflow>=2.15' --python 3.11 --driver 535.104.05 --gpu 'RTX 4090'"


@click.command(epilog=EXAMPLE)
@click.argument("requirements", metavar="REQ...", nargs=-1, required=True)
@click.option("--python", metavar="X.Y", default="", help="Plan with this Python (3.14t: free-threaded).")
@click.option("--driver", metavar="VERSION", default="", help="Plan for this driver release.")
@click.option("--gpu", "gpus", metavar="NAME", multiple=True, help="Plan for this GPU or compute capability; or none.")
@click.option("--glibc", metavar="VERSION", default="", help="Plan for this C library.")
@click.option("--platform", type=click.Choice(PLATFORMS), default=None, help="Plan for another machine than this one.")
@click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", help="What must work.")
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Plan for a saved machine.")
@click.option("--installer", type=click.Choice(["pip", "uv", "conda"]), default=None, help="pip where it can do it.")
@click.option("--env", "folder", metavar="DIR", default="", help="Where the environment is to be.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the plan.")
@click.option("--verify", is_flag=True, help="Resolve the plan on the index, and pin what comes out.")
@options.matrix("Plan by this compatibility matrix.")
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
    verbose: bool,
) -> int:
    """Print the exact commands that bring REQ to this machine, and why not a newer release. Changes nothing."""
    said = Description(python, driver, gpus, glibc, platform or "")
    given = {"--snapshot": snapshot_file, "--matrix": matrix_file, "--installer": installer, "--env": folder}
    repeated = tuple(word for name, value in given.items() if value for word in (name, value))
    here = not platform and not snapshot_file and form != "dockerfile"
    shells = shells_of(os.environ if here else {})
    wish = Wish(expect, installer or "", folder, form == "dockerfile", said, repeated, shells=shells)
    made = plan_for(requirements, wish, snapshot_file, matrix_file)
    made = mark_existing(made, _is_there) if here else made
    made, told = verified(made) if verify and made.releases else (made, "")
    verdict = told or verdict_on(made)
    if told and form not in ("text", "json"):
        click.echo(made.verified, err=True)
    show(made, verdict, form, verbose=verbose)
    return OF_VERDICT[verdict]


def _is_there(folder: str) -> bool:
    return os.path.lexists(os.path.expanduser(folder))  # noqa: PTH111 - pathlib costs a third of a bare start


def plan_for(requirements: tuple[str, ...], wish: Wish, snapshot_file: str | None, matrix_file: str | None) -> Plan:
    """Build the plan; what cannot be planned for is the user's error."""
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.plan.build import build_plan, goal_of
    from envcheck.plan.requests import (
        RequestError,
        check_description,
        check_folder,
        in_an_image,
        planned_facts,
        read_requests,
    )

    said = wish.described
    try:
        check_description(said)
        check_folder(wish.folder)
        matrix = load_matrix(matrix_file)
        requests = read_requests(requirements, matrix)
        facts = planned_facts(_read(said, snapshot_file), said, matrix, expects_gpu=wish.expect == "gpu")
        _check_python(facts)
        if wish.in_container:
            facts = in_an_image(facts)
        elif not snapshot_file and not said.platform and goal_of(facts, matrix, requests, wish) == "gpu":
            facts = _with_cuda(facts)
        return build_plan(facts, matrix, requests, wish)
    except (MatrixError, RequestError) as error:
        raise UserError(str(error)) from None
    except ValueError as error:
        if not matrix_file:
            raise
        raise UserError(f"{matrix_file} holds what may stand in no command: {str(error)[:200]}") from None


def _read(said: Description, snapshot_file: str | None) -> Facts | None:
    if snapshot_file:
        return inspect.saved_snapshot(snapshot_file).facts
    return None if said.platform else inspect.live_snapshot("", "", (*_OF_NONE, *_OF_CUDA), without_packages=True).facts


def _with_cuda(facts: Facts) -> Facts:
    """Read this machine's CUDA libraries, too."""
    from envcheck.model import replace

    read = inspect.live_snapshot("", "", (*_OF_NONE, *_OF_ALL)).facts
    return replace(facts, toolkits=read.toolkits, cudnn=read.cudnn, tensorrt=read.tensorrt, nccl=read.nccl)


def _check_python(facts: Facts) -> None:
    from envcheck.model import Known

    if not isinstance(facts.python.version, Known):
        raise UserError("which Python to plan for is not known: name one, such as --python 3.12.")


def verdict_on(made: Plan) -> str:
    """Say what a plan comes to: without releases incompatible, with doubts or of what nobody knows undetermined."""
    if not made.releases or made.blocked_by:
        unknown = not made.blocked_by and {item.finding for item in made.rejected} == {"release-unknown"}
        return UNDETERMINED if unknown else INCOMPATIBLE
    return UNDETERMINED if any(release.doubts for release in made.releases) else COMPATIBLE
