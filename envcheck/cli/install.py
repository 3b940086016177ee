"""`envcheck install`: run the plan, verify each step, and put the old environment back where one fails."""

from __future__ import annotations

import os

import click

from envcheck.cli import options
from envcheck.cli.exits import UserError
from envcheck.cli.install_output import Manner
from envcheck.cli.install_plan import Asked

_HOME = "~"
EXAMPLE = "Example: envcheck install 'tensorflow>=2.15' --env .venv --smoke"


@click.command(epilog=EXAMPLE)
@click.argument("requirements", metavar="[REQ...]", nargs=-1)
@click.option("--env", "folder", metavar="DIR", default="", help="The environment, new or there already [.venv].")
@click.option("--python", metavar="X.Y", default="", help="Make a new environment with this Python.")
@click.option("--installer", type=click.Choice(["pip", "uv", "conda"]), default=None, help="uv where it is here.")
@click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", help="What must work.")
@click.option("--dry-run", is_flag=True, help="Print the plan that would run, and touch nothing.")
@click.option("--yes", "agreed", is_flag=True, help="Do not ask.")
@click.option("--smoke", is_flag=True, help="Keep the environment only if it computes rightly, as `envcheck smoke`.")
@click.option("--system", is_flag=True, help="Run the steps that change the machine itself, too.")
@click.option("--as-root", is_flag=True, help="Install as root all the same.")
@click.option("--rollback", metavar="[ID]", is_flag=False, flag_value="last", help="Undo the last installation.")
@click.option("--resume", is_flag=True, help="After a crash: finish the installation, or put the old state back.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the result.")
@click.option("--matrix", "matrix_file", metavar="FILE", help="Plan and judge by this compatibility matrix.")
@options.verbosity
def install(
    requirements: tuple[str, ...],
    folder: str,
    python: str,
    installer: str | None,
    expect: str,
    dry_run: bool,
    agreed: bool,
    smoke: bool,
    system: bool,
    as_root: bool,
    rollback: str | None,
    resume: bool,
    form: str,
    matrix_file: str | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Install REQ into an environment, which afterwards is the new one, proven, or exactly the old one."""
    from envcheck.cli import install_back, install_session

    folder = expanded(folder)
    asked = Asked(requirements, folder, python, installer or "", expect, matrix_file)
    manner = Manner(dry_run, agreed, smoke, system, as_root, verbose, quiet, form)
    if bool(requirements) + bool(rollback) + resume != 1:
        raise UserError("give what to install, such as tensorflow, or --rollback, or --resume: one of them.")
    if rollback:
        return install_back.roll_back(folder, rollback, manner)
    return install_back.resume(folder, manner) if resume else install_session.run_session(asked, manner)


def expanded(folder: str) -> str:
    """Put somebody's home in the place of ~, as no shell does in --env=~/x."""
    found = os.path.expanduser(folder)  # noqa: PTH111 - pathlib takes a leading ./ away
    if found.startswith(_HOME):
        raise UserError(f"--env {folder[:60]!r}: whose home that is, is not known.")
    return found.rstrip(os.sep) or found
