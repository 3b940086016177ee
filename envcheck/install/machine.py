"""The steps that change the machine itself: run without a question that nobody can answer, and never past a restart."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.model.plans import SYSTEM, Step
from envcheck.model.records import replaced

_ENDS_THE_SESSION = ("reboot", "wsl.exe")
_UNASKED = {"pacman": ("--noconfirm",), "zypper": ("--non-interactive",)}  # what still asks, such as a licence, fails
_DEBCONF = ("env", "DEBIAN_FRONTEND=noninteractive")


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
