"""`envcheck install`: run the plan, verify each step, and restore the old environment if one fails."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from envcheck.actions import ActivateEnvironment
from envcheck.actions.activation import EVERY_SHELL
from envcheck.actions.shells import action_line
from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, STEP_FAILED, UserError
from envcheck.cli.options import typed_here
from envcheck.host.file_changes import FileLockedError
from envcheck.host.process import ignore_signals
from envcheck.install.change import NEW, ChangeError, UndoError, changed_since, newest, restore, undoable
from envcheck.install.journal import BEGUN, RESTORING, Journal, Place, place_of, places_in, resume_line
from envcheck.install.run import UnsettledError, held_place, words_of
from envcheck.install.steps import AdaptError, Here, Taken, adapted, taken
from envcheck.matrix.specifiers import within
from envcheck.model import COMPATIBLE, Absent, Facts, Known, dataclass, major_minor, replace
from envcheck.model.actions import CONDA, PIP, UV
from envcheck.model.plans import Plan, PlannedRelease
from envcheck.model.text import inert
from envcheck.plan.existing_environment import Standing
from envcheck.plan.requests import Description, Wish
from envcheck.render.plan_files import Result, render_install_json
from envcheck.rules import Context


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
    from envcheck.cli.plan import show_what_runs

    if manner.form == "text" or not (manner.agreed or manner.dry_run):
        show_what_runs(plan, sys.stderr if manner.form == "json" else sys.stdout, verbose=manner.verbose)


def tell(result: Result, manner: Manner, plan: Plan | None = None) -> None:
    """Print the JSON document, where that is asked for: the text was told while it happened."""
    if manner.form == "json":
        from envcheck.cli.plan import verdict_on
        from envcheck.render.plan_files import plan_document

        click.echo(render_install_json(result, plan_document(plan, verdict_on(plan)) if plan else None))


_SHELLS = "windows" if os.name == "nt" else ""
_WIDTH = 100  # characters of a step's last line
_TAIL = 15  # lines of a failed step


class InstallProgress:
    """Number what begins; show a step's last line where somebody watches, all of them when verbose."""

    def __init__(self, total: int, *, verbose: bool = False, quiet: bool = False) -> None:
        self._total, self._verbose, self._quiet = total, verbose, quiet
        self._number, self._since = 0, time.monotonic()
        self._watched = sys.stderr.isatty() and not verbose and not quiet
        self._tail: list[str] = []
        self.result = Result("restored", "")

    def begins(self, what: str) -> None:
        """Say that something begins, and how long what was before took."""
        self._number += 1
        self._tail = []
        self._clear()
        if not self._quiet:
            self._say(f"[{self._number}/{max(self._total, self._number)}] {what} ({self._elapsed()})")

    def hears(self, line: str) -> None:
        """Show a line, or keep it for the case that the step fails."""
        self._tail = [*self._tail[-_TAIL:], line]
        if self._verbose:
            self._say(f"    {line}")
        elif self._watched and line.strip():
            self._clear()
            self._write(f"    {inert(line.strip())[:_WIDTH]}")

    def settled(self, journal: Journal, environment: str, why: str) -> None:
        """Say which environment is there now, and how to go back or what to look at."""
        self._clear()
        place, existed = journal.place, journal.last(BEGUN)["existed"]
        outcome = "installed" if environment == NEW else "restored"
        log = str(place.log(journal.identity))
        self.result = Result(outcome, str(place.folder), journal.identity, "" if environment == NEW else why, log)
        if environment == NEW:
            kept = "the one before" if existed else "none"
            back = typed_here(("envcheck", "install", "--rollback", "--env", str(place.folder)))
            self._say(f"{place.folder} is the new environment. Back to {kept}: {back}")
            self._say(f"To use it, in each shell: {action_line(_activation(place.folder), _SHELLS)}")
            return
        if not self._verbose:
            for line in self._tail:
                self._say(f"    {line}")
        old = "the old environment, as it was before" if existed else "not there, as before"
        self._say(f"Not installed: {why}. {place.folder} is {old}. What the steps printed: {log}")
        self._machine(taken(journal))

    def _machine(self, steps: tuple[Taken, ...]) -> None:
        """Say what was done to the machine, and how to take it back: that is never done by itself."""
        self.result = replace(self.result, machine=steps)
        if steps:
            self._say("Done to this machine, newest first; none of it is taken back by itself:")
        for step in steps:
            self._say(f"  {typed_here(step.argv)}" + (f"  ({step.lasting})" if step.lasting else ""))
            if step.undo:
                self._say(f"    undo: {typed_here(step.undo)}")

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._since:.0f} s"

    def _clear(self) -> None:
        if self._watched:
            self._write("\r\x1b[K")

    def _say(self, line: str) -> None:
        self._write(inert(line) + "\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that was closed ends no installation
            sys.stderr.write(text)
            sys.stderr.flush()


def _activation(folder: Path) -> ActivateEnvironment:
    return ActivateEnvironment(str(folder), CONDA if (folder / "conda-meta").is_dir() else PIP)


@dataclass(frozen=True)
class Asked:
    """What is to be installed, and how the plan is to be."""

    requirements: tuple[str, ...]
    folder: str = ""
    python: str = ""
    installer: str = ""
    expect: str = "auto"
    matrix_file: str | None = None


@dataclass(frozen=True)
class Planned:
    """The plan as it will run, and the facts of the environment it changes (None: a new one)."""

    plan: Plan
    facts: Facts | None
    kept: tuple[Standing, ...] = ()  # frameworks of that environment which stay as they are
    is_there: bool = False  # they are all that is asked for: nothing is to be done


def plan_to_run(asked: Asked, place: Place, *, system: bool) -> Planned:
    """Plan, and fit the plan to what is here; what cannot be is the user's error, a blocked plan is returned."""
    facts = _environment_facts(asked, place)
    installer = asked.installer or ("conda" if facts is not None and _is_conda(place) else "")
    made = _made(asked, facts, installer)
    if not installer and _can_uv(made.plan):
        made = _made(asked, facts, UV)
    plan = made.plan
    if not plan.releases or plan.blocked_by:
        return made
    try:
        return replace(made, plan=adapted(plan, _here(plan, facts, asked), system=system, typed=typed_here))
    except AdaptError as error:
        raise UserError(str(error)) from None


def _environment_facts(asked: Asked, place: Place) -> Facts | None:
    if not place.is_taken:
        return None
    try:
        facts = inspect.live_snapshot("", str(place.folder)).facts
    except UserError as error:
        raise UserError(_without_python(place) or str(error)) from None
    version = facts.python.version
    if not isinstance(version, Known):
        raise UserError(f"the Python of {place.folder} does not answer: give a new folder with --env.")
    abi = facts.python.abi_tag
    threads = "t" if isinstance(abi, Known) and abi.value.endswith("t") else ""  # 3.14t: the free-threaded build
    minor = major_minor(version.value) + threads
    if asked.python and asked.python != minor:
        raise UserError(f"{place.folder} has Python {minor}, not {asked.python}: give a new folder with --env.")
    return facts


def _without_python(place: Place) -> str:
    """Say of an environment that what it was made from is gone; "" for a folder that is none."""
    told = ""
    with contextlib.suppress(OSError):
        told = (place.folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    base = next((line.partition("=")[2].strip() for line in told.splitlines() if line.startswith("home")), "")
    where = f", {base}, is gone or not yours to read" if base else " is gone"
    again = "give a new folder with --env, or remove this one first."
    return f"the Python of {place.folder} does not start: what it was made from{where}; {again}" if told else ""


def _made(asked: Asked, facts: Facts | None, installer: str) -> Planned:
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.plan.build import build_plan
    from envcheck.plan.existing_environment import OccupiedError, plan_into
    from envcheck.plan.requests import RequestError, check_description, check_folder, planned_facts, read_requests

    said = Description(python="" if facts is not None else asked.python)
    wish = Wish(asked.expect, installer, asked.folder, described=said, shells=EVERY_SHELL)
    try:
        check_description(said)
        check_folder(wish.folder)
        matrix = load_matrix(asked.matrix_file)
        requests = read_requests(asked.requirements, matrix)
        read = facts or inspect.live_snapshot("", "").facts
        expected = planned_facts(read, said, matrix, expects_gpu=asked.expect == "gpu")
        if not isinstance(expected.python.version, Known):
            raise UserError("which Python to install for is not known: name one, such as --python 3.12.")
        if facts is None:
            return Planned(build_plan(expected, matrix, requests, wish), None)
        into = plan_into(facts, matrix, requests, wish)
        return Planned(into.plan or Plan("", (), ()), facts, into.kept, into.plan is None)
    except (MatrixError, RequestError, OccupiedError) as error:
        raise UserError(str(error)) from None


def _is_conda(place: Place) -> bool:
    return (place.folder / "conda-meta").is_dir()


def _can_uv(plan: Plan) -> bool:
    """Tell whether uv can do what pip would: it is here, and so is what reads pip's settings for it."""
    from envcheck.install.steps import can_stand_for_pip

    only_pip = bool(plan.environments) and all(made.installer == PIP for made in plan.environments)
    return only_pip and bool(_uv(os.environ)) and can_stand_for_pip(os.environ)


def _uv(environment: Mapping[str, str]) -> str:
    from envcheck.plan.verify import UnreachableError, find_uv

    try:
        return find_uv(environment)
    except UnreachableError:
        return ""


def _here(plan: Plan, facts: Facts | None, asked: Asked) -> Here:
    from envcheck.host.prerequisites import find_program, find_python

    made = plan.environments[0]
    programs: dict[str, str] = {}
    if made.installer == UV and not find_program("uv", os.environ):
        programs["uv"] = _uv(os.environ) or "uv"
    if made.installer == CONDA and not find_program("conda", os.environ):
        programs["conda"] = next((name for name in ("mamba", "micromamba") if find_program(name, os.environ)), "conda")
    found = find_python(made.python, os.environ) if facts is None and asked.python and made.installer != CONDA else ""
    has_pip = facts is None or not isinstance(facts.python.pip_version, Absent)
    has_sudo = bool(find_program("sudo", os.environ))
    return Here(facts is not None, has_pip, tuple(programs.items()), (found,) if found else (), has_sudo)


@dataclass(frozen=True)
class Judged:
    """What is judged, and how."""

    plan: Plan
    folder: Path
    matrix_file: str | None
    smoke: bool
    quiet: bool
    before: Facts | None = None  # of the environment as it was; None: there was none
    kept: tuple[Standing, ...] = ()  # frameworks in it that were to stay as they are


def judge(wanted: Judged) -> str:
    """Return "" where the environment holds what was planned and works for the goal; else what is wrong."""
    from envcheck.host.local import LocalHost
    from envcheck.matrix.load import load_matrix
    from envcheck.probes.collection import collect
    from envcheck.probes.python import PythonSelection
    from envcheck.rules import Target, evaluate

    with _activated(wanted):
        facts = collect(LocalHost(), PythonSelection(env=str(wanted.folder))).facts
        missing = _missing(wanted, facts)
        if missing:
            return f"the environment does not hold {', '.join(missing)}"
        context = Context(facts, load_matrix(wanted.matrix_file), Target(wanted.plan.goal))
        broken = _newly_broken(wanted.before, context)
        if broken:
            return f"it would break what was there: {broken}"
        report = evaluate(context, frozenset())
        if report.verdict != COMPATIBLE:
            return f"the doctor finds it {report.verdict}: {report.headline.rstrip('.')}"
        return _smoke(wanted) if wanted.smoke else ""


def _missing(wanted: Judged, facts: Facts) -> list[str]:
    """List the planned releases, and those that were to stay, that are not installed, whatever the installer said."""
    found = facts.python.distributions
    installed = found.value if isinstance(found, Known) else ()
    there = {(item.name, version) for item in installed for version in (item.version, _public(item.version))}
    planned = [item for item in wanted.plan.releases if not any(_meets(*held, item) for held in there)]
    lost = [item for item in wanted.kept if (item.distribution, item.version) not in there]
    return [*(item.requirement for item in planned), *(item.label for item in lost)]


def _meets(name: str, version: str, planned: PlannedRelease) -> bool:
    """Tell whether a distribution is a planned release: conda's are planned by their line, tensorflow==2.16.*."""
    wanted = planned.requirement.partition("==")[2]
    return name == planned.distribution and within(version, f"=={_public(wanted)}")


def _public(version: str) -> str:
    return version.partition("+")[0]


def _newly_broken(before: Facts | None, now: Context) -> str:
    """Name a requirement that was met, or not there, and is not met now; "" where there is none."""
    from envcheck.rules.dependencies import broken_pins

    if before is None:
        return ""
    was = {(item.owner.name, item.owner.version, item.name) for item in broken_pins(Context(before, now.matrix))}
    for item in broken_pins(now):
        if (item.owner.name, item.owner.version, item.name) not in was:
            found = f"{item.found.version} is there then" if item.found else "it is not there then"
            return f"{item.owner.name} {item.owner.version} requires {item.name}{item.specifier}; {found}"
    return ""


def _smoke(wanted: Judged) -> str:
    from envcheck.cli.smoke import SmokeOptions, run_session
    from envcheck.frameworks import framework_names
    from envcheck.smoke.verdict import headline_of, verdict_of

    # Not what one of them brings for itself: TensorFlow 2.12 requires JAX, and no jaxlib to compute with.
    meant = {*(item.framework for item in wanted.plan.releases), *(item.framework for item in wanted.kept)}
    named = tuple(name for name in framework_names() if name in meant)
    asked = SmokeOptions(env=str(wanted.folder), frameworks=named, expect=wanted.plan.goal, quiet=wanted.quiet)
    session = run_session(asked)
    return "" if verdict_of(session) == COMPATIBLE else f"the smoke test: {headline_of(session).rstrip('.')}"


class _activated:  # noqa: N801 - used as a function
    """Set for a while what the environment's activation sets, as the planned hook does it."""

    def __init__(self, wanted: Judged) -> None:
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


USUAL = (".venv", ".conda-env")  # where nobody names a folder


def run_session(asked: Asked, manner: Manner) -> int:
    """Install, or with --dry-run print what would run; return the exit code."""
    from envcheck.cli.plan import verdict_on
    from envcheck.plan.requests import RequestError, check_folder

    asked = replace(asked, folder=asked.folder or USUAL[asked.installer == CONDA])
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
    from envcheck.host.file_changes import FileLockedError
    from envcheck.install.change import unsettled
    from envcheck.install.run import UnsettledError, held_place

    if not unsettled(place):
        return
    if manner.dry_run:
        resume = resume_line(place)
        raise UserError(f"an installation into {place.folder} is at work, or was cut off: then `{resume}` comes first.")
    try:
        with held_place(place, InstallProgress(0, quiet=manner.quiet)):
            pass
    except FileLockedError as error:
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

    from envcheck.host.file_changes import FileLockedError
    from envcheck.install.run import Job, UnsettledError, install, words_of
    from envcheck.install.steps import step_variables

    plan = planned.plan
    progress = InstallProgress(len(plan.steps) + 1 + place.is_taken, verbose=manner.verbose, quiet=manner.quiet)
    wanted = Judged(
        plan, place.folder, asked.matrix_file, manner.smoke, manner.quiet, before=planned.facts, kept=planned.kept
    )
    marked = plan.environments[0].installer != CONDA or planned.facts is not None
    job = Job(plan.steps, plan.requirements, step_variables(os.environ), lambda: judge(wanted), marked, plan.system)
    try:
        done = install(place, job, progress)
    except FileLockedError as error:
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
    activate = ActivateEnvironment(folder, installer)
    shells = "(fish, csh and PowerShell: by the script of theirs)"
    return f"Its CUDA libraries are found once it is activated {shells}; in sh, bash or zsh: {action_line(activate)}"


def held(place: Place, process: str) -> str:
    """Say that another installation is at work."""
    who = f"another installation (process {process or '?'})"
    return f"nothing was changed: {who} is at work in {place.folder}. Wait for its end."


_SHOWN = 3  # files changed since, before the rest is counted


def resume_installation(folder: str, manner: Manner) -> int:
    """Settle what did not come to its end, and say which environment is there."""
    place = _place(folder)
    progress = InstallProgress(0, quiet=manner.quiet)
    try:
        before = newest(place)
        was_settled = before is None or before.is_settled
        if manner.dry_run and before is not None and not was_settled:
            return _planned(place, f"The installation {before.identity} would be finished or undone.", manner)
        with held_place(place, progress):
            if was_settled and before is not None:
                _tell(before, f"Nothing was left to do: {place.folder} is {_said(before)}.", manner)
            else:
                tell(progress.result, manner)
    except FileLockedError as error:
        raise UserError(held(place, str(error))) from None
    except UnsettledError as error:
        return _failed(place, str(error), manner)
    except OSError as error:
        return _failed(place, f"nothing was changed: {words_of(error, place)}.", manner)
    return 0


def roll_back(folder: str, identity: str, manner: Manner) -> int:
    """Put the environment back as it was before the last installation."""
    place = _place(folder)
    try:
        journal = undoable(place, identity)
        lost = _lost(journal)
        if manner.dry_run:
            return _planned(place, _question(journal) + lost, manner)
        if manner.agreed and lost:
            click.echo(f"envcheck:{lost}", err=True)
        agree(_question(journal) + lost, manner)
        with held_place(place, InstallProgress(0, quiet=manner.quiet)), ignore_signals():
            restore(undoable(place, identity), "asked for")
    except UndoError as error:
        raise UserError(str(error)) from None
    except FileLockedError as error:
        raise UserError(held(place, str(error))) from None
    except (ChangeError, UnsettledError, OSError) as error:
        refused = words_of(error, place) if isinstance(error, OSError) else str(error).rstrip(".")
        return _failed(place, f"not put back: {refused}. Once that is mended, --resume does it.", manner)
    _tell(journal, f"{place.folder} is {_said(journal)}.", manner)
    return 0


def _question(journal: Journal) -> str:
    folder = journal.place.folder
    if journal.last(BEGUN)["existed"]:
        return f"Put {folder} back as it was before {journal.identity}?"
    return f"Remove {folder}, which was not there before {journal.identity}?"


def _lost(journal: Journal) -> str:
    """Name what somebody put into the environment since; "" where there is nothing."""
    changed = changed_since(journal)
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f" Lost with that is what was changed since: {', '.join(changed[:_SHOWN])}{more}." if changed else ""


def _planned(place: Place, what: str, manner: Manner) -> int:
    """Say what would be done."""
    if manner.form == "text":
        click.echo(f"{what} Nothing was changed: --dry-run.")
    tell(Result("planned", str(place.folder), why=what), manner)
    return 0


def _tell(journal: Journal, words: str, manner: Manner) -> None:
    """Print words, or the document that says the same."""
    if manner.form == "text":
        click.echo(words)
        return
    place, outcome = journal.place, "installed" if journal.is_installed else "restored"
    why = "" if journal.is_installed else str(journal.last(RESTORING).get("why", ""))
    tell(Result(outcome, str(place.folder), journal.identity, why, str(place.log(journal.identity))), manner)


def _failed(place: Place, why: str, manner: Manner) -> int:
    click.echo(f"envcheck: {why}", err=True)
    tell(Result("unsettled", str(place.folder), why=why), manner)
    return STEP_FAILED


def _said(journal: Journal) -> str:
    if journal.is_installed:
        return "the new environment"
    return "the old environment, as it was before" if journal.place.folder.is_dir() else "not there, as before"


def _place(folder: str) -> Place:
    try:
        return _place_meant(folder)
    except OSError as error:
        raise UserError(f"nothing was changed: {error.filename or folder}: {error.strerror}.") from None


def _place_meant(folder: str) -> Place:
    """Return the folder named, or the only one here that was ever installed into."""
    if folder:
        place = place_of(folder)
        if not place.identities():
            raise UserError(f"nothing was ever installed into {place.folder} by envcheck install.")
        return place
    usual = (place_of(name) for name in USUAL)  # where one is a link, its journals lie beside what it leads to
    found = tuple(dict.fromkeys([*places_in(Path()), *(place for place in usual if place.identities())]))
    if len(found) != 1:
        names = ", ".join(str(place.folder) for place in found) or "none"
        raise UserError(f"name the environment with --env: envcheck has installed into {names} here.")
    return found[0]


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
    folder = expanded(folder)
    asked = Asked(requirements, folder, python, installer or "", expect, matrix_file)
    manner = Manner(dry_run, agreed, smoke, system, as_root, verbose, quiet, form)
    if bool(requirements) + bool(rollback) + resume != 1:
        raise UserError("give what to install, such as tensorflow, or --rollback, or --resume: one of them.")
    if rollback:
        return roll_back(folder, rollback, manner)
    return resume_installation(folder, manner) if resume else run_session(asked, manner)


def expanded(folder: str) -> str:
    """Put somebody's home in the place of ~, as no shell does in --env=~/x."""
    found = os.path.expanduser(folder)  # noqa: PTH111 - pathlib takes a leading ./ away
    if found.startswith(_HOME):
        raise UserError(f"--env {folder[:60]!r}: whose home that is, is not known.")
    return found.rstrip(os.sep) or found
