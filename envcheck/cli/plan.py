"""`envcheck plan`: the exact commands for this machine, or for one that is described."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from envcheck import api
from envcheck.actions import type_here
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, option
from envcheck.plan.requests import DRIVER, ENGINES
from envcheck.render.formats import FORMATS
from envcheck.render.plan import FILES, describe_plan
from envcheck.render.text import print_document
from envcheck.rules.described_machine import PLATFORMS

EXAMPLE = (
    "Example: envcheck plan 'tensorflow>=2.15' --python 3.11 --driver 535.104.05 --gpu 'RTX 4090'"
)


@click.command(epilog=EXAMPLE)
@common.with_requirements
@common.upgrade
@option("--python X.Y", "Plan with this Python (3.14t: free-threaded).")
@option("--driver VERSION", "Plan for this driver release.")
@option("--gpu NAME", "Plan for this GPU or compute capability, or none.", multiple=True)
@option("--glibc VERSION", "Plan for this C library.")
@option("--platform", "Plan for another machine.", type=click.Choice(PLATFORMS), default=None)
@common.expectation()
@common.snapshot("Plan for a saved machine.")
@common.releases("With driver: one that runs this release.", "served")
@option("--os NAME", "With driver: for this system (debian 12).", "system")
@option(
    "--containers",
    "With driver: also give them the GPUs.",
    type=click.Choice(ENGINES),
    default=None,
)
@common.installer("pip if it can install all")
@option("--env DIR", "Folder of the environment.")
@common.printing(
    "text",
    "json",
    *FILES,
    *FORMATS[1:],
    quiet="Print only the commands.",
    verbose="Show every rejected release, and how to undo each step.",
)
@common.verification
@option("--lock FILE", "Also write the plan with its hashes: pylock.toml.")
@option(
    "--download DIR",
    "Also fill DIR for `install --from DIR` on a machine without a network.",
    "wheelhouse",
)
@common.matrix("Plan by this compatibility matrix.")
@common.torch_index
def plan(
    requirements: tuple[str, ...],
    platform: str | None,
    installer: Any,
    printing: common.Printing,
    lock: str,
    wheelhouse: str,
    served: tuple[str, ...],
    system: str,
    containers: str | None,
    **asked: Any,
) -> int:
    """Print the commands that install REQ on this machine, and why no newer release works.

    Changes nothing.

    REQ is a framework: tensorflow, torch, jax, onnxruntime-gpu or cupy-cuda12x. Packages on top of
    one, such as vllm, flash-attn or keras-hub, are planned with the framework that they need. A
    folder, such as ., is a project: what its pyproject.toml requires is planned. `driver` is
    NVIDIA's driver: the steps that make it work, or bring one that is new enough.
    """
    if requirements == (DRIVER,):
        others = {"installer": installer, "lock": lock, "download": wheelhouse}
        _check_for_driver({**asked, **others})
        named = ("gpu", "driver", "snapshot", "matrix")
        made = api.plan_driver(
            requirements=served, system=system, platform=platform or "",
            containers=containers or "", **{name: asked[name] for name in named},
        )  # fmt: skip
        show(made, printing)
        return OF_VERDICT[made.verdict]
    if served or system or containers:
        raise common.UserError("--for, --os and --containers go with `envcheck plan driver`.")
    if not common.names_requirements({"requirements": requirements, **asked}):
        raise common.UserError("name what to plan, such as tensorflow, . or -r requirements.txt.")
    _check_lock(lock)
    asked |= {"platform": platform or "", "installer": installer or ""}
    with common.slow_programs():
        made = api.plan(*requirements, container=printing.form == "dockerfile", **asked)
        cpu = _plan_for_cpu(made, asked) if printing.form == "uv" else None
    if made.unverified and printing.form not in ("text", "json"):
        click.echo(made.plan.verified, err=True)
    show(made, printing, cpu)
    verdict, seconds = made.verdict, max(asked["verify_timeout"], _RESOLVE_SECONDS)
    try:
        if lock and made.plan.releases:
            _write_lock(made, lock, seconds)
        if wheelhouse and made.plan.releases:
            _fill(made, wheelhouse, seconds, quiet=printing.quiet)
    except api.NotLockedError as error:
        click.echo(f"envcheck: {error}", err=True)
        verdict = error.verdict
    return OF_VERDICT[verdict]


_RESOLVE_SECONDS = 60.0  # at least: who asks for a lock file or for wheels waits for them


_NOT_OF_A_DRIVER = (
    *("python", "glibc", "installer", "env", "lock", "download", "torch_index", "upgrade"),
    *("requirement_files", "constraint_files", "extras", "groups"),
)


def _check_for_driver(asked: dict[str, Any]) -> None:
    given = [name for name in _NOT_OF_A_DRIVER if asked[name]]
    if given:
        option = f"--{given[0].partition('_')[0].rstrip('s').replace('torch', 'torch-index')}"
        raise common.UserError(f"`plan driver` installs no packages of Python: leave out {option}.")


def _check_lock(path: str) -> None:
    from envcheck.plan.uv_project import is_lock_name

    if path and not is_lock_name(path):
        raise common.UserError(
            f"--lock {path[:80]!r}: installers read pylock.toml, or pylock.NAME.toml (PEP 751)."
        )


def _write_lock(made: api.PlanResult, path: str, seconds: float) -> None:
    text = made.lock(seconds)
    common.write_file(path, text)
    count = text.count("[[packages]]")
    install = type_here("envcheck", "install", "--lock", path)
    click.echo(f"{path}: {count} packages with hashes. {install}", err=True)


def _fill(made: api.PlanResult, folder: str, seconds: float, *, quiet: bool) -> None:
    line = common.ProgressLine(quiet=quiet)
    try:
        found = made.download(folder, seconds, lambda text: line.show(text.strip()))
    finally:
        line.close()
    held = f"{len(found.wheels)} wheels with hashes, {found.size / (1 << 20):,.0f} MiB"
    install = f"envcheck install --from {shlex.quote(folder)}"  # typed elsewhere, not as here
    click.echo(f"{folder}: {held}. On the machine: {install}", err=True)


def _plan_for_cpu(made: api.PlanResult, asked: dict[str, Any]) -> api.PlanResult | None:
    """Plan the same releases for the CPU, to write both beside each other."""
    if made.plan.goal != "gpu" or not made.plan.releases:
        return None
    files = ("requirement_files", "constraint_files", "extras", "groups")
    given = {**asked, **dict.fromkeys(files, ())}
    changed = {**given, "expect": "cpu", "verify": False, "upgrade": False}
    return api.plan(*made.cpu_requirements, **changed)


def show(
    made: api.PlanResult, printing: common.Printing, cpu: api.PlanResult | None = None
) -> None:
    """Print a plan to standard output; if a file gets it, print to stderr why there is none."""
    if printing.form == "text" and printing.quiet and made.commands:
        click.echo("\n".join(made.commands))
        return
    if printing.form == "text":
        print_document(describe_plan(made.plan, verbose=printing.verbose), color=printing.color)
        return
    text = made.render(printing.form, verbose=printing.verbose, cpu=cpu)
    click.echo(text.rstrip("\n"))
    if not made.plan.releases and printing.form in FILES and not sys.stdout.isatty():
        click.echo(text.partition("\n")[0], err=True)
