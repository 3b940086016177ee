"""A file tree held in memory, with symlinks, for recorded machines."""

from __future__ import annotations

import base64
import errno
import posixpath
from typing import Any, Dict, List, Mapping, Set

_LINKS = 40  # as Linux: more in one path is a loop


class FileTree:
    """Entries by absolute path: text, {"base64"}, {"link"}, {"error": "denied"}, {"kind": "char", "mode", …}."""

    def __init__(self, entries: Mapping[str, Any], folders: Mapping[str, List[str]]) -> None:
        self._entries = dict(entries)
        self._names: Dict[str, Set[str]] = {path: set(names) for path, names in folders.items()}
        for path in [*entries, *folders]:
            self._add_parents(path)

    def _add_parents(self, path: str) -> None:
        while path not in ("/", ""):
            parent, name = posixpath.split(path)
            self._names.setdefault(parent, set()).add(name)
            path = parent

    def resolve(self, path: str) -> str:
        """Follow every symlink; raises FileNotFoundError, or OSError(ELOOP)."""
        done, rest, links = "/", [part for part in path.split("/") if part], 0
        while rest:
            part = rest.pop(0)
            if part in (".", ".."):
                done = done if part == "." else posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            entry = self._entries.get(here)
            if isinstance(entry, dict) and "link" in entry:
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, "Too many levels of symbolic links", path)
                target = str(entry["link"])
                rest = [piece for piece in target.split("/") if piece] + rest
                done = "/" if target.startswith("/") else done
                continue
            if rest and isinstance(entry, dict) and "error" in entry:
                raise _error(str(entry["error"]), path)
            if here not in self._entries and here not in self._names:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            done = here
        return done

    def entry(self, path: str) -> Any:
        """Return the entry behind `path`, {"kind": "folder"} for a folder; denied entries raise."""
        real = self.resolve(path)
        entry = self._entries.get(real, {"kind": "folder"})
        if isinstance(entry, dict) and "error" in entry:
            raise _error(str(entry["error"]), path)
        return entry

    def content(self, path: str) -> bytes:
        """Return a regular file's bytes; anything else raises OSError."""
        entry = self.entry(path)
        if isinstance(entry, str):
            return entry.encode("utf-8")
        if "base64" in entry:
            return base64.b64decode(entry["base64"])
        if entry.get("kind", "file") == "file":
            return str(entry.get("text", "")).encode("utf-8")
        raise OSError(errno.EINVAL, f"{path} is a {entry['kind']}, not a regular file", path)

    def names(self, path: str) -> List[str]:
        """List a folder."""
        entry = self.entry(path)
        if entry != {"kind": "folder"}:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return sorted(self._names.get(self.resolve(path), set()))


def _error(name: str, path: str) -> OSError:
    if name == "denied":
        return PermissionError(errno.EACCES, "Permission denied", path)
    return OSError(errno.EIO, name, path)
