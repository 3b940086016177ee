"""Keep an installation's journal, and put its environment in place or restore it."""

from __future__ import annotations

import calendar
import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from envcheck.actions import shell_line
from envcheck.host.file_changes import (
    append_durably,
    copy_tree,
    get_inode,
    list_changed_files,
    remove_tree,
    swap_folders,
    sync_file_system,
)
from envcheck.host.interruption import allow_interrupts
from envcheck.model import MachineError, UserError, dataclass

MARKER = ".envcheck-incomplete"  # in an environment that is not whole yet
_STATE = ".envcheck-"
_ID = r"\d{8}T\d{6}-\d+"


@dataclass
class Place:
    """An environment's folder (absolute, no link) and the folder beside it.

    Both are on the same file system.
    """

    folder: Path
    state: Path

    @property
    def is_taken(self) -> bool:
        """Return whether something lies there: an empty folder counts as nothing."""
        return self.folder.is_dir() and any(self.folder.iterdir())

    @property
    def lock(self) -> Path:
        """Return the file that an installation locks."""
        return self.state / "lock"

    def journal(self, identity: str) -> Path:
        """Return an installation's journal."""
        return self.state / f"{identity}.jsonl"

    def log(self, identity: str) -> Path:
        """Return what an installation's steps printed."""
        return self.state / f"{identity}.log"

    def kept(self, identity: str) -> Path:
        """Return the copy before it replaces the environment, and the environment afterwards."""
        return self.state / f"{identity}.kept"

    def aside(self, identity: str) -> Path:
        """Return where a folder lies that is on its way out."""
        return self.state / f"{identity}.aside"

    def identities(self) -> tuple[str, ...]:
        """List the installations that left a journal, oldest first."""
        if self.state.is_dir():
            names = [path.name for path in self.state.iterdir()]
        else:
            names = []
        return tuple(sorted(name[:-6] for name in names if re.fullmatch(rf"{_ID}\.jsonl", name)))

    def leftovers(self, identity: str = "") -> tuple[Path, ...]:
        """List the environments that one installation, or any, left beside the current one."""
        found = (path for path in self.state.iterdir() if path.name.startswith(identity))
        return tuple(path for path in found if ".kept" in path.name or ".aside" in path.name)


def type_line(*words: str) -> str:
    """Write a command for the shells of this machine."""
    return shell_line(words, "windows" if os.name == "nt" else "")


def resume_line(place: Place) -> str:
    """Write the command that settles what did not come to its end."""
    return type_line("envcheck", "install", "--resume", "--env", str(place.folder))


def place_of(folder: str | Path) -> Place:
    """Return the place of an environment's folder, which need not be there."""
    real = Path(folder).resolve()
    return Place(real, real.parent / (_STATE + real.name))


DEFAULT_FOLDERS = (".venv", ".conda-env")  # for pip and uv, for conda


def _list_places(folder: str) -> tuple[Place, ...]:
    """List the environments that envcheck has installed into.

    The named one, or those of this folder.
    """
    names = [folder]
    if not folder:  # if a usual one is a link, its journals lie beside its target
        states = sorted(path.name for path in Path().iterdir() if path.name.startswith(_STATE))
        names = [*(name[len(_STATE) :] for name in states), *DEFAULT_FOLDERS]
    found = (place_of(name) for name in names if name)
    return tuple(dict.fromkeys(place for place in found if place.identities()))


def find_place(folder: str) -> Place:
    """Return the named folder, or the only one here that envcheck installed into.

    Raises UserError and OSError.
    """
    found = _list_places(folder)
    if len(found) == 1:
        return found[0]
    if folder:
        raise UserError(f"envcheck has never installed into {place_of(folder).folder}.")
    names = ", ".join(str(place.folder) for place in found) or "no environment"
    raise UserError(
        f"name the environment with --env: envcheck has installed into {names} in this folder."
    )


def find_resumable(folder: str) -> Place | None:
    """Return the environment to resume; None where envcheck has installed into none.

    Raises as `find_place` does.
    """
    place = place_of(folder or DEFAULT_FOLDERS[0])
    if (place.folder / MARKER).exists() and not place.identities():
        complete = type_line("envcheck", "fix", "--env", str(place.folder))
        raise MachineError(
            f"{place.folder} is an interrupted installation ({MARKER} is in it), and its journal is"
            f" gone: type `{complete}`."
        )
    is_named = bool(folder) and not place.folder.is_dir()  # by mistake
    return find_place(folder) if is_named or _list_places(folder) else None


STARTED = "begun"  # existed, inode, requirements: nothing is touched yet
COPIED = "copied"  # inode: the copy is whole, and on the disk
MADE = "made"  # the folder of a new environment is about to be made
STEP = "step"  # id, argv; of the machine: undo, lasting
DONE_STEP = "step-done"  # id
VERIFYING = "verifying"
INSTALLED = "installed"  # from here on the new environment counts
FINISHED = "finished"  # its marker and older environments are gone
RESTORING = "restoring"  # why
RESTORED = "restored"  # from here on the environment is as it was
LAST = (FINISHED, RESTORED)
_REQUIRED: dict[str, dict[str, type]] = {  # required keys of an event
    STARTED: {"existed": bool, "inode": int},
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
        append_durably(
            str(self._path), json.dumps({"event": event, "at": at, **told}, ensure_ascii=False)
        )

    def lines(self) -> tuple[Line, ...]:
        """Read the journal; none is there before the first line."""
        if not self._path.exists():
            return ()
        return tuple(_parsed(self._path.read_text(encoding="utf-8", errors="replace")))

    def last(self, event: str) -> Line:
        """Return the last line of an event; an empty one if there is none."""
        return next((line for line in reversed(self.lines()) if line["event"] == event), {})

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is left to finish or to restore."""
        lines = self.lines()
        return lines[-1]["event"] in LAST if lines else not self.is_broken

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


def _parsed(text: str) -> list[Line]:
    """Parse a journal, without lines that were cut off or that somebody added.

    {"event": "begun", "at": "2026-11-21T07:00:00Z", "existed": false, "inode": 0} {"event": "step",
    "at": "2026-11-21T07:00:01Z", "id": "install", "argv": [".venv/bin/python", "-m", "pip"]}
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
    return all(type(told.get(name)) is kind for name, kind in _REQUIRED.get(event, {}).items())


def new_identity(place: Place, process: int) -> str:
    """Name an installation by its time and process, later than all before it."""
    identity = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{process}"
    before = place.identities()
    if not before or identity > before[-1]:
        return identity
    return f"{before[-1].partition('-')[0]}-{_after(before[-1])}"


def _after(identity: str) -> int:
    return int(identity.partition("-")[2]) + 1


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
        raise ChangeError(
            f"the environment as it was is at none of {', '.join(map(str, _places(journal)))}."
        )
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
            f"{place.journal(named)} does not record what was there before {named}: it cannot be"
            " undone."
        )
    if begun["existed"] and get_inode(place.kept(named)) != begun["inode"]:
        raise UserError(
            f"what was there before {named} is no longer kept: only the last installation can be"
            " undone."
        )
    there = get_inode(place.folder)
    if there not in {0, journal.last(INSTALLED)["inode"]}:
        raise UserError(
            f"{place.folder} is not the environment that {named} made: it is left as it is."
        )
    return journal


def changed_since(journal: Journal) -> tuple[str, ...]:
    """List the files of an environment that somebody made or changed after its installation."""
    at = calendar.timegm(time.strptime(journal.last(INSTALLED)["at"], "%Y-%m-%dT%H:%M:%SZ"))
    return tuple(list_changed_files(journal.place.folder, at + _SECOND))
