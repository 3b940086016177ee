"""What the commands that change an environment share: progress, questions, and what they read before and after."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import click

from envcheck.actions import (
    ActivateEnvironment,
    InstallPackages,
    ReinstallPackages,
    action_line,
    move_environment,
    shell_line,
)
from envcheck.cli import common
from envcheck.cli.common import ProgressLine, UserError
from envcheck.cli.exits import MachineError
from envcheck.host.file_changes import FileLockedError
from envcheck.host.prerequisites import find_program
from envcheck.host.system import list_programs_in
from envcheck.install.journal import (
    NEW,
    STARTED,
    Journal,
    Place,
    resume_line,
    unsettled,
)
from envcheck.install.preflight import Preflight, is_refused, is_root, objections
from envcheck.install.run import (
    Job,
    SystemChange,
    UnsettledError,
    can_replace_pip,
    describe_error,
    execute,
    held_place,
    system_changes,
)
from envcheck.model import (
    CONDA,
    NOT_STATED,
    PIP,
    UV,
    Facts,
    Plan,
    RequirementSet,
    dataclass,
    replace,
)
from envcheck.plan.build import use_mirror
from envcheck.plan.steps import install_purpose
from envcheck.plan.verify import UnreachableError, find_uv, is_served
from envcheck.render.plan import Result
from envcheck.rules import Context
from envcheck.rules.dependencies import broken_pins


@dataclass(frozen=True)
class OutputOptions:
    """How to install and how to report."""

    dry_run: bool = False
    agreed: bool = False
    smoke: bool = False
    system: bool = False
    as_root: bool = False
    verbose: bool = False
    quiet: bool = False
    form: str = "text"


def output_options(dry_run: str) -> Callable[[common.F], common.F]:
    """Add the options on confirmation and output, --dry-run with this help; the command takes them as `output`."""

    def add(command: common.F) -> common.F:
        @functools.wraps(command)
        def packed(
            *, dry_run: bool, agreed: bool, as_root: bool, form: str, verbose: bool, quiet: bool, **others: object
        ) -> object:
            output = OutputOptions(dry_run, agreed, as_root=as_root, verbose=verbose, quiet=quiet, form=form)
            return command(output=output, **others)

        form = common.output_format("text", "json")
        root = click.option("--as-root", is_flag=True, help="As root, change an environment of another user.")
        yes = click.option("--yes", "agreed", is_flag=True, help="Do not ask.")
        dry = click.option("--dry-run", is_flag=True, help=dry_run)
        return cast("common.F", dry(yes(root(form(common.verbosity()(packed))))))

    return add


_SYSTEM = "windows" if os.name == "nt" else ""


def format_command(argv: tuple[str, ...]) -> str:
    """Quote a command for the shells of this machine."""
    return shell_line(argv, _SYSTEM)


_TAIL = 15  # lines of a failed step


class InstallProgress:
    """Numbers the steps; shows how far they are and the last line of a step on a terminal, every line with -v."""

    def __init__(self, total: int, *, verbose: bool = False, quiet: bool = False, what: str = "installed") -> None:
        self._total, self._verbose, self._quiet, self._what = total, verbose, quiet, what
        self._number, self._since = 0, time.monotonic()
        self._line = ProgressLine(quiet=quiet or verbose)
        self._tail: list[str] = []
        self.result = Result("restored", "")

    def begins(self, what: str) -> None:
        """Report that a step begins, and the seconds so far."""
        self._number += 1
        self._tail = []
        if not self._quiet:
            self._print(f"[{self._number}/{max(self._total, self._number)}] {what} ({self._elapsed()})")
        self._show("")

    def hears(self, line: str) -> None:
        """Show a line, or keep it in case the step fails."""
        self._tail = [*self._tail[-_TAIL:], line]
        if self._verbose:
            self._print(f"    {line}")
        elif line.strip():
            self._show(line.strip())

    def _show(self, text: str) -> None:
        self._line.show(text, self._number - 1, max(self._total, self._number))

    def close(self) -> None:
        """Remove what shows how far the steps are."""
        self._line.close()

    def settled(self, journal: Journal, environment: str, why: str) -> None:
        """Report which environment is there now, and how to go back or where to look."""
        self.close()
        place, existed = journal.place, journal.last(STARTED)["existed"]
        outcome = "installed" if environment == NEW else "restored"
        log = str(place.log(journal.identity))
        self.result = Result(outcome, str(place.folder), journal.identity, "" if environment == NEW else why, log)
        if environment == NEW:
            purpose = "To go back to the one before" if existed else "To remove it"
            back = format_command(("envcheck", "install", "--rollback", "--env", str(place.folder)))
            self._print(f"{place.folder} is the new environment. {purpose}: {back}")
            self._print(f"To use it, in each shell: {action_line(_activate_action(place.folder), _SYSTEM)}")
            return
        if not self._verbose:
            for line in self._tail:
                self._print(f"    {line}")
        old = "the old environment, as it was before" if existed else "not there, as before"
        self._print(f"Not {self._what}: {why}. {place.folder} is {old}. The output of the steps: {log}")
        self._report_changes(system_changes(journal))

    def _report_changes(self, steps: tuple[SystemChange, ...]) -> None:
        """Report what was done to the machine, and how to undo it."""
        self.result = replace(self.result, machine=steps)
        if steps:
            self._print("Changes to this machine, newest first; undo them yourself if you do not want them:")
        for step in steps:
            self._print(f"  {format_command(step.argv)}" + (f"  ({step.lasting})" if step.lasting else ""))
            if step.undo:
                self._print(f"    undo: {format_command(step.undo)}")

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._since:.0f} s"

    def _print(self, line: str) -> None:
        self._line.print(line)


def _activate_action(folder: Path) -> ActivateEnvironment:
    return ActivateEnvironment(str(folder), installer_of(folder))


def installer_of(folder: Path) -> str:
    """Return the installer of an environment: conda or pip."""
    return CONDA if (folder / "conda-meta").is_dir() else PIP


def find_uv_program() -> str:
    """Return the path of uv; "" where it is not installed."""
    try:
        return find_uv(os.environ)
    except UnreachableError:
        return ""


def find_uv_for_pip() -> str:
    """Return the path of uv if it can replace pip; "" where it is not installed, or cannot follow pip's settings."""
    return find_uv_program() if can_replace_pip(os.environ) else ""


