"""`envcheck install`: run the plan, verify each step, and restore the old environment if one fails."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

import click

from envcheck import api
from envcheck.actions import EVERY_SHELL, ActivateEnvironment, action_line
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError
from envcheck.cli.exits import MachineError
from envcheck.cli.installation import (
    InstallProgress,
    OutputOptions,
    check_preflight,
    confirm,
    describe_other_installation,
    expand_home,
    find_broken_requirement,
    find_substitutes,
    find_uv_for_pip,
    format_command,
    installer_of,
    output_options,
    run_job,
    settle_earlier,
    with_reachable_indexes,
    without_own_marker,
)
from envcheck.cli.plan import show_to_run
from envcheck.cli.smoke import SmokeOptions, run_session
from envcheck.frameworks import framework_names
from envcheck.host.file_changes import FileLockedError, measure_tree, remove_tree
from envcheck.host.local import LocalHost
from envcheck.host.prerequisites import find_program, find_python
from envcheck.host.process import ignore_signals
from envcheck.install.journal import (
    MARKER,
    RESTORING,
    STARTED,
    ChangeError,
    Journal,
    Place,
    UndoError,
    changed_since,
    complete_line,
    find_undoable,
    newest,
    place_of,
    places_in,
    restore,
    resume_line,
    unsettled,
)
from envcheck.install.preflight import describe_closed_index
from envcheck.install.run import (
    AdaptError,
    Job,
    Surroundings,
    UnsettledError,
    adapt_plan,
    describe_error,
    held_place,
    step_variables,
)
from envcheck.model import (
    COMPATIBLE,
    CONDA,
    PIP,
    UNDETERMINED,
    UV,
    Absent,
    Facts,
    Plan,
    PlannedRelease,
    RequestError,
    dataclass,
    major_minor,
    replace,
)
from envcheck.model.specifiers import within
from envcheck.plan.build import build_plan, plan_alone, verdict_on
from envcheck.plan.existing_environment import InstalledFramework, OccupiedError, plan_update
from envcheck.plan.other_vendors import vendor_plan
from envcheck.plan.own_index import is_on_own_index
from envcheck.plan.passengers import is_passenger
from envcheck.plan.requests import (
    NO_PASSENGERS,
    Passenger,
    PlanOptions,
    check_description,
    check_folder,
    read_requests,
)
from envcheck.plan.resolver import Resolver
from envcheck.probes.collection import collect
from envcheck.probes.environment_choice import PythonSelection, find_project_environment
from envcheck.render.plan import Result, plan_document, render_install_json
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.described_machine import Description, planned_facts
from envcheck.smoke.session import headline_of, verdict_of


def show_plan(plan: Plan, output: OutputOptions) -> None:
    """Show a plan as text; with JSON on standard error, so that the user sees what a question is about."""
    if output.form == "text" or not (output.agreed or output.dry_run):
        show_to_run(plan, sys.stderr if output.form == "json" else sys.stdout, verbose=output.verbose)


def print_result(result: Result, output: OutputOptions, plan: Plan | None = None) -> None:
    """Print the JSON document if asked for; the text was printed as it happened."""
    if output.form == "json":
        click.echo(render_install_json(result, plan_document(plan, verdict_on(plan)) if plan else None))


@dataclass(frozen=True)
class InstallRequest:
    """What to install, and how to plan it."""

    requirements: tuple[str, ...]
    folder: str = ""
    python: str = ""
    installer: str = ""
    expect: str = "auto"
    matrix_file: str | None = None
    torch_index: str = ""  # a mirror of PyTorch's own index
    default_index: bool = False  # no build of a framework's own index
    verify: bool | Literal["wheels"] = False  # as for api.plan
    verify_timeout: float = common.SECONDS
    passengers: Mapping[str, Passenger] = NO_PASSENGERS  # what the index states of packages that the matrix lacks


@dataclass(frozen=True)
class InstallPlan:
    """The plan as it will run, and the facts of the environment that it changes (None: a new one)."""

    plan: Plan
    facts: Facts | None
    kept: tuple[InstalledFramework, ...] = ()  # frameworks of that environment that stay as they are
    is_satisfied: bool = False  # they are all that is asked for: there is nothing to do


def plan_for_here(asked: InstallRequest, place: Place, *, system: bool) -> InstallPlan:
    """Plan, and fit the plan to this machine; raises UserError if that fails, returns a blocked plan."""
    facts = _read_environment(asked, place)
    installer = asked.installer or ("conda" if facts is not None and installer_of(place.folder) == CONDA else "")
    boarded = _board(asked, facts)
    if isinstance(boarded, Plan):
        return InstallPlan(boarded, facts)
    asked = boarded
    made = _build_plan(asked, facts, installer)
    if not installer and _can_use_uv(made.plan):
        installer = UV
        made = _build_plan(asked, facts, UV)
    made = replace(made, plan=_resolve(asked, made, installer))
    plan = made.plan
    if not plan.releases or plan.blocked_by:
        return made
    without_index = _plan_without_index(asked, plan, place, system=system)
    if without_index is not None:
        return without_index
    try:
        return replace(
            made, plan=adapt_plan(plan, _read_surroundings(plan, facts, asked), system=system, typed=format_command)
        )
    except AdaptError as error:
        raise UserError(str(error)) from None


def _resolver(asked: InstallRequest, *, keeps: bool) -> Resolver:
    until = time.monotonic() + asked.verify_timeout
    finish = partial(with_reachable_indexes, mirror=asked.torch_index)
    return Resolver(os.environ, asked.verify_timeout, until, asked.verify is True, finish, keeps)


def _board(asked: InstallRequest, facts: Facts | None) -> InstallRequest | Plan:
    """Read on the index what packages require that the matrix lacks; where nothing tells, a plan says so."""
    matrix = api.load_matrix(asked.matrix_file)
    if not asked.verify or not any(is_passenger(text, matrix) for text in asked.requirements):
        return asked
    read = facts or common.live_snapshot("", "").facts
    expected = planned_facts(read, Description(python=asked.python), matrix, expects_gpu=asked.expect == "gpu")
    try:
        context = Context(expected, matrix, Target(asked.expect))
        boarded = _resolver(asked, keeps=False).board(asked.requirements, context)
    except RequestError as error:
        raise UserError(str(error)) from None
    if isinstance(boarded, Plan):
        return boarded
    changed: InstallRequest = replace(asked, requirements=boarded.texts, passengers=boarded.passengers)
    return changed


def _resolve(asked: InstallRequest, made: InstallPlan, installer: str) -> Plan:
    """Name the indexes that are reachable in a plan, and resolve it; an older release may take the place of one.

    What an environment keeps may come from elsewhere than an index: there, its plan stays as it is.
    """
    if not made.plan.releases:
        return made.plan
    if not asked.verify:
        return with_reachable_indexes(made.plan, asked.torch_index)
    resolver = _resolver(asked, keeps=made.facts is not None)
    return resolver.resolve(lambda refused: _build_plan(asked, made.facts, installer, refused).plan)


def _plan_without_index(asked: InstallRequest, plan: Plan, place: Place, *, system: bool) -> InstallPlan | None:
    """Plan with builds of the default index where a framework's own does not answer; None where that has no plan."""
    if asked.default_index or asked.torch_index:
        return None
    sets = (item for made in plan.environments for item in made.sets if item.index)
    closed = next(filter(None, (describe_closed_index(item, os.environ) for item in sets)), "")
    other = plan_for_here(replace(asked, default_index=True), place, system=system) if closed else None
    if other is None or verdict_on(other.plan) != COMPATIBLE:
        return None
    note = f"{closed[0].upper()}{closed[1:]}: these are builds of the default index; --torch-index names a mirror."
    changed: InstallPlan = replace(other, plan=replace(other.plan, notes=(*other.plan.notes, note)))
    return changed


