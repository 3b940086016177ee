"""Change an environment in one transaction.

Run steps in a copy, judge what they leave, keep it or take it back.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

from envcheck.actions import AskPerson
from envcheck.host.file_changes import (
    FileLockedError,
    give_to_owner,
    lock_file,
    remove_tree,
    walk_tree,
)
from envcheck.host.guard import Guard
from envcheck.host.interruption import allow_interrupts
from envcheck.host.process import (
    ProgramEnd,
    StillRunningError,
    hold_signals,
    ignore_signals,
    kill_running_programs,
    run_lines,
)
from envcheck.install.installers import pip_progress, step_variables, write_settings
from envcheck.install.journal import (
    DONE_STEP,
    RESTORING,
    STARTED,
    STEP,
    VERIFYING,
    Journal,
    new_identity,
)
from envcheck.install.places import Place, resume_line
from envcheck.install.preflight import Preflight, is_refused, is_root, objections
from envcheck.install.replacement import (
    BrokenJournalError,
    ChangeError,
    begin,
    commit,
    find_undoable,
    newest,
    put_in_place,
    restore,
    settle,
    unsettled,
    warn_on_activation,
)
from envcheck.model import (
    CONDA,
    ENROL_KEY,
    INSTALLED,
    PLANNED,
    RESTORED,
    SYSTEM,
    UNCHANGED,
    UNSETTLED,
    WAITING_FOR_RESTART,
    Facts,
    MachineError,
    Outcome,
    Plan,
    Step,
    SystemChange,
    UserError,
    dataclass,
    hide_url_secrets,
)

TERMINAL = "/dev/tty"
PATIENCE = 1.5  # seconds for a guard that is just putting things back
SECONDS = 7200.0  # for a step; a GPU build is gigabytes over a slow line
# seconds until a killed step is gone: until then it may write into the environment
_END_PATIENCE = 30.0
_VERIFY = 900.0  # seconds to see that a step worked: a first import compiles and reads gigabytes

Runner = Callable[[tuple[str, ...], float, Step], ProgramEnd]  # command, seconds, its step


class Watch:
    """Follows the progress of a transaction; this one tells nobody before its end."""

    def begins(self, what: str) -> None:
        """Hear that something begins."""

    def hears(self, line: str) -> None:
        """Hear a line that a step printed."""

    def settled(self, outcome: Outcome, *, existed: bool) -> None:
        """Hear what a transaction came to, and whether there was an environment before it."""


class StepError(Exception):
    """A step failed, or what it was to bring about is not there."""


class UnsettledError(Exception):
    """An environment could be neither finished nor restored.

    The message says where it lies and what to type.
    """


_FAILURES = (ChangeError, UnsettledError, OSError)  # that leave a journal to resume


@dataclass
class Transaction:
    """A change of one environment.

    What is asked for, the steps that bring it about, and who judges the result.
    """

    place: Place
    plan: Plan  # as it runs here
    # of the environment after the steps; "" lets it count, else why it does not
    judge: Callable[[], str]
    before: Facts | None = None  # of the environment that is there; None: a new one
    done: str = INSTALLED  # the outcome where the environment is the new one
    # of an installation that was interrupted and has no journal: this one completes it
    ignores_marker: bool = False

    @property
    def count(self) -> int:
        """Count what `Watch.begins` hears of."""
        return len(self.plan.steps) + 1 + self.place.is_taken

    @property
    def planned(self) -> Outcome:
        """Return the outcome where the steps are only shown."""
        return Outcome(PLANNED, str(self.place.folder))

    @property
    def is_marked(self) -> bool:
        """Return whether the folder is made and marked before the steps.

        conda takes no folder that is there.
        """
        return self.place.is_taken or all(
            made.installer != CONDA for made in self.plan.environments
        )

    def prepare(self, *, as_root: bool) -> None:
        """Check all that the steps need.

        Raise UserError or MachineError gives each reason not to begin.
        """
        asked = Preflight(
            self.plan, self.place, os.environ, self.before, as_root, self.ignores_marker
        )
        found = list(objections(asked))
        if found:
            error = UserError if is_refused(asked) else MachineError
            raise error(f"nothing was changed: {'; '.join(text.rstrip('.') for text in found)}.")

    def run(self, watch: Watch) -> Outcome:
        """Run the steps and settle; raises UserError where nothing could begin.

        However this ends, `watch` has heard which environment is there, or the outcome says that
        nobody can tell; where this process is killed, its guard settles. A signal ends only what
        takes long: copies, programs, the judgement.
        """
        try:
            with hold_signals(), hold(self.place, watch) as descriptor:
                journal = Journal(self.place, new_identity(self.place, os.getpid()))
                with _start_guarded(journal, descriptor) as guard:
                    begin(journal, self.plan.requirements or self.plan.resolves)
                    return self._attempt(journal, watch, guard)
        except UnsettledError as error:
            return _unsettled(self.place, str(error))
        except OSError as error:
            raise UserError(f"nothing was changed: {describe_error(error, self.place)}.") from None

    def _attempt(self, journal: Journal, watch: Watch, guard: Guard) -> Outcome:
        try:
            why = self._run_steps(journal, watch, guard)
        except StillRunningError as error:
            raise UnsettledError(_describe_unsettled(journal, "interrupted", str(error))) from None
        except BaseException:  # KeyboardInterrupt too
            kill_running_programs()  # of the judgement
            _settle(journal, "interrupted", watch)
            raise
        return _settle(journal, why, watch, done=self.done)

    def _run_steps(self, journal: Journal, watch: Watch, guard: Guard) -> str:
        """Run the steps and let the result count; return why it does not, or ""."""
        try:
            with _open_log(journal, watch) as heard:
                self._change_environment(journal, watch, self._make_runner(guard, heard))
            journal.write(VERIFYING)
            watch.begins("Judge the environment.")
            with allow_interrupts():
                why = self.judge()
            if not why:
                self._commit(journal)
                self._give_to_owner()
        except (StepError, ChangeError) as error:
            return str(error)
        except OSError as error:
            return describe_error(error, self.place)
        return why

    def _commit(self, journal: Journal) -> None:
        """Let the result count from now on."""
        commit(journal)

    def _give_to_owner(self) -> None:
        """Let what root installed, and what undoes it, belong to the user of the environment."""
        folder, state = self.place.folder, self.place.state
        if self._has_other_owner:
            own = (str(path) for path in (state, *state.iterdir()))
            give_to_owner([*walk_tree(folder), *own], folder)

    @property
    def _has_other_owner(self) -> bool:
        """Return whether root changes the environment of another user."""
        return is_root() and self.place.is_taken and self.place.folder.stat().st_uid != 0

    def _make_runner(self, guard: Guard, heard: Callable[[str], None]) -> Runner:
        variables = step_variables(os.environ)
        if self._has_other_owner:
            variables |= {"UV_LINK_MODE": "copy"}  # not with the files of root's cache
        variables |= write_settings(self.place.state, variables)
        if any(made.installer == CONDA for made in self.plan.environments):  # its commands ask
            variables |= {"CONDA_ALWAYS_YES": "1", "MAMBA_ALWAYS_YES": "1"}
            if self.place.is_taken:  # and change the active environment
                variables["CONDA_PREFIX"] = str(self.place.folder)

        def run(argv: tuple[str, ...], seconds: float, step: Step) -> ProgramEnd:
            ended = run_lines(
                argv,
                {**variables, **pip_progress(self.place.folder), **step.action.variables()},
                heard,
                seconds=seconds,
                # mokutil asks for the password that the next start asks for again
                stdin=TERMINAL if step.action.consent == ENROL_KEY else os.devnull,
                before_exec=guard.report_start,
                patience=_END_PATIENCE,
            )
            guard.report_end()
            return ended

        return run

    def _change_environment(self, journal: Journal, watch: Watch, run: Runner) -> None:
        """Take the steps of the machine, put the copy in place, and take its own steps."""
        for step in self.plan.steps:
            if step.scope == SYSTEM:
                if isinstance(step.action, AskPerson):
                    # what only a person can do: a restart
                    raise StepError(step.purpose.rstrip("."))
                run_step(journal, step, run, watch, self.plan.system)
        is_marked = self.is_marked  # before the folder is there
        if self.place.is_taken:
            watch.begins("Copy the environment.")
        put_in_place(journal, marked=is_marked)
        for step in self.plan.steps:
            if step.scope != SYSTEM:
                run_step(journal, step, run, watch, self.plan.system)
                if is_marked:
                    # the step that makes an environment writes its scripts
                    warn_on_activation(self.place.folder)


@contextlib.contextmanager
def hold(place: Place, watch: Watch) -> Iterator[int]:
    """Hold an environment against other transactions, and settle unfinished ones."""
    place.state.mkdir(exist_ok=True)
    (place.state / ".gitignore").write_text("*\n", encoding="utf-8")
    with contextlib.ExitStack() as stack:
        try:
            descriptor = stack.enter_context(lock_file(str(place.lock), PATIENCE))
        except FileLockedError as error:
            who = f"another installation (process {error or '?'})"
            message = (
                f"nothing was changed: {who} is running in {place.folder}. Wait until it ends."
            )
            raise UserError(message) from None
        for journal in unsettled(place):
            _settle(journal, "it was interrupted", watch)
        yield descriptor


def settle_earlier(place: Place, watch: Watch, *, dry_run: bool) -> bool:
    """Finish or undo an interrupted transaction before one is planned.

    Return whether there was one.
    """
    if not unsettled(place):
        return False
    if dry_run:
        raise UserError(
            f"an installation into {place.folder} is running or was interrupted: if interrupted,"
            f" run `{resume_line(place)}` first."
        )
    try:
        with hold(place, watch):
            return True
    except UnsettledError as error:
        raise UserError(str(error)) from None


def resume(place: Place, watch: Watch) -> Outcome:
    """Finish or undo what was interrupted; return what the last transaction came to."""
    try:
        with hold(place, watch):
            last = newest(place)
    except _FAILURES as error:
        return _unsettled(place, f"not resumed: {_describe_failure(error, place)}.")
    return outcome_of(last) if last else Outcome(UNCHANGED, str(place.folder))


def undo(journal: Journal, watch: Watch) -> Outcome:
    """Restore an environment as it was before a transaction."""
    place = journal.place
    try:
        with hold(place, watch), ignore_signals():
            restore(find_undoable(place, journal.identity), "asked for")
    except _FAILURES as error:
        why = (
            f"not restored: {_describe_failure(error, place)}. Fix that, then run:"
            f" {resume_line(place)}"
        )
        return _unsettled(place, why)
    return outcome_of(journal)


def remove_kept(place: Place, watch: Watch) -> Outcome:
    """Remove the environments kept from before."""
    try:
        with hold(place, watch):
            for path in place.leftovers():
                remove_tree(path)
    except _FAILURES as error:
        return _unsettled(place, f"not removed: {_describe_failure(error, place)}.")
    return Outcome(UNCHANGED, str(place.folder))


def _unsettled(place: Place, why: str) -> Outcome:
    return Outcome(UNSETTLED, str(place.folder), why=why)


def outcome_of(journal: Journal, why: str = "", done: str = INSTALLED) -> Outcome:
    """Return what a transaction came to, by its journal.

    `why` the environment is not the new one, if known.
    """
    place, identity = journal.place, journal.identity
    if journal.is_installed:
        return Outcome(done, str(place.folder), identity, log=str(place.log(identity)))
    why = why or str(journal.last(RESTORING).get("why", ""))
    return Outcome(
        WAITING_FOR_RESTART if journal.is_waiting else RESTORED,
        str(place.folder),
        identity,
        why,
        str(place.log(identity)),
        system_changes(journal),
    )


def system_changes(journal: Journal) -> tuple[SystemChange, ...]:
    """List the steps that a transaction took on the machine, newest first.

    The order to take them back in.
    """
    found = [line for line in journal.lines() if line["event"] == STEP and "undo" in line]
    return tuple(
        SystemChange(line["id"], tuple(line["argv"]), tuple(line["undo"]), line["lasting"])
        for line in reversed(found)
    )


@contextlib.contextmanager
def _start_guarded(journal: Journal, descriptor: int) -> Iterator[Guard]:
    guard = Guard(
        "envcheck.install.guard", (str(journal.place.folder), journal.identity), (descriptor,)
    )
    try:
        yield guard
    finally:
        guard.finish(all_is_well=journal.is_settled)


def _settle(journal: Journal, why: str, watch: Watch, done: str = INSTALLED) -> Outcome:
    """Finish or restore, and tell. Raises UnsettledError where neither can be done."""
    with ignore_signals():
        existed = bool(journal.last(STARTED).get("existed"))
        try:
            settle(journal, why)
        except BrokenJournalError as error:
            raise UnsettledError(str(error)) from None
        except (ChangeError, OSError) as error:
            refused = _describe_failure(error, journal.place)
            raise UnsettledError(_describe_unsettled(journal, why, refused)) from None
        outcome = outcome_of(journal, why, done)
        watch.settled(outcome, existed=existed)
    return outcome


@contextlib.contextmanager
def before_any_change(place: Place) -> Iterator[None]:
    """Turn what the system refuses in the block into the sentence that nothing was changed."""
    try:
        yield
    except OSError as error:
        raise UserError(f"nothing was changed: {describe_error(error, place)}.") from None


def describe_error(error: OSError, place: Place) -> str:
    """Say in words what the system refused; of a full disk, what could not be written."""
    named = error.filename
    if error.errno == errno.ENOSPC and error.filename2:
        named = error.filename2
    return f"{named or place.folder}: {error.strerror or error}"


def _describe_failure(error: Exception, place: Place) -> str:
    if isinstance(error, OSError):
        return describe_error(error, place)
    return str(error).rstrip(".")


def _describe_unsettled(journal: Journal, why: str, refused: str) -> str:
    place = journal.place
    return (
        f"{why}; {place.folder} could not be restored: {refused}. The old environment lies there or"
        f" in {place.state}; run `{resume_line(place)}` before you use it."
    )


@contextlib.contextmanager
def _open_log(journal: Journal, watch: Watch) -> Iterator[Callable[[str], None]]:
    with journal.place.log(journal.identity).open("w", encoding="utf-8") as log:

        def heard(line: str) -> None:
            if not line.startswith("Progress "):  # pip's bytes so far, four times a second
                with contextlib.suppress(OSError):  # a full disk: the step itself will say so
                    log.write(hide_url_secrets(line) + "\n")
                    log.flush()
            watch.hears(line)

        yield heard


def run_step(journal: Journal, step: Step, run: Runner, watch: Watch, system: str) -> None:
    """Take one step and see that it worked."""
    command, checked = step.action.command(system), step.checked(system).argv
    check = checked if checked != command else ()
    of_machine: dict[str, Any] = {}
    if step.scope == SYSTEM:
        was_there = bool(check) and run(check, _VERIFY, step).code == 0
        undo = step.action.undo(system)
        of_machine = {"undo": list(undo.argv), "lasting": undo.reason}
        if was_there:
            of_machine = {"undo": [], "lasting": "it was there before, so it stays"}
    journal.write(STEP, id=step.id, argv=[hide_url_secrets(word) for word in command], **of_machine)
    watch.begins(step.purpose)
    for argv, seconds, what in (
        (command, SECONDS, "failed"),
        (check, _VERIFY, "did not have its effect"),
    ):
        if argv and (ended := run(argv, seconds, step)).code != 0:
            raise StepError(f"the step {step.id} {what}: {_describe_end(ended)}")
    journal.write(DONE_STEP, id=step.id)


def _describe_end(ended: ProgramEnd) -> str:
    if ended.code is None:
        return ended.detail
    if ended.code < 0:
        return f"ended by signal {-ended.code}"
    return f"exit status {ended.code}"