def find_substitutes(installer: str) -> tuple[tuple[str, str], ...]:
    """Return the program that replaces uv or conda where PATH lacks it: conda -> micromamba."""
    if installer == PIP or find_program(installer, os.environ):
        return ()
    others = (name for name in ("mamba", "micromamba") if find_program(name, os.environ))
    found = find_uv_program() if installer == UV else next(others, "")
    return ((installer, found),) if found else ()


def find_broken_requirement(before: Facts | None, now: Context) -> str:
    """Describe a requirement that is newly not met; "" if there is none."""
    if before is None:
        return ""
    was = {(item.owner.name, item.owner.version, item.name) for item in broken_pins(Context(before, now.matrix))}
    for item in broken_pins(now):
        if (item.owner.name, item.owner.version, item.name) not in was:
            found = f"{item.found.version} would be installed" if item.found else "it would be missing"
            return f"{item.owner.name} {item.owner.version} requires {item.name}{item.specifier}; {found}"
    return ""


def settle_earlier(place: Place, output: OutputOptions) -> bool:
    """Finish or undo an interrupted installation before planning for the environment; return whether there was one."""
    if not unsettled(place):
        return False
    if output.dry_run:
        resume = resume_line(place)
        raise UserError(
            f"an installation into {place.folder} is running or was interrupted: if interrupted, run `{resume}` first."
        )
    try:
        with held_place(place, InstallProgress(0, quiet=output.quiet)):
            pass
    except FileLockedError as error:
        raise UserError(describe_other_installation(place, str(error))) from None
    except UnsettledError as error:
        raise UserError(str(error)) from None
    return True


