"""Which installation can be undone on request."""

from __future__ import annotations

import calendar
import time

from envcheck.host.file_changes import changed_after, identity_of
from envcheck.install.journal import BEGUN, INSTALLED, Journal
from envcheck.install.place import Place

_SECOND = 1.0  # a journal's times are whole seconds


class UndoError(Exception):
    """There is nothing to go back to; the message says why."""


def undoable(place: Place, identity: str) -> Journal:
    """Return the journal of the installation to undo: the one named, or the last one ("last")."""
    installed = [name for name in place.identities() if Journal(place, name).is_installed]
    if not installed:
        raise UndoError(f"no installation into {place.folder} is left to undo.")
    named = installed[-1] if identity == "last" else identity
    if named not in installed:
        raise UndoError(f"{identity[:60]} is no installation into {place.folder}: the last one is {installed[-1]}.")
    journal = Journal(place, named)
    begun = journal.last(BEGUN)
    if not begun:
        raise UndoError(f"{place.journal(named)} does not tell what was there before {named}: it cannot be undone.")
    if begun["existed"] and identity_of(place.kept(named)) != begun["inode"]:
        raise UndoError(f"what was there before {named} is no longer kept: only the last installation can be undone.")
    there = identity_of(place.folder)
    if there not in {0, journal.last(INSTALLED)["inode"]}:
        raise UndoError(f"{place.folder} is another environment than {named} made: it is left as it is.")
    return journal


def changed_since(journal: Journal) -> tuple[str, ...]:
    """List the files of an environment that somebody made or changed after its installation."""
    at = calendar.timegm(time.strptime(journal.last(INSTALLED)["at"], "%Y-%m-%dT%H:%M:%SZ"))
    return tuple(changed_after(journal.place.folder, at + _SECOND))
