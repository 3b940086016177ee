"""Put an installation's environment in place, or restore the one before."""

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
from envcheck.host.interruption import allow_interrupts
from envcheck.install.journal import (
    COPIED,
    FINISHED,
    INSTALLED,
    MADE,
    RESTORED,
    RESTORING,
    STARTED,
    Journal,
)
from envcheck.install.places import MADE_BY, MARKER, Place, resume_line, was_made_by
from envcheck.model import UserError


class ChangeError(Exception):
    """The environment cannot be put in place or restored; the message says where each part lies."""


def begin(journal: Journal, requirements: tuple[str, ...]) -> None:
    """Record what is there before anything changes. An empty folder counts as none."""
    folder, asked = journal.place.folder, list(requirements)
    existed = journal.place.is_taken
    journal.write(
        STARTED, existed=existed, inode=get_inode(folder), requirements=asked, folder=str(folder)
    )


def put_in_place(journal: Journal, *, marked: bool = True) -> None:
    """Put a copy in an environment's place, or make a new folder, behind a marker.

    The environment as it was is kept itself, with all it links to; what changes is the copy.
    `marked`: False where the installer takes no folder that is there (conda).
    """
    place, identity = journal.place, journal.identity
    if not journal.last(STARTED)["existed"]:
        journal.write(MADE)
        if marked:
            place.folder.mkdir(exist_ok=True)
            _mark(place.folder, place, identity)
        return
    copy = place.kept(identity)
    with allow_interrupts():
        copy_tree(place.folder, copy)
        _mark(copy, place, identity)
        sync_file_system(copy)
    journal.write(COPIED, inode=get_inode(copy))
    try:
        swap_folders(place.folder, copy, place.aside(identity))
    except OSError as error:
        why = (
            f"{place.folder} cannot be replaced ({error.strerror}): is it a mount point, or in use?"
        )
        raise ChangeError(why) from None


def commit(journal: Journal) -> None:
    """Let the new environment count from now on."""
    _clear_activation(journal.place.folder)
    (journal.place.folder / MADE_BY).write_text(f"{journal.identity}\n", encoding="utf-8")
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
    """Put the environment back as it was: two renames at most, whatever state it is in.

    Raises ChangeError, OSError.
    """
    begun = journal.last(STARTED)
    with contextlib.suppress(OSError):  # a full disk must not keep the old environment away
        journal.write(RESTORING, why=why)
    if begun["existed"]:
        _put_back(journal, begun["inode"])
    elif journal.last(MADE) and journal.place.folder.exists():
        aside = journal.place.aside(journal.identity)
        remove_tree(aside)  # what is left of an earlier try
        journal.place.folder.rename(aside)  # a new environment goes in one rename
        if begun["inode"]:
            journal.place.folder.mkdir()  # there was an empty folder
    for path in journal.place.leftovers(journal.identity):
        with contextlib.suppress(OSError):  # the next installation tries again
            remove_tree(path)
    journal.write(RESTORED)


def _put_back(journal: Journal, inode: int) -> None:
    place, identity = journal.place, journal.identity
    old = _find_old(journal, inode)
    if old is None:
        raise ChangeError(
            f"the environment as it was is at none of {', '.join(map(str, _list_places(journal)))}."
        )
    if old == place.folder:
        return
    if place.folder.exists():
        swap_folders(place.folder, old, place.aside(f"{identity}.aside"))
    else:
        old.rename(place.folder)


def _find_old(journal: Journal, inode: int) -> Path | None:
    """Return where the environment as it was lies.

    What the installation made bears its name; where nothing does yet, the number of the folder
    tells.
    """
    there = [path for path in _list_places(journal) if path.exists()]
    others = [path for path in there if not was_made_by(path, journal.identity)]
    if others == there:
        others = [path for path in there if get_inode(path) == inode]
    return next(iter(others), None)


def _list_places(journal: Journal) -> tuple[Path, ...]:
    place, identity = journal.place, journal.identity
    return (place.folder, place.kept(identity), place.aside(identity))


def _mark(folder: Path, place: Place, identity: str) -> None:
    text = (
        f"The installation {identity} into this environment has not come to its"
        f" end.\n{resume_line(place)}\n"
    )
    (folder / MARKER).write_text(text, encoding="utf-8")
    warn_on_activation(folder)


_COMMENT = "# envcheck: until the installation is complete"
_WARNING = (
    "envcheck: the installation into this environment is not complete; its file"
    " .envcheck-incomplete says what to run."
)
_IN_POWERSHELL = (
    f'if (Test-Path "$env:VIRTUAL_ENV/{MARKER}") {{ [Console]::Error.WriteLine("{_WARNING}") }}'
)
_ACTIVATION = {  # a script that activates a venv -> the line that warns while the marker is there
    "bin/activate": f'if [ -e "$VIRTUAL_ENV/{MARKER}" ]; then echo "{_WARNING}" >&2; fi',
    "bin/activate.fish": f'test -e "$VIRTUAL_ENV/{MARKER}"; and echo "{_WARNING}" >&2',
    "bin/activate.csh": f'if ( -e "$VIRTUAL_ENV/{MARKER}" ) echo "{_WARNING}"',
    # of venv, of uv and virtualenv
    **dict.fromkeys(("bin/Activate.ps1", "bin/activate.ps1"), _IN_POWERSHELL),
}
_CONDA_SCRIPT = "etc/conda/activate.d/envcheck-incomplete.sh"


def warn_on_activation(folder: Path) -> None:
    """Let the scripts that activate an environment warn while its marker is there."""
    for name, line in _ACTIVATION.items():
        if (folder / name).is_file() and _COMMENT not in _read_script(folder / name):
            with (folder / name).open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(f"{line}  {_COMMENT}\n")
    if (folder / "conda-meta").is_dir():
        (folder / _CONDA_SCRIPT).parent.mkdir(parents=True, exist_ok=True)
        text = f'if [ -e "$CONDA_PREFIX/{MARKER}" ]; then echo "{_WARNING}" >&2; fi\n'
        (folder / _CONDA_SCRIPT).write_text(text, encoding="utf-8")


def _clear_activation(folder: Path) -> None:
    """Take the warnings back: nothing of them stays in the environment that counts."""
    for name in _ACTIVATION:
        script = folder / name
        if script.is_file() and _COMMENT in (text := _read_script(script)):
            lines = text.splitlines(keepends=True)
            rest = "".join(line for line in lines if not line.rstrip().endswith(_COMMENT))
            script.write_bytes(rest.encode("utf-8", "surrogateescape"))
    (folder / _CONDA_SCRIPT).unlink(missing_ok=True)


def _read_script(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


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
