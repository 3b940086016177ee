"""Install: put the environment in place, run the steps, judge the result, and keep it or restore the old one."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import Protocol

from envcheck.actions import AskPerson
from envcheck.host.file_changes import lock_file
from envcheck.host.guard import Guard
from envcheck.host.process import ProgramEnd, ignore_signals, interrupt_on_signal, run_lines
from envcheck.install.change import NEW, BrokenJournalError, ChangeError, begin, commit, put_in_place, settle, unsettled
from envcheck.install.journal import DONE_STEP, STEP, VERIFYING, Journal, Place, new_identity, resume_line
from envcheck.install.steps import written_down
from envcheck.model import dataclass
from envcheck.model.actions import SYSTEM, Step

PATIENCE = 1.5  # seconds for a guard that is just putting things back
SECONDS = 7200.0  # for a step; a GPU build is gigabytes over a slow line
_VERIFY = 900.0  # seconds to see that a step worked: a first import compiles and reads gigabytes


Runner = Callable[[tuple[str, ...], float, Step], ProgramEnd]  # command, seconds, its step


class StepError(Exception):
    """A step failed, or what it was to bring about is not there."""


class UnsettledError(Exception):
    """An environment could be neither finished nor put back; the message says where it lies and what to type."""


class Watch(Protocol):
    """Who is told how the installation goes."""

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


def install(place: Place, job: Job, watch: Watch) -> bool:
    """Run a job; return whether the environment is the new one. Raises HeldError, and OSError before anything begins.

    However this ends, `watch` has heard which environment is there, or UnsettledError says that nobody can tell; where
    this process is killed, its guard settles.
    """
    with interrupt_on_signal(), held_place(place, watch) as descriptor:
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
    why = "interrupted"
    try:
        _work(journal, job, watch, guard)
        why = ""
    except (StepError, ChangeError) as error:
        why = str(error)
    except OSError as error:
        why = words_of(error, journal.place)
    finally:
        environment = _settled(journal, why, watch)
    return environment == NEW


def _settled(journal: Journal, why: str, watch: Watch) -> str:
    """Finish or restore, and tell. Raises UnsettledError where neither can be done."""
    with ignore_signals():
        try:
            environment = settle(journal, why)
        except BrokenJournalError as error:
            raise UnsettledError(str(error)) from None
        except (ChangeError, OSError) as error:
            raise UnsettledError(_unsettled(journal, why, error)) from None
        watch.settled(journal, environment, why)
    return environment


def words_of(error: OSError, place: Place) -> str:
    """Say in words what the system refused; of a full disk, what could not be written."""
    named = error.filename2 if error.errno == errno.ENOSPC and error.filename2 else error.filename
    return f"{named or place.folder}: {error.strerror or error}"


def _unsettled(journal: Journal, why: str, error: ChangeError | OSError) -> str:
    place = journal.place
    refused = words_of(error, place) if isinstance(error, OSError) else str(error).rstrip(".")
    return (
        f"{why}; {place.folder} could not be put back: {refused}. The environment as it was lies there or in "
        f"{place.state}; do not use it before `{resume_line(place)}` has put it right."
    )


def _work(journal: Journal, job: Job, watch: Watch, guard: Guard) -> None:
    machine = [step for step in job.steps if step.scope == SYSTEM]
    own = [step for step in job.steps if step.scope != SYSTEM]
    with _logged(journal, watch) as heard:

        def run(argv: tuple[str, ...], seconds: float, step: Step) -> ProgramEnd:
            variables = {**job.environment, **step.action.variables()}
            ended = run_lines(argv, variables, heard, seconds=seconds, before_exec=guard.report_start)
            guard.report_end()
            return ended

        for step in machine:
            if isinstance(step.action, AskPerson):
                raise StepError(step.purpose.rstrip("."))  # what only a person can do: a restart
            _take(journal, step, run, watch, job.system)
        if journal.place.is_taken:
            watch.begins("Copy the environment.")
        put_in_place(journal, marked=job.marked)
        for step in own:
            _take(journal, step, run, watch, job.system)
    journal.write(VERIFYING)
    watch.begins("Judge the environment.")
    problem = job.judge()
    if problem:
        raise StepError(problem)
    commit(journal)


@contextlib.contextmanager
def _logged(journal: Journal, watch: Watch) -> Iterator[Callable[[str], None]]:
    with journal.place.log(journal.identity).open("w", encoding="utf-8") as log:

        def heard(line: str) -> None:
            with contextlib.suppress(OSError):  # a full disk: the step itself will say so
                log.write(line + "\n")
                log.flush()
            watch.hears(line)

        yield heard


def _take(journal: Journal, step: Step, run: Runner, watch: Watch, system: str) -> None:
    """Take one step and see that it worked."""
    command, checked = step.action.command(system), step.checked(system).argv
    check = checked if checked != command else ()
    of_machine = {}
    if step.scope == SYSTEM:
        was_there = bool(check) and run(check, _VERIFY, step).code == 0
        of_machine = written_down(step, system, was_there=was_there)
    journal.write(STEP, id=step.id, argv=list(command), **of_machine)
    watch.begins(step.purpose)
    for argv, seconds, what in ((command, SECONDS, "failed"), (check, _VERIFY, "did not bring what it must")):
        if argv and (ended := run(argv, seconds, step)).code != 0:
            raise StepError(f"the step {step.id} {what}: {_told(ended)}")
    journal.write(DONE_STEP, id=step.id)


def _told(ended: ProgramEnd) -> str:
    if ended.code is None:
        return ended.detail
    return f"ended by signal {-ended.code}" if ended.code < 0 else f"exit status {ended.code}"
