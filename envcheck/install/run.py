"""Install into an environment: fit the plan to this machine, run its steps, judge the result, and keep or restore."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from envcheck.actions import AddPip, AskPerson, CreateEnvironment, action_line
from envcheck.host.file_changes import lock_file
from envcheck.host.guard import Guard
from envcheck.host.interruption import allow_interrupts
from envcheck.host.pip_settings import (
    UV_MISLEADING,
    SettingsError,
    read_uv_bounds,
    uv_variables,
    without_options,
)
from envcheck.host.process import (
    ProgramEnd,
    StillRunningError,
    hold_signals,
    ignore_signals,
    kill_running_programs,
    run_lines,
)
from envcheck.install.journal import (
    DONE_STEP,
    NEW,
    STEP,
    VERIFYING,
    BrokenJournalError,
    ChangeError,
    Journal,
    Place,
    begin,
    commit,
    new_identity,
    put_in_place,
    resume_line,
    settle,
    unsettled,
    warn_on_activation,
)
from envcheck.model import CONDA, PIP, SYSTEM, Environment, Plan, Step, dataclass, hide_url_secrets, replace
from envcheck.plan.steps import interpreter


def needs_person(step: Step) -> bool:
    """Tell whether only a person can take a step: by hand, in their shell, under their own name."""
    return step.action.by_person or step.action.in_shell


@dataclass(frozen=True)
class SystemChange:
    """A step that an installation took on the machine, or began; it is not undone automatically."""

    id: str
    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()
    lasting: str = ""  # why there is no undo


def _undo_entry(step: Step, system: str, *, was_there: bool) -> dict[str, Any]:
    """Say for the journal how a step of the machine is taken back; what was there before is left alone."""
    if was_there:
        return {"undo": [], "lasting": "it was there before, so it stays"}
    undo = step.action.undo(system)
    return {"undo": list(undo.argv), "lasting": undo.reason}


def system_changes(journal: Journal) -> tuple[SystemChange, ...]:
    """List the steps an installation took on the machine, newest first: the order to take them back in."""
    found = [line for line in journal.lines() if line["event"] == STEP and "undo" in line]
    return tuple(
        SystemChange(line["id"], tuple(line["argv"]), tuple(line["undo"]), line["lasting"]) for line in reversed(found)
    )


def stop_at_restart(steps: Sequence[Step], system: str) -> tuple[Step, ...]:
    """Return the steps; where one restarts the machine, those of the machine before it, and what to do then."""
    for place, step in enumerate(steps):
        if step.scope == SYSTEM and step.action.ends_session:
            told = f"Restart the machine ({action_line(step.action, system)}), then type the same command again."
            first = tuple(each for each in steps[:place] if each.scope == SYSTEM)
            return (*first, Step("restart", AskPerson(told, SYSTEM)))
    return tuple(steps)


Typed = Callable[[tuple[str, ...]], str]  # how a command is written for who has to type it


@dataclass(frozen=True)
class Surroundings:
    """What the plan meets: the environment, and the programs its commands start."""

    exists: bool = False  # the environment is there: it is not made again
    has_pip: bool = True  # in that environment
    programs: tuple[tuple[str, str], ...] = ()  # name in the plan -> what to type here: conda -> micromamba
    python: tuple[str, ...] = ()  # starts the Python a new environment is made with; () as planned
    has_sudo: bool = True  # without it this is root in a container, who needs none


class AdaptError(ValueError):
    """One installation cannot carry out this plan; the message says what to type instead."""


def adapt_plan(plan: Plan, here: Surroundings, *, system: bool, typed: Typed) -> Plan:
    """Return the plan as it will run; AdaptError where it makes no environment or two, or needs an administrator."""
    made = _only_environment(plan, typed)
    by_hand = [step for step in plan.steps if needs_person(step) or (step.scope == SYSTEM and not system)]
    if by_hand:
        raise AdaptError(_describe_manual_steps(by_hand, plan.system, system=system))
    steps = [step for each in stop_at_restart(plan.steps, plan.system) for step in _fit_step(each, made, here)]
    if here.exists and not here.has_pip and made.installer == PIP:
        bring = AddPip(interpreter(made), "Bring pip into the environment.")
        steps = [Step("bring-pip", bring, environment=made.folder), *steps]
    fitted: Plan = replace(plan, steps=tuple(_with_local_programs(step, here) for step in steps))
    return fitted


def _only_environment(plan: Plan, typed: Typed) -> Environment:
    if len(plan.environments) != 1:
        each = " and ".join(f"`{typed(('envcheck', 'install', item))}`" for item in plan.requirements)
        raise AdaptError(f"these frameworks need two environments: {each}, each with an --env of its own.")
    return plan.environments[0]


def _describe_manual_steps(steps: list[Step], shells: str, *, system: bool) -> str:
    lines = ((step.purpose.rstrip("."), action_line(step.action, shells)) for step in steps)
    told = "; ".join(what + (f": `{line}`" if line else "") for what, line in lines)
    could = "" if system or any(map(needs_person, steps)) else ", or add --system to have it done"
    who = " as an administrator" if any(step.scope == SYSTEM for step in steps) else ""
    hint = f"Do that{who}{could}; --expect cpu plans without a GPU."
    return f"the machine itself needs something first: {told}. {hint}"


def _fit_step(step: Step, made: Environment, here: Surroundings) -> tuple[Step, ...]:
    action = step.action
    if step.scope == SYSTEM:
        return (replace(step, action=action.unattended()),)
    if not isinstance(action, CreateEnvironment):
        return (step,)
    if not here.exists:
        # A plan writes the home folder as ~, which only a shell expands.
        starter = here.python or tuple(map(os.path.expanduser, action.starter))
        return (replace(step, action=replace(action, starter=starter)),)
    if made.installer != CONDA:
        return ()
    return (replace(step, action=action.into_existing("Bring conda's packages into the environment.")),)


def _with_local_programs(step: Step, here: Surroundings) -> Step:
    action = step.action.with_programs(dict(here.programs))
    changed: Step = replace(step, action=action if here.has_sudo else action.without_sudo())
    return changed


# Options of pip that put packages elsewhere, install something else, or install nothing.
_MISLEADING_OPTIONS = (
    "target",
    "prefix",
    "root",
    "user",
    "python",
    "dry-run",
    "ignore-installed",
    "no-deps",
    "requirement",
    "editable",
    "report",
    "global-option",
    "install-option",
    "platform",
    "python-version",
    "implementation",
    "abi",
)
_MISLEADING = (  # the last ones make another Python's packages seem to be there
    *(f"PIP_{name.upper().replace('-', '_')}" for name in _MISLEADING_OPTIONS),
    *UV_MISLEADING,
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
)
_QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ISOLATED": "1",  # from distutils' files alone: its variables and files are read all the same
    "PIP_NO_INPUT": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
}


def step_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the steps; variables of uv that are set stay."""
    kept = {name: value for name, value in environment.items() if name not in _MISLEADING}
    try:
        told = {**uv_variables(environment, Path()), "UV_NO_CONFIG": "1"}
    except SettingsError:  # a broken file, or files cannot be read here: the installer says so itself
        told = {}
    return {**_mamba_variables(environment), **told, **kept, **_QUIET}


