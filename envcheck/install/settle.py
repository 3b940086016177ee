"""Decide from the journal what becomes of an installation that did not come to its end."""

from __future__ import annotations

from envcheck.install.change import finish, restore
from envcheck.install.journal import Journal
from envcheck.install.place import Place

NEW = "new"
OLD = "old"


def settle(journal: Journal, why: str) -> str:
    """Finish or restore; return which environment is there now, NEW or OLD. Raises ChangeError, OSError."""
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


def unsettled(place: Place) -> tuple[Journal, ...]:
    """List the journals of a place whose installation did not come to its end, newest first."""
    journals = (Journal(place, identity) for identity in reversed(place.identities()))
    return tuple(journal for journal in journals if not journal.is_settled)


def newest(place: Place) -> Journal | None:
    """Return the newest journal of a place."""
    identities = place.identities()
    return Journal(place, identities[-1]) if identities else None
