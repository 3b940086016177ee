"""Where an environment lies, and what installations keep beside it."""

from __future__ import annotations

import re
from pathlib import Path

from envcheck.actions import type_here
from envcheck.model import MachineError, UserError, dataclass

MARKER = ".envcheck-incomplete"  # in an environment that is not whole yet
# in an environment that an installation made; it names that one, in a copy of the project too
MADE_BY = ".envcheck-installed"
# what the driver has in place of an environment; only what is kept beside it is there
DRIVER_FOLDER = Path("/var/lib/envcheck/driver")
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


def was_made_by(folder: Path, identity: str) -> bool:
    """Return whether an installation made what lies in a folder, complete or not."""
    files = (folder / name for name in (MADE_BY, MARKER))
    texts = (path.read_text("utf-8", "replace") for path in files if path.is_file())
    return any(identity in text.split() for text in texts)


def resume_line(place: Place) -> str:
    """Write the command that settles what did not come to its end."""
    if place.folder == DRIVER_FOLDER:
        return type_here("envcheck", "install", "driver", "--system", "--resume")
    return type_here("envcheck", "install", "--resume", "--env", str(place.folder))


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
        complete = type_here("envcheck", "fix", "--env", str(place.folder))
        raise MachineError(
            f"{place.folder} is an interrupted installation ({MARKER} is in it), and its journal is"
            f" gone: type `{complete}`."
        )
    is_named = bool(folder) and not place.folder.is_dir()  # by mistake
    return find_place(folder) if is_named or _list_places(folder) else None
