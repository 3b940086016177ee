"""What the commands that change an environment share.

Options, questions, progress, and how a transaction ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from envcheck.actions import HERE, ActivateEnvironment, type_here
from envcheck.cli import common
from envcheck.cli.common import ProgressLine, UserError, option
from envcheck.cli.downloads import Downloads, format_bytes
from envcheck.frameworks import framework_of
from envcheck.host.system import list_programs_in
from envcheck.install.installers import installer_of
from envcheck.install.places import Place
from envcheck.install.preflight import is_root
from envcheck.install.transaction import Transaction, Watch
from envcheck.model import (
    BLOCK_NOUVEAU,
    ENROL_KEY,
    REBOOT,
    REMOVE_DRIVER,
    RESTORED,
    UNSETTLED,
    Outcome,
    SystemChange,
    dataclass,
)
from envcheck.model.text import shorten
from envcheck.render.document import Document
from envcheck.render.text import print_document


@dataclass
class OutputOptions:
    """How to ask and how to report."""

    dry_run: bool = False
    agreed: bool = False
    as_root: bool = False
    printing: common.Printing = common.Printing()
    is_part: bool = False  # standard output is for the answer of which this is a part

    @property
    def verbose(self) -> bool:
        """Return whether all is shown."""
        return self.printing.verbose

    @property
    def quiet(self) -> bool:
        """Return whether the result alone is shown."""
        return self.printing.quiet

    @property
    def is_text(self) -> bool:
        """Return whether sentences go to standard output."""
        return self.printing.form == "text" and not self.is_part

    def show_before_asking(self, document: Document) -> None:
        """Print what the question is about: where standard output is for a document, to stderr."""
        if self.is_text:
            stream = sys.stdout
        elif self.is_part or not (self.agreed or self.dry_run):
            stream = sys.stderr
        else:
            return
        print_document(document, color=self.printing.wants_color(stream), stream=stream)


def output_options(
    dry_run: str, *forms: str, to_file: bool = False
) -> Callable[[common.F], common.F]:
    """Add the options on confirmation and output, --dry-run with this help.

    The command takes them as `output`.
    """

    def make(
        *, dry_run: bool, agreed: bool, as_root: bool, printing: common.Printing
    ) -> dict[str, Any]:
        return {"output": OutputOptions(dry_run, agreed, as_root, printing)}

    return common.together(
        option("--dry-run", dry_run),
        option("--yes", "Do not ask.", "agreed"),
        option("--as-root", "As root, change an environment of another user."),
        common.printing(*(forms or ("text", "json")), to_file=to_file),
        common.taken(make, "dry_run", "agreed", "as_root", "printing"),
    )


_CONSENTS = {
    REBOOT: "restart the machine.",
    ENROL_KEY: "enrol a key for Secure Boot.",
    REMOVE_DRIVER: "remove packages.",
    BLOCK_NOUVEAU: "keep nouveau out.",
}


def driver_consents(also: str) -> Callable[[common.F], common.F]:
    """Add an option for each step of a driver that --yes does not stand for.

    The command takes them as `consents`. `also` begins the help of each.
    """
    names = [name.replace("-", "_") for name in _CONSENTS]

    def make(**given: bool) -> dict[str, Any]:
        return {"consents": frozenset(name.replace("_", "-") for name in names if given[name])}

    options = [option(f"--{name}", f"{also} {does}") for name, does in _CONSENTS.items()]
    return common.together(*options, common.taken(make, *names))


_TAIL = 15  # lines of a failed step


class InstallProgress(Watch):
    """Numbers the steps and shows their progress.

    A terminal shows the last line of a step, -v every line.
    """

    def __init__(
        self,
        total: int,
        *,
        verbose: bool = False,
        quiet: bool = False,
        what: str = "installed",
        tested: Sequence[str] = (),
    ) -> None:
        self._total, self._verbose, self._quiet, self._what = total, verbose, quiet, what
        self._downloads, self._tested = Downloads(), tested
        self._number, self._since = 0, time.monotonic()
        self._line = ProgressLine(quiet=quiet or verbose)
        self._tail: list[str] = []

    def begins(self, what: str) -> None:
        """Report that a step begins, and the seconds so far."""
        self._number += 1
        self._tail = []
        if not self._quiet:
            seconds = time.monotonic() - self._since
            self._print(
                f"[{self._number}/{max(self._total, self._number)}] {what} ({seconds:.0f} s)"
            )
        self._show("")

    def hears(self, line: str) -> None:
        """Show a line, or keep it in case the step fails."""
        text = ""
        if not self._downloads.hears(line):
            self._tail = [*self._tail[-_TAIL:], line]
            text = line.strip()
            if self._verbose:
                self._print(f"    {line}")
        text = self._downloads.status() or text
        if text and not self._verbose:
            self._show(text)

    def _show(self, text: str) -> None:
        self._line.show(text, self._number - 1, max(self._total, self._number))

    def close(self) -> None:
        """Remove what shows how far the steps are."""
        self._line.close()

    def settled(self, outcome: Outcome, *, existed: bool) -> None:
        """Report which environment is there now, and how to go back or where to look."""
        self.close()
        folder = outcome.folder
        if outcome.outcome != RESTORED:
            self._report_result()
            purpose = "To remove it"
            if existed:
                purpose = "To go back to the one before"
            back = type_here("envcheck", "install", "--rollback", "--env", folder)
            self._print(f"{folder} is the new environment. {purpose}: {back}")
            self._print(f"To use it, in each shell: {activation_line(Path(folder))}")
            return
        if not self._verbose:
            for line in self._tail:
                self._print(f"    {line}")
        old = "not there, as before"
        if existed:
            old = "the old environment, as it was before"
        self._print(
            f"Not {self._what}: {outcome.why}. {folder} is {old}."
            f" The output of the steps: {outcome.log}"
        )
        self._report_changes(outcome.machine)

    def _report_result(self) -> None:
        """Report the frameworks that came, and how many packages, bytes and seconds it took."""
        came = self._downloads.installed
        if not came:
            return
        for name, version in came.items():
            if framework_of(name):
                self._print(f"+ {name} {version}")
        parts = [f"{len(came)} package{'s' * (len(came) > 1)}"]
        if self._downloads.received:
            parts.append(f"{format_bytes(self._downloads.received)} downloaded")
        parts.append(f"{time.monotonic() - self._since:.0f} s")
        self._print(
            ". ".join([", ".join(parts), *(text.rstrip(".") for text in self._tested)]) + "."
        )

    def _report_changes(self, steps: tuple[SystemChange, ...]) -> None:
        """Report what was done to the machine, and how to undo it."""
        if steps:
            self._print(
                "Changes to this machine, newest first; undo them yourself if you do not want them:"
            )
        for step in steps:
            self._print(
                f"  {type_here(*step.argv)}" + (f"  ({step.lasting})" if step.lasting else "")
            )
            if step.undo:
                self._print(f"    undo: {type_here(*step.undo)}")

    def _print(self, line: str) -> None:
        self._line.print(line)


def activation_line(folder: Path) -> str:
    """Write what activates an environment in a shell of this machine."""
    return type_here(*ActivateEnvironment(str(folder), installer_of(folder)).command(HERE))


def carry_out(
    transaction: Transaction,
    question: str,
    output: OutputOptions,
    what: str = "installed",
    tested: Sequence[str] = (),
    progress_type: type[InstallProgress] = InstallProgress,
) -> Outcome:
    """Prepare a transaction, have it agreed to, and run it; with --dry-run it is only prepared.

    `tested` says in the end what its tests showed.
    """
    transaction.prepare(as_root=output.as_root)
    if is_root() and not output.dry_run:
        click.echo(
            "envcheck: warning: you are root: packages can run any code while they are installed.",
            err=True,
        )
    _warn_of_programs(transaction.place)
    if output.dry_run:
        return transaction.planned
    confirm(question, output)
    progress = progress_type(
        transaction.count, verbose=output.verbose, quiet=output.quiet, what=what, tested=tested
    )
    try:
        return report_unsettled(transaction.run(progress))
    finally:
        progress.close()


def report_unsettled(outcome: Outcome) -> Outcome:
    """Say what keeps a transaction from its end; return the outcome."""
    if outcome.outcome == UNSETTLED:
        click.echo(f"envcheck: {outcome.why}", err=True)
    return outcome


_SHOWN = 3  # programs that are named before the rest is counted


def _warn_of_programs(place: Place) -> None:
    """Name the programs that run from the environment.

    After the change they load files of the new one.
    """
    found = list_programs_in(str(place.folder)) if place.is_taken else ()
    if found:
        named = shorten([f"{name} (process {number})" for number, name in found], _SHOWN)
        mixed = (
            "they may load a mix of the old and the new environment. End them first, or restart"
            " them afterwards."
        )
        click.echo(f"envcheck: warning: {named} run from {place.folder}: {mixed}", err=True)


def confirm(question: str, output: OutputOptions) -> None:
    """Ask for confirmation unless --yes was given.

    Raises UserError without a yes, or without a terminal to ask on.
    """
    if output.agreed:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError(
            "nothing was changed: nobody can confirm, as standard input is no terminal. Add --yes."
        )
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo("\nNothing was changed.", err=True)
        raise
    if not agreed:
        raise UserError("nothing was changed.")


_HOME = "~"


def expand_home(folder: str) -> str:
    """Expand ~, which no shell does in --env=~/x."""
    found = os.path.expanduser(folder)  # noqa: PTH111 - pathlib removes a leading ./
    if found.startswith(_HOME):
        raise UserError(f"--env {folder[:60]!r}: that home folder is unknown.")
    return found.rstrip(os.sep) or found