def confirm(question: str, output: OutputOptions) -> None:
    """Ask for confirmation unless --yes was given; raises UserError without a yes, or without a terminal to ask on."""
    if output.agreed:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError("nothing was changed: nobody can confirm, as standard input is no terminal. Add --yes.")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo("\nNothing was changed.", err=True)
        raise
    if not agreed:
        raise UserError("nothing was changed.")


def describe_other_installation(place: Place, process: str) -> str:
    """Say that another installation holds the environment."""
    who = f"another installation (process {process or '?'})"
    return f"nothing was changed: {who} is running in {place.folder}. Wait until it ends."


_HOME = "~"


def expand_home(folder: str) -> str:
    """Expand ~, which no shell does in --env=~/x."""
    found = os.path.expanduser(folder)  # noqa: PTH111 - pathlib removes a leading ./
    if found.startswith(_HOME):
        raise UserError(f"--env {folder[:60]!r}: that home folder is unknown.")
    return found.rstrip(os.sep) or found


def with_reachable_indexes(plan: Plan, mirror: str = "") -> Plan:
    """Replace a framework's own index by its mirror, or by the configured indexes where they have the same builds."""
    if mirror:
        return use_mirror(plan, mirror)
    for place, step in enumerate(plan.steps):
        action, index = step.action, str(getattr(step.action, "index", ""))
        if isinstance(action, ReinstallPackages):
            action = action.with_label()
        wanted = RequirementSet(getattr(action, "requirements", ()), kept=getattr(action, "kept", ()))
        if index and is_served(plan.environments[0], wanted, os.environ):
            if isinstance(action, InstallPackages):
                action = replace(action, purpose=install_purpose(wanted))
            steps = (*plan.steps[:place], replace(step, action=action), *plan.steps[place + 1 :])
            plan = move_environment(replace(plan, steps=steps), index, "")
    return plan


def check_preflight(
    plan: Plan, place: Place, facts: Facts | None, output: OutputOptions, *, mends: bool = False
) -> None:
    """Raise UserError with each reason not to run the steps; `facts` describe an existing environment."""
    asked = Preflight(plan, place, os.environ, facts, output.as_root, mends)
    found = list(objections(asked))
    if found:
        error = UserError if is_refused(asked) else MachineError
        raise error(f"nothing was changed: {'; '.join(text.rstrip('.') for text in found)}.")
    if is_root() and not output.dry_run:
        click.echo("envcheck: warning: you are root: packages can run any code while they are installed.", err=True)
    _warn_of_programs(place)


_SHOWN = 3  # programs that are named before the rest is counted


def _warn_of_programs(place: Place) -> None:
    """Name the programs that run from the environment: after the change they load files of the new one."""
    found = list_programs_in(str(place.folder)) if place.is_taken else ()
    if found:
        named = ", ".join(f"{name} (process {number})" for number, name in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        mixed = "they may load a mix of the old and the new environment. End them first, or restart them afterwards."
        click.echo(f"envcheck: warning: {named}{more} run from {place.folder}: {mixed}", err=True)


def run_job(place: Place, job: Job, progress: InstallProgress) -> bool | None:
    """Run a job; return whether the environment is the new one. None: it is neither, and `progress.result` says why."""
    try:
        return execute(place, job, progress)
    except FileLockedError as error:
        raise UserError(describe_other_installation(place, str(error))) from None
    except UnsettledError as error:
        click.echo(f"envcheck: {error}", err=True)
        progress.result = Result("unsettled", str(place.folder), why=str(error))
        return None
    except OSError as error:
        raise UserError(f"nothing was changed: {describe_error(error, place)}.") from None
    finally:
        progress.close()


def without_own_marker(facts: Facts) -> Facts:
    """Leave out the marker that an installation keeps in its environment until it is complete."""
    changed: Facts = replace(facts, python=replace(facts.python, install_leftovers=NOT_STATED))
    return changed