def can_replace_pip(environment: Mapping[str, str]) -> bool:
    """Tell whether the configuration of pip and of uv can be read and passed on to uv."""
    try:
        uv_variables(environment, Path())
    except SettingsError:
        return False
    return True


def _write_pip_file(place: Place, environment: Mapping[str, str]) -> dict[str, str]:
    """Write what keeps pip's files from leading it elsewhere; return the variable that names it.

    pip reads it after all others, and an option without a value there has none.
    """
    named, path = environment.get("PIP_CONFIG_FILE", ""), place.state / "pip.conf"
    if named == os.devnull:  # pip reads no file at all
        return {}
    try:
        text = Path(named).read_text(encoding="utf-8") if named else ""
        path.write_text(without_options(text, _MISLEADING_OPTIONS), encoding="utf-8")
    except (SettingsError, UnicodeDecodeError, FileNotFoundError):  # pip says so itself
        return {}
    return {"PIP_CONFIG_FILE": str(path)}


def _write_uv_files(place: Place, environment: Mapping[str, str]) -> dict[str, str]:
    """Write the bounds of uv's files, which it is not to read, to files of their own; return what names them."""
    found: dict[str, str] = {}
    with contextlib.suppress(SettingsError):
        for name, text in read_uv_bounds(os.environ, Path()).items():
            path = place.state / f"{name.lower()}.txt"
            path.write_text(text, encoding="utf-8")
            found[name] = f"{environment.get(name, '')} {path}".strip()
    return found


