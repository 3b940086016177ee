"""The steps that change the machine itself: no question that nobody can answer, never past a restart, written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envcheck.install.journal import STEP, Journal
from envcheck.model.plans import SYSTEM, Step
from envcheck.model.records import dataclass, replaced

_ENDS_THE_SESSION = ("reboot", "wsl.exe")
_UNASKED = {"pacman": ("--noconfirm",), "zypper": ("--non-interactive",)}  # what still asks, such as a licence, fails
_DEBCONF = ("env", "DEBIAN_FRONTEND=noninteractive")


_OF_A_SHELL = frozenset(("export", "unset", "set", "ulimit", "cd", "source", "."))  # no process can do it for another
_STANDS_FOR_YOURS = frozenset(("IMAGE", "CONTAINER", "COMMAND", "DISTRIBUTION"))


def is_for_a_person(step: Step) -> bool:
    """Tell whether nobody but a person can take a step: by hand, in their shell, with a name of theirs."""
    return not step.argv or step.argv[0] in _OF_A_SHELL or not _STANDS_FOR_YOURS.isdisjoint(step.argv)


@dataclass(frozen=True)
class Taken:
    """A step that an installation took on the machine, or began: nothing takes it back by itself."""

    id: str
    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()
    lasting: str = ""  # why there is no undo


def written_down(step: Step, *, was_there: bool) -> dict[str, Any]:
    """Say for the journal how a step of the machine is taken back; what was there before is left alone."""
    if was_there:
        return {"undo": [], "lasting": "what it brings was there before: it is left"}
    return {"undo": list(step.undo), "lasting": step.lasting}


def taken(journal: Journal) -> tuple[Taken, ...]:
    """List the steps an installation took on the machine, newest first: the order to take them back in."""
    found = [line for line in journal.lines() if line["event"] == STEP and "undo" in line]
    return tuple(
        Taken(line["id"], tuple(line["argv"]), tuple(line["undo"]), line["lasting"]) for line in reversed(found)
    )


def unattended(step: Step) -> Step:
    """Have a system step ask nothing: it runs without a terminal."""
    sudo, words = (step.argv[:1], step.argv[1:]) if step.argv[0] == "sudo" else ((), step.argv)
    program, *rest = words
    if program == "apt-get":
        words = (*_DEBCONF, *words)
    elif program in _UNASKED:
        words = (program, *_UNASKED[program], *rest)
    quiet: Step = replaced(step, argv=(*sudo, *words))
    return quiet


def before_restart(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps; where one restarts the machine, those of the machine before it, and what to do then."""
    for place, step in enumerate(steps):
        if step.scope == SYSTEM and any(word in _ENDS_THE_SESSION for word in step.argv[:2]):
            told = f"Restart the machine ({' '.join(step.argv)}), then type the same command again."
            first = tuple(each for each in steps[:place] if each.scope == SYSTEM)
            return (*first, Step("restart", told, (), scope=SYSTEM))
    return tuple(steps)
