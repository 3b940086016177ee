"""Show the plan, ask, install, judge, and say what the environment is now."""

from __future__ import annotations

import os
import sys

import click

from envcheck.cli.exits import OF_VERDICT, STEP_FAILED, UserError
from envcheck.cli.install_output import Manner, show_plan, tell
from envcheck.cli.install_plan import Asked, Planned, plan_to_run
from envcheck.cli.install_progress import InstallProgress
from envcheck.install.place import Place, place_of, resume_line
from envcheck.model.plans import CONDA
from envcheck.model.records import replaced
from envcheck.render.inert import shell_line
from envcheck.render.install_json import Result

USUAL = (".venv", ".conda-env")  # where nobody names a folder


def run_session(asked: Asked, manner: Manner) -> int:
    """Install, or with --dry-run print what would run; return the exit code."""
    from envcheck.cli.plan import verdict_on
    from envcheck.plan.requests import RequestError, check_folder

    asked = replaced(asked, folder=asked.folder or USUAL[asked.installer == CONDA])
    try:
        check_folder(asked.folder)
    except RequestError as error:
        raise UserError(str(error)) from None
    place = place_of(asked.folder)
    try:
        _settle_before(place, manner)
        planned = plan_to_run(asked, place, system=manner.system)
    except OSError as error:
        raise UserError(f"nothing was changed: {error.filename or place.folder}: {error.strerror}.") from None
    if planned.is_there:
        return _is_there(planned, place, manner)
    plan, verdict = planned.plan, verdict_on(planned.plan)
    show_plan(plan, manner)
    if not plan.releases or plan.blocked_by:
        tell(Result("blocked", str(place.folder), why="there is no plan"), manner, plan)
        return OF_VERDICT[verdict]
    _preflight(planned, place, manner)
    if manner.dry_run:
        tell(Result("planned", str(place.folder)), manner, plan)
        return 0
    agree(f"Install this into {asked.folder}?", manner)
    return _install(planned, place, asked, manner)


def _settle_before(place: Place, manner: Manner) -> None:
    """Finish or undo what an earlier installation left, so that the plan is for what is really there."""
    from envcheck.host.file_changes import HeldError
    from envcheck.install.run import UnsettledError, held_place
    from envcheck.install.settle import unsettled

    if not unsettled(place):
        return
    if manner.dry_run:
        resume = resume_line(place)
        raise UserError(f"an installation into {place.folder} is at work, or was cut off: then `{resume}` comes first.")
    try:
        with held_place(place, InstallProgress(0, quiet=manner.quiet)):
            pass
    except HeldError as error:
        raise UserError(held(place, str(error))) from None
    except UnsettledError as error:
        raise UserError(str(error)) from None


def _is_there(planned: Planned, place: Place, manner: Manner) -> int:
    """Say that nothing is to be done."""
    labels = " and ".join(there.label for there in planned.kept)
    if manner.form == "text":
        click.echo(f"{place.folder} holds {labels} already, which works: nothing was changed.")
    tell(Result("unchanged", str(place.folder), why=f"{labels} is there already, and works"), manner)
    return 0


def agree(question: str, manner: Manner) -> None:
    """Ask, unless that was answered by --yes; UserError where nobody can answer or the answer is no."""
    if manner.agreed:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError("nothing was changed: nobody can be asked here. Add --yes to the same command to agree.")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo("\nNothing was changed.", err=True)
        raise
    if not agreed:
        raise UserError("nothing was changed.")


def _preflight(planned: Planned, place: Place, manner: Manner) -> None:
    from envcheck.install.preflight import Preflight, objections

    asked = Preflight(planned.plan, place, os.environ, planned.facts, manner.as_root)
    found = list(objections(asked))
    if found:
        raise UserError(f"nothing was changed: {' '.join(found)}")


def _install(planned: Planned, place: Place, asked: Asked, manner: Manner) -> int:
    from envcheck.cli.install_judge import Judged, judge
    from envcheck.host.file_changes import HeldError
    from envcheck.install.run import Job, UnsettledError, install, words_of
    from envcheck.install.variables import step_variables

    plan = planned.plan
    progress = InstallProgress(len(plan.steps) + 1 + place.is_taken, verbose=manner.verbose, quiet=manner.quiet)
    wanted = Judged(
        plan, place.folder, asked.matrix_file, manner.smoke, manner.quiet, before=planned.facts, kept=planned.kept
    )
    marked = plan.environments[0].installer != CONDA or planned.facts is not None
    job = Job(plan.steps, plan.requirements, step_variables(os.environ), lambda: judge(wanted), marked)
    try:
        done = install(place, job, progress)
    except HeldError as error:
        raise UserError(held(place, str(error))) from None
    except UnsettledError as error:
        click.echo(f"envcheck: {error}", err=True)
        tell(Result("unsettled", str(place.folder), why=str(error)), manner, plan)
        return STEP_FAILED
    except OSError as error:
        raise UserError(f"nothing was changed: {words_of(error, place)}.") from None
    if done and plan.environments[0].library_folders:
        click.echo(activation_hint(plan.environments[0].installer, place), err=True)
    tell(progress.result, manner, plan)
    return 0 if done else STEP_FAILED


def activation_hint(installer: str, place: Place) -> str:
    """Say that a program finds the CUDA libraries where the environment is activated, and only there."""
    folder = str(place.folder)
    argv = ("conda", "activate", folder) if installer == CONDA else (".", f"{folder}/bin/activate")
    shells = "(fish, csh and PowerShell: by the script of theirs)"
    return f"Its CUDA libraries are found once it is activated {shells}; in sh, bash or zsh: {shell_line(argv)}"


def held(place: Place, process: str) -> str:
    """Say that another installation is at work."""
    who = f"another installation (process {process or '?'})"
    return f"nothing was changed: {who} is at work in {place.folder}. Wait for its end."
