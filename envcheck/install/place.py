"""Where an environment lies, and where beside it an installation keeps its journal and the environment as it was."""

from __future__ import annotations

import os
import re
from pathlib import Path

from envcheck.model.quoting import quoted
from envcheck.model.records import dataclass

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
