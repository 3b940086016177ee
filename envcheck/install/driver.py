"""Install the driver: the steps of its plan as one journalled transaction, across a restart.

The journal lies beside DRIVER_FOLDER, which itself is never made. A step of the machine is not
undone: what was done is listed with what takes it back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from envcheck.actions import APT, DNF, ZYPPER, InstallSystemPackages, LoadModule
from envcheck.host.interruption import allow_interrupts
from envcheck.host.prerequisites import find_program, has_output
from envcheck.install import transaction
from envcheck.install.journal import ASKED, FINISHED, INSTALLED, WAITING, Journal
from envcheck.install.places import DRIVER_FOLDER, Place, place_of
from envcheck.install.preflight import is_root
from envcheck.install.removals import (
    UnreadRemovalsError,
    is_available,
    list_chosen,
    list_removed,
)
from envcheck.install.replacement import newest
from envcheck.install.transaction import Runner, StepError, Transaction, Watch, run_step
from envcheck.model import (
    ENROL_KEY,
    REBOOT,
    REMOVE_DRIVER,
    Facts,
    Plan,
    Step,
    UserError,
    dataclass,
)

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNFINISHED = Path("/var/lib/dpkg/updates")


def driver_place() -> Place:
    """Return where the journals of the driver lie."""
    return place_of(DRIVER_FOLDER)


def read_boot() -> str:
    """Return what names this start of the machine."""
    return _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else ""


@dataclass
class Interrupted:
    """A driver that was begun and not brought to its end."""

    asked: dict[str, Any]  # as `DriverTransaction.asked`
    waits_here: bool  # for a restart that has not been


def find_interrupted() -> Interrupted | None:
    """Return what the last transaction left to do; None where it came to its end."""
    last = newest(driver_place())
    if last is None or last.is_installed or not last.last(ASKED):
        return None
    waits = last.is_waiting and last.last(WAITING).get("boot") == read_boot()
    return Interrupted(last.last(ASKED)["asked"], waits)


@dataclass
class DriverTransaction(Transaction):
    """The steps of a driver's plan, up to a restart."""

    # a record states the fields of what it extends
    place: Place
    plan: Plan
    judge: Callable[[], str]
    before: Facts | None = None  # of the machine
    done: str = INSTALLED
    ignores_marker: bool = False
    asked: dict[str, Any] | None = None  # what `--resume` asks for again
    consents: frozenset[str] = frozenset()  # names of actions that the person agreed to
    # asks the person once more; False where nobody can be asked
    agrees: Callable[[str], bool] | None = None

    def prepare(self, *, as_root: bool) -> None:  # noqa: ARG002 - as the transaction of an environment
        """Check that everything may begin; raises UserError with each reason not to."""
        found = list(self._list_objections())
        if found:
            raise UserError(f"nothing was changed: {' '.join(found)}")
        self.place.state.parent.mkdir(parents=True, exist_ok=True)

    def _list_objections(self) -> Iterator[str]:
        if not is_root():
            yield "The driver is installed as root: run it with sudo."
            return
        needed = {step.action.consent for step in self.plan.steps} - {"", REBOOT}
        for name in sorted(needed - self.consents):
            yield f"A step needs --{name}, which --yes does not stand for."
        if ENROL_KEY in needed and not _has_terminal():
            yield "mokutil asks for a password: run it on a terminal."
        installs = [
            each for each in self._list_actions() if isinstance(each, InstallSystemPackages)
        ]
        yield from _list_unreadable({each.manager for each in installs})
        for step in self.plan.steps:
            if step.action.by_person:
                yield f"This step is yours to take: {step.purpose}."
        if installs and _UNFINISHED.is_dir() and any(_UNFINISHED.iterdir()):
            yield "An earlier installation was cut off: run `dpkg --configure -a` first."
        yield from self._list_users()
        if installs and self._is_from_elsewhere():
            yield (
                "The driver that is there came by no package, so nothing would lead back to it:"
                " remove it with the program that installed it (nvidia-uninstall) first."
            )

    def _list_actions(self) -> Iterator[Any]:
        return (step.action for step in self.plan.steps)

    def _list_users(self) -> Iterator[str]:
        """Name the processes that compute on a GPU: a new driver would stop them."""
        gpus = self.before.gpus.value if self.before else None
        found = {each.pid: each.name for gpu in gpus or () for each in gpu.processes.value or ()}
        changes = any(
            isinstance(each, (InstallSystemPackages, LoadModule)) or each.ends_session
            for each in self._list_actions()
        )
        if found and changes:
            named = ", ".join(f"{name or '?'} (process {pid})" for pid, name in found.items())
            yield f"{named} computes on a GPU: wait until it ends, or end it."

    def _is_from_elsewhere(self) -> bool:
        """Return whether a driver is there that neither dpkg nor rpm knows."""
        if self.before is None:
            return False
        driver = self.before.driver
        if driver.release.value is None and driver.module_file.value is None:
            return False
        if find_program("dpkg-query", os.environ):
            return driver.packages.value is not None and not driver.packages.value
        is_rpm = bool(find_program("rpm", os.environ))
        return is_rpm and not has_output(("rpm", "-qa", "*nvidia*"), os.environ)

    def _change_environment(self, journal: Journal, watch: Watch, run: Runner) -> None:
        journal.write(ASKED, asked=self.asked or {})
        for step in self.plan.steps:
            if step.action.ends_session:
                journal.write(WAITING, boot=read_boot())
                if REBOOT in self.consents:
                    run(step.action.command(self.plan.system), _REBOOT_SECONDS, step)
                raise StepError("restart the machine")
            self._review(step)
            run_step(journal, step, run, watch, self.plan.system)

    def _review(self, step: Step) -> None:
        """Show what a step would remove, and ask once more; raises StepError without a yes."""
        action, manager = step.action, APT
        argv = action.command(self.plan.system)
        if isinstance(action, InstallSystemPackages):
            manager = action.manager
        elif argv[:2] != _CHOOSES:
            return
        try:
            packages = getattr(action, "packages", None) or list_chosen(argv)
            removed = list_removed(manager, packages) if packages else ()
        except UnreadRemovalsError as error:
            raise StepError(str(error)) from None
        if not removed:
            return
        lost = [name for name in removed if not is_available(manager, name)]
        if lost:
            raise StepError(
                f"{', '.join(lost)} would be removed and is in no repository any more:"
                " nothing would lead back"
            )
        named = ", ".join(removed)
        if REMOVE_DRIVER not in self.consents:
            raise StepError(f"this would remove {named}: add --{REMOVE_DRIVER} to have it done")
        with allow_interrupts():
            agreed = self.agrees is not None and self.agrees(f"This removes {named}. Go on?")
        if not agreed:
            raise StepError(f"this would remove {named}, and nobody agreed")

    def _commit(self, journal: Journal) -> None:
        journal.write(INSTALLED, inode=0)
        journal.write(FINISHED)


_REBOOT_SECONDS = 60.0
_CHOOSES = ("ubuntu-drivers", "install")  # which packages, by the card and the kernel


def _list_unreadable(managers: set[str]) -> Iterator[str]:
    """Say of which package managers nothing shows beforehand what they would remove."""
    for manager in sorted(managers):
        if manager not in (APT, DNF, ZYPPER):
            yield (
                f"What {manager} would remove is not read before it runs:"
                " take the steps of `envcheck plan driver` yourself."
            )
        elif not find_program(manager, os.environ):
            yield f"{manager} is not installed."


def _has_terminal() -> bool:
    try:
        with Path(transaction.TERMINAL).open("rb"):
            return True
    except OSError:
        return False
