"""Tell on standard error how an installation goes, and which environment is there at its end."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from envcheck.cli.output import typed_here
from envcheck.install.journal import BEGUN, Journal
from envcheck.install.machine import Taken, taken
from envcheck.install.settle import NEW
from envcheck.model.records import replaced
from envcheck.plan.paths import activation_of
from envcheck.render.inert import inert
from envcheck.render.install_json import Result

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
            self._say(f"To use it, in each shell: {typed_here(_activation(place.folder))}")
            return
        if not self._verbose:
            for line in self._tail:
                self._say(f"    {line}")
        old = "the old environment, as it was before" if existed else "not there, as before"
        self._say(f"Not installed: {why}. {place.folder} is {old}. What the steps printed: {log}")
        self._machine(taken(journal))

    def _machine(self, steps: tuple[Taken, ...]) -> None:
        """Say what was done to the machine, and how to take it back: that is never done by itself."""
        self.result = replaced(self.result, machine=steps)
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


def _activation(folder: Path) -> tuple[str, ...]:
    if (folder / "conda-meta").is_dir():
        return ("conda", "activate", str(folder))
    return activation_of(str(folder), windows=os.name == "nt")
