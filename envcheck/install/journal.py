"""Keep the journal of an installation, and settle one that did not finish."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from envcheck.actions.shells import quoted
from envcheck.host.file_changes import append_durably
from envcheck.model import dataclass

MARKER = ".envcheck-incomplete"  # in an environment that is not whole yet
_STATE = ".envcheck-"
_ID = r"\d{8}T\d{6}-\d+"


@dataclass(frozen=True)
class Place:
    """An environment's folder (absolute, no link) and the folder beside it, on the same file system."""

    folder: Path
    state: Path

    @property
    def is_taken(self) -> bool:
        """Tell whether something lies there: an empty folder counts as nothing."""
        return self.folder.is_dir() and any(self.folder.iterdir())

    @property
    def lock(self) -> Path:
        """Return the file that whoever changes the environment holds."""
        return self.state / "lock"

    def journal(self, identity: str) -> Path:
        """Return an installation's journal."""
        return self.state / f"{identity}.jsonl"

    def log(self, identity: str) -> Path:
        """Return what an installation's steps printed."""
        return self.state / f"{identity}.log"

    def kept(self, identity: str) -> Path:
        """Return the copy before the environment is replaced by it, and the environment as it was from then on."""
        return self.state / f"{identity}.kept"

    def aside(self, identity: str) -> Path:
        """Return where a folder lies that is on its way out."""
        return self.state / f"{identity}.aside"

    def identities(self) -> tuple[str, ...]:
        """List the installations that left a journal, oldest first."""
        names = [path.name for path in self.state.iterdir()] if self.state.is_dir() else []
        return tuple(sorted(name[:-6] for name in names if re.fullmatch(rf"{_ID}\.jsonl", name)))

    def leftovers(self, identity: str = "") -> tuple[Path, ...]:
        """List the environments that one installation, or any, has left beside the one that counts."""
        found = (path for path in self.state.iterdir() if path.name.startswith(identity))
        return tuple(path for path in found if ".kept" in path.name or ".aside" in path.name)


def resume_line(place: Place) -> str:
    """Write the command that settles what did not come to its end, for the shells of this machine."""
    argv = ("envcheck", "install", "--resume", "--env", str(place.folder))
    return quoted(argv, "windows" if os.name == "nt" else "")


def place_of(folder: str | Path) -> Place:
    """Return the place of an environment's folder, which need not be there."""
    real = Path(folder).resolve()
    return Place(real, real.parent / (_STATE + real.name))


def places_in(folder: Path) -> tuple[Place, ...]:
    """List the environments of a folder that an installation was ever made into."""
    names = sorted(path.name[len(_STATE) :] for path in folder.iterdir() if path.name.startswith(_STATE))
    found = (place_of(folder / name) for name in names if name)
    return tuple(place for place in found if place.identities())


BEGUN = "begun"  # existed, inode, requirements: nothing is touched yet
COPIED = "copied"  # inode: the copy is whole, and on the disk
MADE = "made"  # the folder of a new environment is about to be made
STEP = "step"  # id, argv; of the machine: undo, lasting
DONE_STEP = "step-done"  # id
VERIFYING = "verifying"
INSTALLED = "installed"  # from here on the new environment is the one that counts
FINISHED = "finished"  # its marker is gone, older ones are tidied away
RESTORING = "restoring"  # why
RESTORED = "restored"  # from here on nothing is left to do: the environment is as it was
LAST = (FINISHED, RESTORED)
_HOLDS: dict[str, dict[str, type]] = {  # what lines of an event must tell, and is relied on
    BEGUN: {"existed": bool, "inode": int},
    COPIED: {"inode": int},
    STEP: {"id": str, "argv": list},
    INSTALLED: {"inode": int},
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
        append_durably(str(self._path), json.dumps({"event": event, "at": at, **told}, ensure_ascii=False))

    def lines(self) -> tuple[Line, ...]:
        """Read the journal; none is there before the first line."""
        if not self._path.exists():
            return ()
        return tuple(_parsed(self._path.read_text(encoding="utf-8", errors="replace")))

    def last(self, event: str) -> Line:
        """Return the last line of an event; an empty one where there is none."""
        return next((line for line in reversed(self.lines()) if line["event"] == event), {})

    @property
    def is_settled(self) -> bool:
        """Tell whether nothing is left to finish or to restore."""
        lines = self.lines()
        return lines[-1]["event"] in LAST if lines else not self.is_broken

    @property
    def is_broken(self) -> bool:
        """Tell whether lines are there, but not the first one, which was whole before anything was touched."""
        return not self.last(BEGUN) and self._path.exists() and b"\n" in self._path.read_bytes()

    @property
    def is_installed(self) -> bool:
        """Tell whether the environment is the new one."""
        events = [line["event"] for line in self.lines() if line["event"] in {INSTALLED, RESTORING}]
        return events[-1:] == [INSTALLED]


def _parsed(text: str) -> list[Line]:
    """Parse a journal, but for lines that a full disk or a power failure cut off, or that somebody wrote into it.

    {"event": "begun", "at": "2026-11-21T07:00:00Z", "existed": false, "inode": 0}
    {"event": "step", "at": "2026-11-21T07:00:01Z", "id": "install", "argv": [".venv/bin/python", "-m", "pip"]}
    """
    found: list[Line] = []
    for line in text.split("\n"):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and _is_whole(told):
            found.append(told)
    return found


def _is_whole(told: Line) -> bool:
    event, at = told.get("event"), told.get("at")
    if not isinstance(event, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(at)):
        return False
    return all(type(told.get(name)) is kind for name, kind in _HOLDS.get(event, {}).items())


def new_identity(place: Place, process: int) -> str:
    """Name an installation by its time and process, later than all before it."""
    identity = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{process}"
    before = place.identities()
    return identity if not before or identity > before[-1] else f"{before[-1].partition('-')[0]}-{_after(before[-1])}"


def _after(identity: str) -> int:
    return int(identity.partition("-")[2]) + 1