def _mamba_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Hand over where channels lie, which mamba and micromamba read under a name of their own."""
    alias = environment.get("CONDA_CHANNEL_ALIAS", "")
    return {"MAMBA_CHANNEL_ALIAS": alias} if alias else {}


PATIENCE = 1.5  # seconds for a guard that is just putting things back
SECONDS = 7200.0  # for a step; a GPU build is gigabytes over a slow line
_END_PATIENCE = 30.0  # seconds until a killed step is gone: until then it may write into the environment
_VERIFY = 900.0  # seconds to see that a step worked: a first import compiles and reads gigabytes


Runner = Callable[[tuple[str, ...], float, Step], ProgramEnd]  # command, seconds, its step


class StepError(Exception):
    """A step failed, or what it was to bring about is not there."""


class UnsettledError(Exception):
    """An environment could be neither finished nor restored; the message says where it lies and what to type."""


class Watch(Protocol):
    """Follows the progress of an installation."""

    def begins(self, what: str) -> None:
        """Hear that something begins."""

    def hears(self, line: str) -> None:
        """Hear a line that a step printed."""

    def settled(self, journal: Journal, environment: str, why: str) -> None:
        """Hear that an installation came to its end: which environment is there, NEW or OLD, and why the old one."""


@dataclass(frozen=True)
class Job:
    """What to install: the steps in their order, and who judges the environment they make ("": it is as it must be)."""

    steps: tuple[Step, ...]
    requirements: tuple[str, ...]
    environment: dict[str, str]  # variables of every step
    judge: Callable[[], str]
    marked: bool = True  # False: the installer makes the folder itself
    system: str = ""  # linux, windows, darwin: on which the commands run


def execute(place: Place, job: Job, watch: Watch) -> bool:
    """Run a job; return whether the environment is the new one. Raises HeldError, and OSError before anything begins.

    However this ends, `watch` has heard which environment is there, or UnsettledError says that nobody can tell; where
    this process is killed, its guard settles. A signal ends only what takes long: copies, programs, the judgement.
    """
    with hold_signals(), held_place(place, watch) as descriptor:
        journal = Journal(place, new_identity(place, os.getpid()))
        with _guarded(journal, descriptor) as guard:
            begin(journal, job.requirements)
            return _attempt(journal, job, watch, guard)


@contextlib.contextmanager
def held_place(place: Place, watch: Watch) -> Iterator[int]:
    """Hold an environment against other installations, and settle those that did not come to their end."""
    place.state.mkdir(exist_ok=True)
    (place.state / ".gitignore").write_text("*\n", encoding="utf-8")
    with lock_file(str(place.lock), PATIENCE) as descriptor:
        for journal in unsettled(place):
            _settled(journal, "it was interrupted", watch)
        yield descriptor


@contextlib.contextmanager
def _guarded(journal: Journal, descriptor: int) -> Iterator[Guard]:
    guard = Guard("envcheck.install.guard", (str(journal.place.folder), journal.identity), (descriptor,))
    try:
        yield guard
    finally:
        guard.finish(all_is_well=journal.is_settled)


def _attempt(journal: Journal, job: Job, watch: Watch, guard: Guard) -> bool:
    try:
        why = _run_job(journal, job, watch, guard)
    except StillRunningError as error:
        raise UnsettledError(_describe_unsettled(journal, "interrupted", str(error))) from None
    except BaseException:  # KeyboardInterrupt too
        kill_running_programs()  # of the judgement
        _settled(journal, "interrupted", watch)
        raise
    return _settled(journal, why, watch) == NEW


def _run_job(journal: Journal, job: Job, watch: Watch, guard: Guard) -> str:
    """Run the steps and let the result count; return why it does not, or ""."""
    try:
        _run_steps(journal, job, watch, guard)
    except (StepError, ChangeError) as error:
        return str(error)
    except OSError as error:
        return describe_error(error, journal.place)
    return ""


def _settled(journal: Journal, why: str, watch: Watch) -> str:
    """Finish or restore, and tell. Raises UnsettledError where neither can be done."""
    with ignore_signals():
        try:
            environment = settle(journal, why)
        except BrokenJournalError as error:
            raise UnsettledError(str(error)) from None
        except (ChangeError, OSError) as error:
            raise UnsettledError(_describe_unsettled(journal, why, _describe_refusal(journal.place, error))) from None
        watch.settled(journal, environment, why)
    return environment


def describe_error(error: OSError, place: Place) -> str:
    """Say in words what the system refused; of a full disk, what could not be written."""
    named = error.filename2 if error.errno == errno.ENOSPC and error.filename2 else error.filename
    return f"{named or place.folder}: {error.strerror or error}"


def _describe_refusal(place: Place, error: ChangeError | OSError) -> str:
    return describe_error(error, place) if isinstance(error, OSError) else str(error).rstrip(".")


def _describe_unsettled(journal: Journal, why: str, refused: str) -> str:
    place = journal.place
    return (
        f"{why}; {place.folder} could not be restored: {refused}. The old environment lies there or in "
        f"{place.state}; run `{resume_line(place)}` before you use it."
    )


def _run_steps(journal: Journal, job: Job, watch: Watch, guard: Guard) -> None:
    machine = [step for step in job.steps if step.scope == SYSTEM]
    own = [step for step in job.steps if step.scope != SYSTEM]
    written = {**_write_pip_file(journal.place, job.environment), **_write_uv_files(journal.place, job.environment)}
    environment = {**job.environment, **written}
    with _open_log(journal, watch) as heard:

        def run(argv: tuple[str, ...], seconds: float, step: Step) -> ProgramEnd:
            variables = {**environment, **step.action.variables()}
            ended = run_lines(
                argv, variables, heard, seconds=seconds, before_exec=guard.report_start, patience=_END_PATIENCE
            )
            guard.report_end()
            return ended

        for step in machine:
            if isinstance(step.action, AskPerson):
                raise StepError(step.purpose.rstrip("."))  # what only a person can do: a restart
            _run_step(journal, step, run, watch, job.system)
        if journal.place.is_taken:
            watch.begins("Copy the environment.")
        put_in_place(journal, marked=job.marked)
        for step in own:
            _run_step(journal, step, run, watch, job.system)
            if job.marked:
                warn_on_activation(journal.place.folder)  # the step that makes an environment writes its scripts
    journal.write(VERIFYING)
    watch.begins("Judge the environment.")
    with allow_interrupts():
        problem = job.judge()
    if problem:
        raise StepError(problem)
    commit(journal)


@contextlib.contextmanager
def _open_log(journal: Journal, watch: Watch) -> Iterator[Callable[[str], None]]:
    with journal.place.log(journal.identity).open("w", encoding="utf-8") as log:

        def heard(line: str) -> None:
            with contextlib.suppress(OSError):  # a full disk: the step itself will say so
                log.write(hide_url_secrets(line) + "\n")
                log.flush()
            watch.hears(line)

        yield heard


def _run_step(journal: Journal, step: Step, run: Runner, watch: Watch, system: str) -> None:
    """Take one step and see that it worked."""
    command, checked = step.action.command(system), step.checked(system).argv
    check = checked if checked != command else ()
    of_machine = {}
    if step.scope == SYSTEM:
        was_there = bool(check) and run(check, _VERIFY, step).code == 0
        of_machine = _undo_entry(step, system, was_there=was_there)
    journal.write(STEP, id=step.id, argv=[hide_url_secrets(word) for word in command], **of_machine)
    watch.begins(step.purpose)
    for argv, seconds, what in ((command, SECONDS, "failed"), (check, _VERIFY, "did not have its effect")):
        if argv and (ended := run(argv, seconds, step)).code != 0:
            raise StepError(f"the step {step.id} {what}: {_describe_end(ended)}")
    journal.write(DONE_STEP, id=step.id)


def _describe_end(ended: ProgramEnd) -> str:
    if ended.code is None:
        return ended.detail
    return f"ended by signal {-ended.code}" if ended.code < 0 else f"exit status {ended.code}"
