"""Keep the journal of an installation: one line for each event, on the disk before it happens."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from envcheck.host.documents import parse_object
from envcheck.host.file_changes import append_durably
from envcheck.install.places import Place

STARTED = "begun"  # existed, inode, requirements: nothing is touched yet
COPIED = "copied"  # inode: the copy is whole, and on the disk
MADE = "made"  # the folder of a new environment is about to be made
STEP = "step"  # id, argv; of the machine: undo, lasting
DONE_STEP = "step-done"  # id
VERIFYING = "verifying"
INSTALLED = "installed"  # from here on the new environment counts
ASKED = "asked"  # asked: of a driver, what is asked for again after its restart
WAITING = "waiting"  # boot: of a driver, until the machine has been restarted
FINISHED = "finished"  # its marker and older environments are gone
RESTORING = "restoring"  # why
RESTORED = "restored"  # from here on the environment is as it was
LAST = (FINISHED, RESTORED, WAITING)
_REQUIRED: dict[str, dict[str, type]] = {  # required keys of an event
    STARTED: {"existed": bool, "inode": int},
    COPIED: {"inode": int},
    STEP: {"id": str, "argv": list},
    INSTALLED: {"inode": int},
    ASKED: {"asked": dict},
    WAITING: {"boot": str},
}

Line = dict[str, Any]


class Journal:
    """The journal of one installation."""

    def __init__(self, place: Place, identity: str) -> None:
        self.place, self.identity = place, identity
        self._path = place.journal(identity)

    def write(self, event: str, **told: Any) -> None:
        """Write one line and have it on the disk. Raises OSError."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        append_durably(
            str(self._path), json.dumps({"event": event, "at": at, **told}, ensure_ascii=False)
        )

    def lines(self) -> tuple[Line, ...]:
        """Read the journal; none is there before the first line."""
        if not self._path.exists():
            return ()
        text = self._path.read_text(encoding="utf-8", errors="replace")
        return tuple(line for line in map(parse_object, text.split("\n")) if _is_whole(line))

    def last(self, event: str) -> Line:
        """Return the last line of an event; an empty one if there is none."""
        return next((line for line in reversed(self.lines()) if line["event"] == event), {})

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is left to finish or to restore."""
        lines = self.lines()
        return lines[-1]["event"] in LAST if lines else not self.is_broken

    @property
    def is_waiting(self) -> bool:
        """Return whether the machine has to be restarted first."""
        return [line["event"] for line in self.lines()[-1:]] == [WAITING]

    @property
    def is_broken(self) -> bool:
        """Return whether lines are there without the first, which was whole from the start."""
        return not self.last(STARTED) and self._path.exists() and b"\n" in self._path.read_bytes()

    @property
    def is_installed(self) -> bool:
        """Return whether the environment is the new one."""
        events = [
            line["event"]
            for line in self.lines()
            if line["event"] in {INSTALLED, RESTORING, RESTORED}
        ]
        return events[-1:] == [INSTALLED]


def _is_whole(told: Line) -> bool:
    """Return whether a line was not cut off, or added by somebody.

    {"event": "begun", "at": "2026-11-21T07:00:00Z", "existed": false, "inode": 0}
    """
    event, at = told.get("event"), told.get("at")
    if not isinstance(event, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(at)):
        return False
    return all(type(told.get(name)) is kind for name, kind in _REQUIRED.get(event, {}).items())


def new_identity(place: Place, process: int) -> str:
    """Name an installation by its time and process, later than all before it."""
    identity = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{process}"
    before = place.identities()
    if not before or identity > before[-1]:
        return identity
    at, _, number = before[-1].partition("-")
    return f"{at}-{int(number) + 1}"
