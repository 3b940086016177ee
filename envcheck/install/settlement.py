"""Settle what earlier installations left: finish them, restore, or undo."""

from __future__ import annotations

import calendar
import time

from envcheck.host.file_changes import get_inode, list_changed_files
from envcheck.install.journal import INSTALLED, STARTED, Journal
from envcheck.install.places import MADE_BY, Place, was_made_by
from envcheck.install.replacement import ChangeError, finish, restore
from envcheck.model import UserError

NEW = "new"
OLD = "old"


class BrokenJournalError(ChangeError):
    """A journal does not record what was there before; the message says what to do."""


def settle(journal: Journal, why: str) -> str:
    """Finish or restore; return which environment is there now, NEW or OLD.

    Raises ChangeError, OSError.
    """
    if journal.is_broken and not journal.is_settled:
        raise BrokenJournalError(_describe_broken(journal))
    if not journal.lines():  # cut off before its first line: nothing was touched
        journal.place.journal(journal.identity).unlink(missing_ok=True)
        return OLD
    if journal.is_settled:
        return NEW if journal.is_installed else OLD
    if journal.is_installed:
        finish(journal)
        return NEW
    restore(journal, why)
    return OLD


def _describe_broken(journal: Journal) -> str:
    place = journal.place
    return (
        f"{place.journal(journal.identity)} does not record what was there before: {place.folder}"
        " may be the old environment, the new one or half of it. Create another one, or check it"
        f" yourself and then remove {place.state}, which may hold the old one."
    )


def unsettled(place: Place) -> tuple[Journal, ...]:
    """List the journals of a place whose installation did not come to its end, newest first."""
    journals = (Journal(place, identity) for identity in reversed(place.identities()))
    return tuple(journal for journal in journals if not journal.is_settled)


def newest(place: Place) -> Journal | None:
    """Return the newest journal of a place."""
    identities = place.identities()
    return Journal(place, identities[-1]) if identities else None


_SECOND = 1.0  # a journal's times are whole seconds


def find_undoable(place: Place, identity: str) -> Journal:
    """Return the journal of the installation to undo.

    The one named, or the last one ("last"); raises UserError.
    """
    installed = [name for name in place.identities() if Journal(place, name).is_installed]
    if not installed:
        raise UserError(f"no installation into {place.folder} is left to undo.")
    named = installed[-1] if identity == "last" else identity
    if named not in installed:
        raise UserError(
            f"{identity[:60]} is no installation into {place.folder}: the last one is"
            f" {installed[-1]}."
        )
    journal = Journal(place, named)
    begun = journal.last(STARTED)
    if not begun:
        raise UserError(
            f"{place.journal(named)} does not record what"
            f" was there before {named}: it cannot be undone."
        )
    if begun["existed"] and not place.kept(named).is_dir():
        raise UserError(
            f"what was there before {named} is no longer kept:"
            " only the last installation can be undone."
        )
    is_its_own = was_made_by(place.folder, named)
    if not is_its_own and get_inode(place.folder) not in {0, journal.last(INSTALLED)["inode"]}:
        raise UserError(
            f"{place.folder} is not the environment that {named} made: it is left as it is."
        )
    return journal


def changed_since(journal: Journal) -> tuple[str, ...]:
    """List the files of an environment that somebody made or changed after its installation."""
    at = calendar.timegm(time.strptime(journal.last(INSTALLED)["at"], "%Y-%m-%dT%H:%M:%SZ"))
    found = list_changed_files(journal.place.folder, at + _SECOND)
    return tuple(name for name in found if name != MADE_BY)
