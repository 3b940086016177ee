"""Decide from the journal what becomes of an installation that did not come to its end."""

from __future__ import annotations

from envcheck.install.change import ChangeError, finish, restore
from envcheck.install.journal import Journal
from envcheck.install.place import Place

NEW = "new"
OLD = "old"


class BrokenJournalError(ChangeError):
    """A journal does not tell what was there before; the message says what to do."""


def settle(journal: Journal, why: str) -> str:
    """Finish or restore; return which environment is there now, NEW or OLD. Raises ChangeError, OSError."""
    if journal.is_broken and not journal.is_settled:
        raise BrokenJournalError(_broken(journal))
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


def _broken(journal: Journal) -> str:
    place = journal.place
    return (
        f"{place.journal(journal.identity)} does not tell what was there before: whether {place.folder} is the old "
        f"environment, the new one or half of it, nobody can say. Make another one, or look at it yourself and then "
        f"remove {place.state}, in which the old one may lie."
    )


def unsettled(place: Place) -> tuple[Journal, ...]:
    """List the journals of a place whose installation did not come to its end, newest first."""
    journals = (Journal(place, identity) for identity in reversed(place.identities()))
    return tuple(journal for journal in journals if not journal.is_settled)


def newest(place: Place) -> Journal | None:
    """Return the newest journal of a place."""
    identities = place.identities()
    return Journal(place, identities[-1]) if identities else None
