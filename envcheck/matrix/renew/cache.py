"""What was read of each wheel, kept by the wheel's hash: an interrupted renewal goes on where it stopped."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from envcheck.host.file_changes import write_atomically
from envcheck.matrix.renew.contents import Contents, from_json

EDITION = "1"  # part of the folder's name: another edition reads other members


def user_cache() -> Path:
    """Return the folder under the user's cache that renewals share."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("envcheck", appauthor=False)) / f"wheels-{EDITION}"


class Cache:
    """A folder of JSON files, one a wheel; a broken or unwritable one is as good as none."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is made when something is kept."""
        self.folder = folder

    def get(self, sha256: str) -> Contents | None:
        """Return what is kept of a wheel."""
        try:
            return from_json(json.loads(self._path(sha256).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    def put(self, sha256: str, contents: Contents) -> None:
        """Keep what was read of a wheel; written aside and renamed, so a reader never sees half of it."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(sha256), json.dumps(contents.to_json(), ensure_ascii=False))

    def _path(self, sha256: str) -> Path:
        return self.folder / f"{sha256}.json"