def _read_environment(asked: InstallRequest, place: Place) -> Facts | None:
    if not place.is_taken:
        return None
    try:
        facts = common.live_snapshot("", str(place.folder)).facts
    except UserError as error:
        raise UserError(_describe_missing_python(place) or str(error)) from None
    version = facts.python.version
    if version.value is None:
        raise UserError(f"the Python of {place.folder} does not answer: name a new folder with --env.")
    abi = facts.python.abi_tag
    threads = "t" if abi.value and abi.value.endswith("t") else ""  # 3.14t: the free-threaded build
    minor = major_minor(version.value) + threads
    if asked.python and asked.python != minor:
        raise UserError(f"{place.folder} has Python {minor}, not {asked.python}: name a new folder with --env.")
    return facts


def _describe_missing_python(place: Place) -> str:
    """Describe an environment whose base Python is gone; "" for a folder that is no environment."""
    settings = ""
    with contextlib.suppress(OSError):
        settings = (place.folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    base = next((line.partition("=")[2].strip() for line in settings.splitlines() if line.startswith("home")), "")
    where = f"its base Python, {base}, is missing or unreadable" if base else "its base Python is missing"
    advice = "name a new folder with --env, or remove this one first."
    return f"the Python of {place.folder} does not start: {where}; {advice}" if settings else ""


def _build_plan(
    asked: InstallRequest, facts: Facts | None, installer: str, refused: frozenset[str] = frozenset()
) -> InstallPlan:
    said = Description(python="" if facts is not None else asked.python)
    wish = PlanOptions(asked.expect, installer, asked.folder, description=said, shells=EVERY_SHELL, refused=refused)
    try:
        check_description(said)
        check_folder(wish.folder)
        matrix = api.load_matrix(asked.matrix_file)
        matrix = matrix.without_own_indexes() if asked.default_index else matrix
        is_alone = facts is None and is_on_own_index(asked.requirements)
        requests = () if is_alone else read_requests(asked.requirements, matrix, asked.passengers)
        read = facts or common.live_snapshot("", "").facts
        expected = planned_facts(read, said, matrix, expects_gpu=asked.expect == "gpu")
        if expected.python.version.value is None:
            raise UserError("the Python to install for is unknown: name one, such as --python 3.12.")
        elsewhere = vendor_plan(expected, matrix, asked.requirements, requests, wish)
        if elsewhere is not None:
            return InstallPlan(elsewhere, facts)
        if is_alone:
            return InstallPlan(plan_alone(expected, matrix, asked.requirements, wish), None)
        if facts is None:
            return InstallPlan(build_plan(expected, matrix, requests, wish), None)
        into = plan_update(facts, matrix, requests, wish)
        return InstallPlan(into.plan or Plan("", (), ()), facts, into.unchanged, into.plan is None)
    except (RequestError, OccupiedError) as error:
        raise UserError(str(error)) from None


def _can_use_uv(plan: Plan) -> bool:
    """Tell whether uv can replace pip: it is installed, and pip's settings can be read for it."""
    only_pip = bool(plan.environments) and all(made.installer == PIP for made in plan.environments)
    return only_pip and bool(find_uv_for_pip())


def _read_surroundings(plan: Plan, facts: Facts | None, asked: InstallRequest) -> Surroundings:
    made = plan.environments[0]
    found = find_python(made.python, os.environ) if facts is None and asked.python and made.installer != CONDA else ""
    has_pip = facts is None or not isinstance(facts.python.pip_version, Absent)
    has_sudo = bool(find_program("sudo", os.environ))
    programs = find_substitutes(made.installer)
    return Surroundings(facts is not None, has_pip, programs, (found,) if found else (), has_sudo)


@dataclass(frozen=True)
class EnvironmentCheck:
    """An environment to check against its plan."""

    plan: Plan
    folder: Path
    matrix_file: str | None
    smoke: bool
    quiet: bool
    before: Facts | None = None  # of the old environment; None if there was none
    kept: tuple[InstalledFramework, ...] = ()  # frameworks that had to stay as they were


def judge_environment(wanted: EnvironmentCheck) -> str:
    """Return "" if the environment holds what was planned and works for the goal; else what is wrong."""
    with activated(wanted):
        facts = collect(LocalHost(), PythonSelection(env=str(wanted.folder))).facts
        missing = _list_missing(wanted, facts)
        if missing:
            return f"the environment does not hold {', '.join(missing)}"
        facts = without_own_marker(facts)
        context = Context(facts, api.load_matrix(wanted.matrix_file), Target(wanted.plan.goal))
        broken = find_broken_requirement(wanted.before, context)
        if broken:
            return f"it would break an installed package: {broken}"
        report = evaluate(context, frozenset())
        if report.verdict != COMPATIBLE:
            return f"the doctor finds it {report.verdict}: {report.headline.rstrip('.')}"
        return _run_smoke_test(wanted) if wanted.smoke else ""


def _list_missing(wanted: EnvironmentCheck, facts: Facts) -> list[str]:
    """List the planned and the kept releases that are not installed, whatever the installer reported."""
    found = facts.python.distributions
    installed = found.value or ()
    there = {(item.name, version) for item in installed for version in (item.version, _public(item.version))}
    planned = [item for item in wanted.plan.releases if not any(_is_planned(*held, item) for held in there)]
    lost = [item for item in wanted.kept if (item.distribution, item.version) not in there]
    return [*(item.requirement for item in planned), *(item.label for item in lost)]


def _is_planned(name: str, version: str, planned: PlannedRelease) -> bool:
    """Tell whether a distribution is a planned release; conda plans a release line, tensorflow==2.16.*."""
    wanted = planned.requirement.partition("==")[2]
    return name == planned.distribution and within(version, f"=={_public(wanted)}")


def _public(version: str) -> str:
    return version.partition("+")[0]


def _run_smoke_test(wanted: EnvironmentCheck) -> str:
    # Not their dependencies: TensorFlow 2.12 requires JAX, but no jaxlib to compute with.
    meant = {*(item.framework for item in wanted.plan.releases), *(item.framework for item in wanted.kept)}
    named = tuple(name for name in framework_names() if name in meant)
    asked = SmokeOptions(env=str(wanted.folder), frameworks=named, expect=wanted.plan.goal, quiet=wanted.quiet)
    session = run_session(asked)
    return "" if verdict_of(session) == COMPATIBLE else f"the smoke test: {headline_of(session).rstrip('.')}"


class activated:  # noqa: N801 - used as a function
    """Set the variables that the environment's activation sets, until the block ends."""

    def __init__(self, wanted: EnvironmentCheck) -> None:
        made = wanted.plan.environments[0]
        self._folders = [found for name in made.library_folders for found in sorted(map(str, wanted.folder.glob(name)))]
        self._before: Mapping[str, str] = {}

    def __enter__(self) -> None:
        self._before = dict(os.environ)
        if self._folders:
            kept = os.environ.get("LD_LIBRARY_PATH")
            os.environ["LD_LIBRARY_PATH"] = ":".join([*reversed(self._folders), *([kept] if kept else [])])

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


DEFAULT_FOLDERS = (".venv", ".conda-env")  # for pip and uv, for conda


def _default_folder(installer: str) -> str:
    """Return the venv of the project, which the doctor judges, or the folder of a new one."""
    default = DEFAULT_FOLDERS[installer == CONDA]
    found = "" if installer == CONDA or Path(default).exists() else find_project_environment(LocalHost())
    return found or default


def run_installation(asked: InstallRequest, output: OutputOptions) -> int:
    """Install, or with --dry-run print what would run; return the exit code."""
    asked = replace(asked, folder=asked.folder or _default_folder(asked.installer))
    try:
        check_folder(asked.folder)
    except RequestError as error:
        raise UserError(str(error)) from None
    place = place_of(asked.folder)
    try:
        settle_earlier(place, output)
        planned = plan_for_here(asked, place, system=output.system)
    except OSError as error:
        raise UserError(f"nothing was changed: {error.filename or place.folder}: {error.strerror}.") from None
    if planned.is_satisfied:
        return _report_unchanged(planned, place, output)
    plan, verdict = planned.plan, verdict_on(planned.plan)
    show_plan(plan, output)
    if not plan.releases or plan.blocked_by:
        print_result(Result("blocked", str(place.folder), why="there is no plan"), output, plan)
        return OF_VERDICT[verdict]
    if asked.verify is True and not plan.is_resolved:
        print_result(Result("blocked", str(place.folder), why=plan.verified), output, plan)
        return OF_VERDICT[UNDETERMINED]
    check_preflight(planned.plan, place, planned.facts, output)
    if output.dry_run:
        print_result(Result("planned", str(place.folder)), output, plan)
        return 0
    confirm(f"Install this into {asked.folder}?", output)
    return _install(planned, place, asked, output)


def _report_unchanged(planned: InstallPlan, place: Place, output: OutputOptions) -> int:
    """Report that there is nothing to do."""
    labels = " and ".join(there.label for there in planned.kept)
    if output.form == "text":
        click.echo(f"{place.folder} already holds {labels}, which works: nothing was changed.")
    print_result(Result("unchanged", str(place.folder), why=f"{labels} is already installed, and works"), output)
    return 0


def _install(planned: InstallPlan, place: Place, asked: InstallRequest, output: OutputOptions) -> int:
    plan = planned.plan
    progress = InstallProgress(len(plan.steps) + 1 + place.is_taken, verbose=output.verbose, quiet=output.quiet)
    wanted = EnvironmentCheck(
        plan, place.folder, asked.matrix_file, output.smoke, output.quiet, before=planned.facts, kept=planned.kept
    )
    marked = plan.environments[0].installer != CONDA or planned.facts is not None
    job = Job(
        plan.steps,
        plan.requirements,
        step_variables(os.environ),
        lambda: judge_environment(wanted),
        marked,
        plan.system,
    )
    done = run_job(place, job, progress)
    if done is None:
        print_result(progress.result, output, plan)
        return STEP_FAILED
    if done and plan.environments[0].library_folders:
        click.echo(format_activation_hint(plan.environments[0].installer, place), err=True)
    print_result(progress.result, output, plan)
    return 0 if done else STEP_FAILED


def format_activation_hint(installer: str, place: Place) -> str:
    """Say that programs find the CUDA libraries only in the activated environment."""
    folder = str(place.folder)
    activate = ActivateEnvironment(folder, installer)
    line = action_line(activate)
    shells = "(fish, csh and PowerShell: with their own script)"
    return f"Programs find its CUDA libraries after you activate it {shells}; in sh, bash or zsh: {line}"


_SHOWN = 3  # changed files that are named before the rest is counted


def resume_installation(folder: str, output: OutputOptions) -> int:
    """Finish or undo an interrupted installation, and report which environment is there."""
    place = _find_resumable(folder)
    if place is None:
        return _report_nothing_to_resume(folder, output)
    progress = InstallProgress(0, quiet=output.quiet)
    try:
        before = newest(place)
        was_settled = before is None or before.is_settled
        if output.dry_run and before is not None and not was_settled:
            return _report_dry_run(place, f"This would finish or undo the installation {before.identity}.", output)
        with held_place(place, progress):
            if was_settled and before is not None:
                _report_settled(
                    before, f"There is nothing to do: {place.folder} is {_describe_environment(before)}.", output
                )
            else:
                print_result(progress.result, output)
    except FileLockedError as error:
        raise UserError(describe_other_installation(place, str(error))) from None
    except UnsettledError as error:
        return _report_failure(place, str(error), output)
    except OSError as error:
        return _report_failure(place, f"nothing was changed: {describe_error(error, place)}.", output)
    return 0


def _find_resumable(folder: str) -> Place | None:
    """Return the environment to resume; None where envcheck has installed into none."""
    name = folder or DEFAULT_FOLDERS[0]
    if Path(name).is_dir() and not (place := place_of(name)).identities():
        if (place.folder / MARKER).exists():
            raise MachineError(
                f"{place.folder} is an interrupted installation ({MARKER} is in it), and its journal is gone: "
                f"type `{complete_line(place)}`."
            )
        if folder:
            return None
    return _find_place(folder) if folder or _list_places() else None


def _report_nothing_to_resume(folder: str, output: OutputOptions) -> int:
    where = str(place_of(folder).folder) if folder else "any environment in this folder"
    words = f"There is nothing to resume: envcheck has never installed into {where}."
    if output.form == "text":
        click.echo(words)
    print_result(Result("unchanged", where if folder else str(Path.cwd()), why=words), output)
    return 0


def remove_kept(folder: str, output: OutputOptions) -> int:
    """Remove the environment that is kept for --rollback."""
    place = _find_place(folder)
    try:
        kept = place.leftovers()
        if not kept or unsettled(place):
            what = "its installation is not complete: run --resume first" if kept else "no earlier environment is kept"
            raise UserError(f"nothing was changed: {what} ({place.folder}).")
        size = sum(measure_tree(str(path)) for path in kept) / (1 << 20)
        question = (
            f"Remove the environment kept from before the last installation into {place.folder} ({size:.0f} MiB)?"
        )
        if output.dry_run:
            return _report_dry_run(place, question, output)
        confirm(f"{question} --rollback cannot restore it afterwards.", output)
        with held_place(place, InstallProgress(0, quiet=output.quiet)):
            for path in place.leftovers():
                remove_tree(path)
    except FileLockedError as error:
        raise UserError(describe_other_installation(place, str(error))) from None
    except (UnsettledError, OSError) as error:
        why = describe_error(error, place) if isinstance(error, OSError) else str(error)
        return _report_failure(place, f"not removed: {why}", output)
    words = f"Removed: {size:.0f} MiB are free again. {place.folder} is unchanged."
    if output.form == "text":
        click.echo(words)
    print_result(Result("unchanged", str(place.folder), why=words), output)
    return 0


def roll_back(folder: str, identity: str, output: OutputOptions) -> int:
    """Restore the environment as it was before an installation."""
    place = _find_place(folder)
    try:
        journal = find_undoable(place, identity)
        lost = _list_lost_changes(journal)
        if output.dry_run:
            return _report_dry_run(place, _ask_to_undo(journal) + lost, output)
        if output.agreed and lost:
            click.echo(f"envcheck:{lost}", err=True)
        confirm(_ask_to_undo(journal) + lost, output)
        with held_place(place, InstallProgress(0, quiet=output.quiet)), ignore_signals():
            restore(find_undoable(place, identity), "asked for")
    except UndoError as error:
        raise UserError(str(error)) from None
    except FileLockedError as error:
        raise UserError(describe_other_installation(place, str(error))) from None
    except (ChangeError, UnsettledError, OSError) as error:
        refused = describe_error(error, place) if isinstance(error, OSError) else str(error).rstrip(".")
        return _report_failure(place, f"not restored: {refused}. Fix that, then run: {resume_line(place)}", output)
    _report_settled(journal, f"{place.folder} is {_describe_environment(journal)}.", output)
    return 0


def _ask_to_undo(journal: Journal) -> str:
    folder = journal.place.folder
    if journal.last(STARTED)["existed"]:
        return f"Restore {folder} as it was before {journal.identity}?"
    return f"Remove {folder}, which did not exist before {journal.identity}?"


def _list_lost_changes(journal: Journal) -> str:
    """Name the files that were changed since; "" if there are none."""
    changed = changed_since(journal)
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f" This discards what was changed since: {', '.join(changed[:_SHOWN])}{more}." if changed else ""


def _report_dry_run(place: Place, what: str, output: OutputOptions) -> int:
    """Report what would be done."""
    if output.form == "text":
        click.echo(f"{what} Nothing was changed: --dry-run.")
    print_result(Result("planned", str(place.folder), why=what), output)
    return 0


def _report_settled(journal: Journal, words: str, output: OutputOptions) -> None:
    """Print a sentence, or the document that says the same."""
    if output.form == "text":
        click.echo(words)
        return
    place, outcome = journal.place, "installed" if journal.is_installed else "restored"
    why = "" if journal.is_installed else str(journal.last(RESTORING).get("why", ""))
    print_result(Result(outcome, str(place.folder), journal.identity, why, str(place.log(journal.identity))), output)


def _report_failure(place: Place, why: str, output: OutputOptions) -> int:
    click.echo(f"envcheck: {why}", err=True)
    print_result(Result("unsettled", str(place.folder), why=why), output)
    return STEP_FAILED


def _describe_environment(journal: Journal) -> str:
    if journal.is_installed:
        return "the new environment"
    return "the old environment, as it was before" if journal.place.folder.is_dir() else "not there, as before"


def _find_place(folder: str) -> Place:
    try:
        return _choose_place(folder)
    except OSError as error:
        raise UserError(f"nothing was changed: {error.filename or folder}: {error.strerror}.") from None


def _choose_place(folder: str) -> Place:
    """Return the named folder, or the only one here that envcheck has installed into."""
    if folder:
        place = place_of(folder)
        if not place.identities():
            raise UserError(f"envcheck has never installed into {place.folder}.")
        return place
    found = _list_places()
    if len(found) != 1:
        names = ", ".join(str(place.folder) for place in found) or "no environment"
        raise UserError(f"name the environment with --env: envcheck has installed into {names} in this folder.")
    return found[0]


def _list_places() -> tuple[Place, ...]:
    """List the environments of this folder that envcheck has installed into."""
    usual = (place_of(name) for name in DEFAULT_FOLDERS)  # if one is a link, its journals lie beside its target
    return tuple(dict.fromkeys([*places_in(Path()), *(place for place in usual if place.identities())]))


EXAMPLE = "Example: envcheck install 'tensorflow>=2.15' --env .venv --smoke"


@click.command(epilog=EXAMPLE)
@click.argument("requirements", metavar="[REQ...]", nargs=-1, shell_complete=common.complete_names)
@common.with_requirements
@click.option("--env", "folder", metavar="DIR", default="", help="The environment, new or existing [.venv].")
@click.option("--python", metavar="X.Y", default="", help="Create a new environment with this Python.")
@click.option(
    "--installer",
    type=click.Choice(["pip", "uv", "conda"]),
    default=None,
    help="Installer to use [uv if it is installed].",
)
@common.expectation()
@output_options("Print the plan that would run, and change nothing.")
@click.option("--smoke", is_flag=True, help="Keep the environment only if it passes `envcheck smoke`.")
@click.option("--system", is_flag=True, help="Also run the steps that change the machine itself.")
@click.option("--rollback", metavar="[ID]", is_flag=False, flag_value="last", help="Undo the last installation.")
@click.option("--resume", is_flag=True, help="After a crash: finish, or restore the old environment.")
@click.option("--remove-kept", "removes_kept", is_flag=True, help="Remove the copy that --rollback restores.")
@click.option("--matrix", "matrix_file", metavar="FILE", help="Plan and judge by this compatibility matrix.")
@common.torch_index
@common.verification
def install(
    requirements: tuple[str, ...],
    folder: str,
    python: str,
    installer: str | None,
    expect: str,
    output: OutputOptions,
    smoke: bool,
    system: bool,
    rollback: str | None,
    resume: bool,
    removes_kept: bool,
    matrix_file: str | None,
    torch_index: str,
    verify: bool | Literal["wheels"],
    verify_timeout: float,
) -> int:
    """Install REQ into an environment and verify it; if anything fails, restore the old environment."""
    folder = expand_home(folder)
    asked = InstallRequest(
        requirements,
        folder,
        python,
        installer or "",
        expect,
        matrix_file,
        torch_index,
        verify=verify,
        verify_timeout=verify_timeout,
    )
    output = replace(output, smoke=smoke, system=system)
    if bool(requirements) + bool(rollback) + resume + removes_kept != 1:
        raise UserError(
            "name what to install, such as tensorflow, or use --rollback, --resume or --remove-kept: one of them."
        )
    if removes_kept:
        return remove_kept(folder, output)
    if rollback:
        return roll_back(folder, rollback, output)
    return resume_installation(folder, output) if resume else run_installation(asked, output)
