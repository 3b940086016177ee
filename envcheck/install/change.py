"""Put a new environment in place of the old one so that one of them can always be told, and put the old one back."""

from __future__ import annotations

import contextlib
from pathlib import Path

from envcheck.host.file_changes import change_places, copy_tree, identity_of, remove_tree, write_through
from envcheck.install.journal import BEGUN, COPIED, FINISHED, INSTALLED, MADE, RESTORED, RESTORING, Journal
from envcheck.install.place import MARKER, Place, resume_line


class ChangeError(Exception):
    """The environment cannot be put in place, or put back; the message says where what lies."""


def begin(journal: Journal, requirements: tuple[str, ...]) -> None:
    """Write down what is there before anything is touched. An empty folder counts as none."""
    folder, asked = journal.place.folder, list(requirements)
    existed = journal.place.is_taken
    journal.write(BEGUN, existed=existed, inode=identity_of(folder), requirements=asked, folder=str(folder))


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
    write_through(copy)
    journal.write(COPIED, inode=identity_of(copy))
    try:
        change_places(place.folder, copy, place.aside(identity))
    except OSError as error:
        why = f"{place.folder} cannot be replaced ({error.strerror}): is it a mount point, or in use?"
        raise ChangeError(why) from None


def commit(journal: Journal) -> None:
    """Let the new environment count from now on."""
    write_through(journal.place.folder)
    journal.write(INSTALLED, inode=identity_of(journal.place.folder))
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
    old = next((path for path in _places(journal) if identity_of(path) == inode), None)
    if old is None:
        raise ChangeError(f"the environment as it was is at none of {', '.join(map(str, _places(journal)))}.")
    if old == place.folder:
        return
    if place.folder.exists():
        change_places(place.folder, old, place.aside(f"{identity}.aside"))
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
