"""Put a new environment in place of the old one, finish or restore it, and tell which one can be undone."""

from __future__ import annotations

import calendar
import contextlib
import time
from pathlib import Path

from envcheck.host.file_changes import (
    copy_tree,
    get_inode,
    list_changed_files,
    remove_tree,
    swap_folders,
    sync_file_system,
)
from envcheck.install.journal import (
    BEGUN,
    COPIED,
    FINISHED,
    INSTALLED,
    MADE,
    MARKER,
    RESTORED,
    RESTORING,
    Journal,
    Place,
    resume_line,
)


class ChangeError(Exception):
    """The environment cannot be put in place, or put back; the message says where what lies."""


def begin(journal: Journal, requirements: tuple[str, ...]) -> None:
    """Write down what is there before anything is touched. An empty folder counts as none."""
    folder, asked = journal.place.folder, list(requirements)
    existed = journal.place.is_taken
    journal.write(BEGUN, existed=existed, inode=get_inode(folder), requirements=asked, folder=str(folder))


def put_in_place(journal: Journal, *, marked: bool = True) -> None:
    """Put a copy in the place of an existing environment, or make the folder of a new one, behind a marker.

    The environment as it was is kept itself, with all it links to; what changes is the copy. `marked`: False where
    the installer takes no folder that is there (conda).
    """
    place, identity = journal.place, journal.identity
    if not journal.last(BEGUN)["existed"]:
        journal.write(MADE)
        if marked:
            place.folder.mkdir(exist_ok=True)
            _mark(place.folder, place, identity)
        return
    copy = place.kept(identity)
    copy_tree(place.folder, copy)
    _mark(copy, place, identity)
    sync_file_system(copy)
    journal.write(COPIED, inode=get_inode(copy))
    try:
        swap_folders(place.folder, copy, place.aside(identity))
    except OSError as error:
        why = f"{place.folder} cannot be replaced ({error.strerror}): is it a mount point, or in use?"
        raise ChangeError(why) from None


def commit(journal: Journal) -> None:
    """Let the new environment count from now on."""
    sync_file_system(journal.place.folder)
    journal.write(INSTALLED, inode=get_inode(journal.place.folder))
    finish(journal)


def finish(journal: Journal) -> None:
    """Take the marker away, and the environments kept by earlier installations."""
    place = journal.place
    with contextlib.suppress(FileNotFoundError):
        (place.folder / MARKER).unlink()
    for path in place.leftovers():
        if path != place.kept(journal.identity):
            remove_tree(path)
    journal.write(FINISHED)


def restore(journal: Journal, why: str) -> None:
    """Put the environment back as it was: two renames at most, whatever state it is in. Raises ChangeError, OSError."""
    begun = journal.last(BEGUN)
    with contextlib.suppress(OSError):  # a full disk must not keep the old environment away
        journal.write(RESTORING, why=why)
    if begun["existed"]:
        _put_back(journal, begun["inode"])
    elif journal.last(MADE) and journal.place.folder.exists():
        _put_aside(journal)
        if begun["inode"]:
            journal.place.folder.mkdir()  # there was an empty folder
    for path in journal.place.leftovers(journal.identity):
        with contextlib.suppress(OSError):  # the next installation tries again
            remove_tree(path)
    journal.write(RESTORED)


def _put_back(journal: Journal, inode: int) -> None:
    place, identity = journal.place, journal.identity
    old = next((path for path in _places(journal) if get_inode(path) == inode), None)
    if old is None:
        raise ChangeError(f"the environment as it was is at none of {', '.join(map(str, _places(journal)))}.")
    if old == place.folder:
        return
    if place.folder.exists():
        swap_folders(place.folder, old, place.aside(f"{identity}.aside"))
    else:
        old.rename(place.folder)


def _places(journal: Journal) -> tuple[Path, ...]:
    place, identity = journal.place, journal.identity
    return (place.folder, place.kept(identity), place.aside(identity))


def _put_aside(journal: Journal) -> None:
    """Take a new environment away in one rename; what is left of an earlier try goes first."""
    aside = journal.place.aside(journal.identity)
    remove_tree(aside)
    journal.place.folder.rename(aside)


def _mark(folder: Path, place: Place, identity: str) -> None:
    text = f"The installation {identity} into this environment has not come to its end.\n{resume_line(place)}\n"
    (folder / MARKER).write_text(text, encoding="utf-8")


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
    if begun["existed"] and get_inode(place.kept(named)) != begun["inode"]:
        raise UndoError(f"what was there before {named} is no longer kept: only the last installation can be undone.")
    there = get_inode(place.folder)
    if there not in {0, journal.last(INSTALLED)["inode"]}:
        raise UndoError(f"{place.folder} is another environment than {named} made: it is left as it is.")
    return journal


def changed_since(journal: Journal) -> tuple[str, ...]:
    """List the files of an environment that somebody made or changed after its installation."""
    at = calendar.timegm(time.strptime(journal.last(INSTALLED)["at"], "%Y-%m-%dT%H:%M:%SZ"))
    return tuple(list_changed_files(journal.place.folder, at + _SECOND))
