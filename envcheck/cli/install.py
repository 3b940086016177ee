"""`envcheck install`: show the plan, ask, and have it run as one transaction.

Resume, undo, or remove what is kept.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError, option
from envcheck.cli.installation import (
    InstallProgress,
    OutputOptions,
    activation_line,
    carry_out,
    confirm,
    driver_consents,
    expand_home,
    output_options,
    report_unsettled,
)
from envcheck.cli.smoke import SmokeProgress, run_here
from envcheck.diagnosis.doctor import Doctor
from envcheck.host.file_changes import measure_tree
from envcheck.host.local import LocalHost
from envcheck.host.paths import type_path
from envcheck.install.installation import InstallPlan, InstallRequest, plan_installation
from envcheck.install.journal import STARTED, Journal
from envcheck.install.places import DEFAULT_FOLDERS, Place, find_place, find_resumable, place_of
from envcheck.install.replacement import changed_since, find_undoable, unsettled
from envcheck.install.transaction import (
    before_any_change,
    remove_kept,
    resume,
    settle_earlier,
    undo,
)
from envcheck.matrix.query import Matrix
from envcheck.model import (
    BLOCKED,
    COMPATIBLE,
    CONDA,
    CONSENTS,
    INSTALLED,
    PLANNED,
    RESTORED,
    UNCHANGED,
    UNDETERMINED,
    UNSETTLED,
    Known,
    Outcome,
    Plan,
    Snapshot,
    Source,
    dataclass,
    replace,
)
from envcheck.model.text import shorten
from envcheck.plan.build import verdict_on
from envcheck.plan.project import ProjectLines
from envcheck.plan.requests import DRIVER, ENGINES, check_folder
from envcheck.plan.steps import without_gpu_check
from envcheck.probes.environment_choice import (
    find_project_environment,
    is_interrupted_here,
    is_trusted,
)
from envcheck.proof.smoke import SmokeRequest
from envcheck.render.plan import describe_plan, plan_document, render_install_json
from envcheck.rules.described_machine import Description, with_hardware
from envcheck.smoke.findings import headline_of, verdict_of


def _default_folder(installer: str) -> str:
    """Return the venv of the project, which the doctor judges, or the folder of a new one."""
    default = DEFAULT_FOLDERS[installer == CONDA]
    if installer == CONDA or Path(default).exists():
        found = ""
    else:
        found = find_project_environment(LocalHost())
    return found or default


@dataclass
class Installation:
    """What came of an installation: the plan (None: nothing was planned), and the exit code."""

    outcome: Outcome
    plan: Plan | None = None
    code: int = 0
    words: str = ""  # that say the outcome


def run_installation(
    asked: InstallRequest, output: OutputOptions, matrix: str | None, *, smoke: bool
) -> int:
    """Install, or with --dry-run print what would run; return the exit code."""
    made = change_environment(asked, output, matrix, smoke=smoke)
    _print_end(made.outcome, output, made.words, made.plan)
    return made.code


def change_environment(
    asked: InstallRequest,
    output: OutputOptions,
    matrix: str | None,
    *,
    smoke: bool,
    driver: str = "",
) -> Installation:
    """Plan an installation, show it, have it agreed to, and run it.

    `driver` is the release that will be there, where it is not yet.
    """
    is_named = bool(asked.folder)
    asked = replace(asked, folder=asked.folder or _default_folder(asked.installer))
    check_folder(asked.folder)
    place = place_of(asked.folder)
    doctor = api.make_doctor(asked.expect, matrix=matrix)
    if driver:
        doctor = replace(doctor, read=partial(_read_with_driver, driver, doctor.matrix))
    progress = InstallProgress(0, quiet=output.quiet)
    with before_any_change(place):
        if is_interrupted_here(LocalHost(), str(place.folder)):  # before what it left is judged
            settle_earlier(place, progress, dry_run=output.dry_run)
    if not is_named and place.is_taken and not is_trusted(LocalHost(), str(place.folder)):
        if not output.dry_run:
            raise UserError(
                f"nothing was changed: {asked.folder} was found here, and envcheck did not make it:"
                f" name it with --env {type_path(asked.folder)}."
            )
        doctor = replace(doctor, read=partial(api.read_machine, is_found=True))
    with before_any_change(place):
        settle_earlier(place, progress, dry_run=output.dry_run)
        with common.slow_programs():
            planned = plan_installation(asked, place, doctor)
    if driver:
        planned = replace(planned, plan=without_gpu_check(planned.plan))
    plan, folder = planned.plan, str(place.folder)
    if planned.is_satisfied:
        labels = " and ".join(there.label for there in planned.kept)
        words = f"{folder} already holds {labels}, which works: nothing was changed."
        outcome = Outcome(UNCHANGED, folder, why=f"{labels} is already installed, and works")
        return Installation(outcome, words=words)
    output.show_before_asking(describe_plan(plan, verbose=output.verbose, run_for_you=True))
    if not plan.releases or plan.blocked_by:
        outcome = Outcome(BLOCKED, folder, why="there is no plan")
        return Installation(outcome, plan, OF_VERDICT[verdict_on(plan)])
    if asked.verify is True and not plan.is_resolved:
        outcome = Outcome(BLOCKED, folder, why=plan.verified)
        return Installation(outcome, plan, OF_VERDICT[UNDETERMINED])
    return _install(
        planned, place, doctor, output, smoke=smoke, question=f"Install this into {asked.folder}?"
    )


def _read_with_driver(release: str, matrix: Matrix, *named: str) -> Snapshot:
    """Read this machine as it will be once a driver is installed, on which CUDA starts."""
    machine = api.read_machine(*named)
    facts = with_hardware(machine.facts, Description(driver=release), matrix)
    starts = Known(0, Source("override", "--driver", release))
    return replace(
        machine, facts=replace(facts, driver=replace(facts.driver, cuda_init_result=starts))
    )


def _install(
    planned: InstallPlan,
    place: Place,
    doctor: Doctor,
    output: OutputOptions,
    *,
    smoke: bool,
    question: str,
) -> Installation:
    tested: list[str] = []

    def run_smoke_test(folder: str, frameworks: tuple[str, ...], goal: str) -> str:
        session = run_here(
            SmokeRequest(env=folder, frameworks=frameworks, expect=goal),
            SmokeProgress(quiet=output.quiet),
        )
        if verdict_of(session) == COMPATIBLE:
            tested.append(headline_of(session))
            return ""
        return f"the smoke test: {headline_of(session).rstrip('.')}"

    transaction = planned.transaction(place, doctor, run_smoke_test if smoke else None)
    outcome = carry_out(transaction, question, output, tested=tested)
    if outcome.outcome == INSTALLED and planned.plan.environments[0].library_folders:
        click.echo(format_activation_hint(place), err=True)
    failed = outcome.outcome in (RESTORED, UNSETTLED)
    return Installation(outcome, planned.plan, STEP_FAILED if failed else 0)


def format_activation_hint(place: Place) -> str:
    """Say that programs find the CUDA libraries only in the activated environment."""
    shells = "(fish, csh and PowerShell: with their own script)"
    line = activation_line(place.folder)
    return (
        f"Programs find its CUDA libraries after you activate it {shells};"
        f" in sh, bash or zsh: {line}"
    )


def _print_end(
    outcome: Outcome, output: OutputOptions, words: str = "", plan: Plan | None = None
) -> int:
    """Print a sentence, or the document that says the same; return the exit code."""
    if not output.is_text:
        click.echo(
            render_install_json(outcome, plan_document(plan, verdict_on(plan)) if plan else None)
        )
    elif words:
        click.echo(words)
    return STEP_FAILED if outcome.outcome == UNSETTLED else 0


def _end_dry_run(place: Place, what: str, output: OutputOptions) -> int:
    return _print_end(
        Outcome(PLANNED, str(place.folder), why=what),
        output,
        f"{what} Nothing was changed: --dry-run.",
    )


def _describe(outcome: Outcome) -> str:
    """Say which environment is there after a transaction was undone or finished."""
    if outcome.outcome == INSTALLED:
        return f"{outcome.folder} is the new environment."
    is_there = Path(outcome.folder).is_dir()
    return (
        f"{outcome.folder} is"
        f" {'the old environment, as it was before' if is_there else 'not there, as before'}."
    )


def resume_installation(folder: str, output: OutputOptions) -> int:
    """Finish or undo an interrupted installation, and report which environment is there."""
    with before_any_change(place_of(folder)):
        place = find_resumable(folder)
    if place is None:
        where = "any environment in this folder"
        if folder:
            where = str(place_of(folder).folder)
        words = f"There is nothing to resume: envcheck has never installed into {where}."
        return _print_end(
            Outcome(UNCHANGED, where if folder else str(Path.cwd()), why=words), output, words
        )
    interrupted = unsettled(place)
    if interrupted and output.dry_run:
        return _end_dry_run(
            place, f"This would finish or undo the installation {interrupted[0].identity}.", output
        )
    outcome = report_unsettled(resume(place, InstallProgress(0, quiet=output.quiet)))
    return _print_end(
        outcome, output, "" if interrupted else f"There is nothing to do: {_describe(outcome)}"
    )


def forget_kept(folder: str, output: OutputOptions) -> int:
    """Remove the environment that is kept for --rollback."""
    with before_any_change(place_of(folder)):
        place = find_place(folder)
        kept = place.leftovers()
        if not kept or unsettled(place):
            what = "no earlier environment is kept"
            if kept:
                what = "its installation is not complete: run --resume first"
            raise UserError(f"nothing was changed: {what} ({place.folder}).")
        size = f"{sum(measure_tree(str(path)) for path in kept) / (1 << 20):.0f} MiB"
    question = (
        "Remove the environment kept from before the"
        f" last installation into {place.folder} ({size})?"
    )
    if output.dry_run:
        return _end_dry_run(place, question, output)
    confirm(f"{question} --rollback cannot restore it afterwards.", output)
    outcome = report_unsettled(remove_kept(place, InstallProgress(0, quiet=output.quiet)))
    words = outcome.why or f"Removed: {size} are free again. {place.folder} is unchanged."
    return _print_end(
        replace(outcome, why=words), output, words if outcome.outcome == UNCHANGED else ""
    )


def roll_back(folder: str, identity: str, output: OutputOptions) -> int:
    """Restore the environment as it was before an installation."""
    with before_any_change(place_of(folder)):
        place = find_place(folder)
        journal = find_undoable(place, identity)
        lost = _list_lost_changes(journal)
    question = _ask_to_undo(journal) + lost
    if output.dry_run:
        return _end_dry_run(place, question, output)
    if output.agreed and lost:
        click.echo(f"envcheck:{lost}", err=True)
    confirm(question, output)
    outcome = report_unsettled(undo(journal, InstallProgress(0, quiet=output.quiet)))
    return _print_end(outcome, output, _describe(outcome) if outcome.outcome == RESTORED else "")


def _ask_to_undo(journal: Journal) -> str:
    folder = journal.place.folder
    if journal.last(STARTED)["existed"]:
        return f"Restore {folder} as it was before {journal.identity}?"
    return f"Remove {folder}, which did not exist before {journal.identity}?"


_SHOWN = 3  # changed files that are named before the rest is counted


def _list_lost_changes(journal: Journal) -> str:
    """Name the files that were changed since; "" if there are none."""
    changed = changed_since(journal)
    if changed:
        return f" This discards what was changed since: {shorten(changed, _SHOWN)}."
    return ""


EXAMPLE = "Example: envcheck install 'tensorflow>=2.15' --env .venv --smoke"


@click.command(epilog=EXAMPLE)
@common.with_requirements
@common.upgrade
@option("--env DIR", "The environment, new or existing [.venv].", "folder")
@option("--python X.Y", "Create a new environment with this Python.")
@common.installer("uv if it is installed")
@common.expectation()
@output_options("Print the plan that would run, and change nothing.")
@option("--smoke", "Keep the environment only if it passes `envcheck smoke`.")
@option("--system", "Also run the steps that change the machine itself.")
@option(
    "--rollback [ID]", "Undo the last installation.", default=None, is_flag=False, flag_value="last"
)
@option("--resume", "After a crash: finish, or restore the old environment.", "resumes")
@option("--remove-kept", "Remove the copy that --rollback restores.", "removes_kept")
@option("--driver VERSION", "With driver: at least this one.")
@common.releases("With driver: one that runs this release.", "served")
@option(
    "--containers",
    "With driver: also give them the GPUs.",
    type=click.Choice(ENGINES),
    default=None,
)
@driver_consents("With driver: also")
@option("--lock FILE", "Install this pylock.toml, once judged.")
@option(
    "--from DIR", "Install what `plan --download DIR` brought, without a network.", "wheelhouse"
)
@option("--matrix FILE", "Plan and judge by this compatibility matrix.", default=None)
@common.torch_index
@common.verification
def install(
    folder: str,
    installer: str | None,
    output: OutputOptions,
    rollback: str | None,
    lock: str,
    wheelhouse: str,
    matrix: str | None,
    driver: str,
    served: tuple[str, ...],
    containers: str | None,
    consents: frozenset[str],
    *,
    smoke: bool,
    resumes: bool,
    removes_kept: bool,
    **asked: Any,
) -> int:
    """Install REQ into an environment and verify it.

    If anything fails, restore the old environment.

    `driver` is NVIDIA's driver: with --system, the steps of `plan driver` run as root, up to the
    restart. --resume goes on after it.
    """
    if asked["requirements"] == (DRIVER,):
        from envcheck.cli.install_driver import DriverOptions, install_driver

        if any((folder, lock, wheelhouse, rollback, removes_kept, smoke, asked["upgrade"])):
            raise UserError("`install driver` changes no environment: leave out options of one.")
        options = DriverOptions(
            driver, served, containers or "", asked["system"], resumes, consents, matrix
        )
        return install_driver(options, output)
    if driver or served or containers or consents:
        raise UserError(
            f"--driver, --for, --containers and --{', --'.join(CONSENTS)} go with"
            " `envcheck install driver`."
        )
    folder = expand_home(folder)
    ways = (common.names_requirements(asked), lock, wheelhouse, rollback, resumes, removes_kept)
    if sum(map(bool, ways)) != 1:
        raise UserError(
            "name what to install, such as tensorflow, or use --lock, --from, --rollback, --resume"
            " or --remove-kept: one of them."
        )
    if removes_kept:
        return forget_kept(folder, output)
    if rollback:
        return roll_back(folder, rollback, output)
    if resumes:
        return resume_installation(folder, output)
    request = _read_request(lock, wheelhouse, asked)
    request = replace(request, folder=folder, installer=installer or "")
    return run_installation(request, output, matrix, smoke=smoke)


def _read_request(lock: str, wheelhouse: str, asked: dict[str, Any]) -> InstallRequest:
    """Read what is to be installed: requirements, files, a project, a lock or a wheelhouse."""
    names = ("requirements", "requirement_files", "constraint_files", "extras", "groups")
    requirements, project = api.read_project(*(asked.pop(name) for name in names))
    if lock:
        project = api.read_lock(lock)
    if wheelhouse:
        project = api.read_wheelhouse(wheelhouse)
        asked = _for_its_machine(asked, project)
    return InstallRequest(requirements, project=project, **asked)


def _for_its_machine(asked: dict[str, Any], project: ProjectLines) -> dict[str, Any]:
    """Ask for the Python and the goal that a wheelhouse was made for, where nothing else is."""
    made = project.made_for
    if made is None:
        return asked
    goal = made.goal if asked["expect"] == "auto" else asked["expect"]
    return {**asked, "python": asked["python"] or made.python, "expect": goal}
