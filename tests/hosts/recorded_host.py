"""Replay a machine from a recording, without reading the real one."""

from __future__ import annotations

import base64
import errno
import json
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.host.files import make_content_fact, read_as_fact
from envcheck.host.protocol import Completed, ElfFacts, FileStatus, SymbolNeed
from envcheck.model import NOT_COLLECTED, Absent, Fact, Known, Snapshot, Source, Unknown, decode
from envcheck.probes.collection import collect
from envcheck.probes.environment_choice import PythonSelection
from tests.model.decoding import decode_as

_MAX_LINKS = 40  # as Linux: more in one path is a loop
_LOADER_CACHE = "/etc/ld.so.cache"


class UnrecordedError(LookupError):
    """A probe requested something that the recording of a machine does not hold."""


class FileTree:
    """Entries by absolute path: text, {"base64"}, {"link"}, {"error": "denied"}, {"kind": "char", "mode", …}."""

    def __init__(self, entries: Mapping[str, Any], folders: Mapping[str, list[str]]) -> None:
        self._entries = dict(entries)
        self._names: dict[str, set[str]] = {path: set(names) for path, names in folders.items()}
        for path in [*entries, *folders]:
            self._add_parents(path)

    def _add_parents(self, path: str) -> None:
        while path not in ("/", ""):
            parent, name = posixpath.split(path)
            self._names.setdefault(parent, set()).add(name)
            path = parent

    def resolve(self, path: str) -> str:
        """Resolve every symlink; raises FileNotFoundError, or OSError(ELOOP)."""
        done, rest, links = "/", [part for part in path.split("/") if part], 0
        while rest:
            part = rest.pop(0)
            if part in (".", ".."):
                done = done if part == "." else posixpath.dirname(done)
                continue
            place = posixpath.join(done, part)
            entry = self._entries.get(place)
            if isinstance(entry, dict) and "link" in entry:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, "Too many levels of symbolic links", path)
                target = str(entry["link"])
                rest = [piece for piece in target.split("/") if piece] + rest
                done = "/" if target.startswith("/") else done
                continue
            if rest and isinstance(entry, dict) and "error" in entry:
                raise _make_error(str(entry["error"]), path)
            if place not in self._entries and place not in self._names:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            done = place
        return done

    def entry(self, path: str) -> Any:
        """Return the entry of a path, {"kind": "folder"} for a folder; raises the error of a denied entry."""
        entry = self._entries.get(self.resolve(path), {"kind": "folder"})
        if isinstance(entry, dict) and "error" in entry:
            raise _make_error(str(entry["error"]), path)
        return entry

    def content(self, path: str) -> bytes:
        """Return the bytes of a regular file; raises OSError for anything else."""
        entry = self.entry(path)
        if isinstance(entry, str):
            return entry.encode("utf-8")
        if "base64" in entry:
            return base64.b64decode(entry["base64"])
        if entry.get("kind", "file") == "file":
            return str(entry.get("text", "")).encode("utf-8")
        raise OSError(errno.EINVAL, f"{path} is a {entry['kind']}, not a regular file", path)

    def sizes(self, path: str) -> dict[str, int]:
        """Map the names in a folder to the sizes of its files, -1 for a folder."""
        paths = {name: posixpath.join(path, name) for name in self.names(path)}
        return {
            name: len(self.content(at)) if at in self._entries else -1 for name, at in paths.items()
        }

    def names(self, path: str) -> list[str]:
        """List a folder."""
        if self.entry(path) != {"kind": "folder"}:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return sorted(self._names.get(self.resolve(path), set()))


def _make_error(name: str, path: str) -> OSError:
    if name == "denied":
        return PermissionError(errno.EACCES, "Permission denied", path)
    return OSError(errno.EIO, name, path)


class RecordedHost:
    """Answer the probes from a recording, a JSON object.

    `files` and `folders` form a file tree; what it lacks is absent. `commands` are
    {"argv", "returncode", "stdout", "stderr"} or {"argv", "unknown": [why, detail]}; `answers` are
    {"script", "arguments", "python"} with "result", "unknown" or "absent". `elf` maps paths to
    dynamic sections, `loader_cache` sonames to paths. `calls` holds the literal answers of a
    recorded machine by method and argument, and takes precedence. A program in the tree without a
    recorded command raises UnrecordedError."""

    def __init__(self, recording: Mapping[str, Any]) -> None:
        self.system: str = recording.get("system", "linux")
        self._recording = recording
        self._tree = FileTree(recording.get("files", {}), recording.get("folders", {}))
        self._calls: Mapping[str, Mapping[str, Any]] = recording.get("calls", {})
        self.unrecorded: list[UnrecordedError] = []

    @classmethod
    def load(cls, path: Path) -> RecordedHost:
        """Load a recording from its JSON file."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def environment(self) -> Mapping[str, str]:
        """Return the recorded environment."""
        return dict(self._recording.get("environment", {}))

    def system_facts(self) -> Mapping[str, Any]:
        """Return the recorded system facts."""
        return dict(self._recording.get("system_facts", {}))

    def read_bytes(self, path: str, limit: int = 1 << 20) -> Fact[bytes]:
        """Read a recorded file."""
        text = self._replay_call("read_text", path, "Fact[str]")
        if text is not None:
            return (
                Known(text.value.encode("utf-8")[:limit], text.source)
                if isinstance(text, Known)
                else text
            )
        return read_as_fact(path, lambda: make_content_fact(self._tree.content(path)[:limit], path))

    def read_text(self, path: str, limit: int = 1 << 20) -> Fact[str]:
        """Read a recorded file as text."""
        data = self.read_bytes(path, limit)
        return (
            Known(data.value.decode("utf-8", "replace"), data.source)
            if isinstance(data, Known)
            else data
        )

    def list_folder(self, path: str) -> Fact[tuple[str, ...]]:
        """List a recorded folder."""
        return self._replay_call("list_folder", path, "Fact[Tuple[str, ...]]") or read_as_fact(
            path, lambda: Known(tuple(self._tree.names(path)), Source("file", path))
        )

    def list_sizes(self, path: str) -> Fact[Mapping[str, int]]:
        """Map the names in a recorded folder to the sizes of its files."""
        return self._replay_call("list_sizes", path, "Fact[Mapping[str, int]]") or read_as_fact(
            path, lambda: Known(self._tree.sizes(path), Source("file", path))
        )

    def list_changed(self, folder: str, since: str) -> tuple[str, ...]:
        """Know nothing of when files changed."""
        return ()

    def real_path(self, path: str) -> Fact[str]:
        """Resolve a recorded path."""
        return self._replay_call("real_path", path, "Fact[str]") or read_as_fact(
            path, lambda: Known(self._tree.resolve(path), Source("file", path))
        )

    def status(self, path: str) -> Fact[FileStatus]:
        """Stat a recorded path."""
        return self._replay_call("status", path, "Fact[FileStatus]") or read_as_fact(
            path, lambda: Known(_make_status(self._tree.entry(path)), Source("file", path))
        )

    def find_program(self, name: str) -> Fact[str]:
        """Find a program on the recorded PATH: each file is executable unless its mode says otherwise."""
        return self._replay_call("find_program", name, "Fact[str]") or self._search_path(name)

    def _search_path(self, name: str) -> Fact[str]:
        for folder in self.environment().get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"):
            path = posixpath.join(folder, name)
            status = self.status(path)
            if status.value is not None and status.value.kind == "file":
                if "x" not in status.value.mode:
                    return Unknown("denied", f"{path} is not executable", (path,))
                return Known(path, Source("file", path))
        return Absent((f"{name} on PATH",))

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 2.0,
        environment: Mapping[str, str] | None = None,
    ) -> Fact[Completed]:
        """Replay a recorded command."""
        for entry in self._recording.get("commands", []):
            if list(entry["argv"]) == list(argv):
                return _make_command_fact(entry, " ".join(argv))
        if isinstance(self.status(argv[0]), Absent):
            return Absent((argv[0],))
        raise self._make_unrecorded(f"command not recorded: {list(argv)}")

    def ask(
        self, script: str, *arguments: str, python: str = "", timeout: float = 3.0
    ) -> Fact[Mapping[str, Any]]:
        """Replay a recorded child script; an entry without "arguments" or "python" matches any."""
        for entry in self._recording.get("answers", []):
            recorded = (
                entry["script"],
                entry.get("arguments", list(arguments)),
                entry.get("python", python),
            )
            if recorded == (script, list(arguments), python):
                if "unknown" in entry:
                    return _make_unknown(entry["unknown"], script)
                if "absent" in entry:
                    return Absent(tuple(entry["absent"]))
                return Known(
                    entry["result"], Source("command", f"{script} {' '.join(arguments)}".strip())
                )
        raise self._make_unrecorded(
            f"child script not recorded: {script} {list(arguments)} in {python!r}"
        )

    def elf(self, path: str) -> Fact[ElfFacts]:
        """Replay a recorded dynamic section."""
        return self._replay_call("elf", path, "Fact[ElfFacts]") or self._read_section(path)

    def _read_section(self, path: str) -> Fact[ElfFacts]:
        sections: Mapping[str, dict[str, Any]] = self._recording.get("elf", {})
        if path in sections:
            return Known(
                decode(ElfFacts, {**_EMPTY_ELF, **sections[path]}),
                Source("file", path),
            )
        if isinstance(self.real_path(path), Absent):
            return Absent((path,))
        return Unknown("unparsable", f"{path}: its dynamic section was not recorded", (path,))

    def symbol_needs(
        self, path: str, prefixes: tuple[str, ...], libraries: tuple[str, ...]
    ) -> Fact[tuple[SymbolNeed, ...]]:
        """Say that a recording holds no symbols: they would be larger than all the rest."""
        return NOT_COLLECTED

    def lacking_symbols(
        self, path: str, needs: tuple[SymbolNeed, ...]
    ) -> Fact[tuple[SymbolNeed, ...]]:
        """Say that a recording holds no symbols."""
        return NOT_COLLECTED

    def loader_cache(self) -> Fact[Mapping[str, tuple[str, ...]]]:
        """Replay the recorded loader cache; absent where none was recorded."""
        cache = self._recording.get("loader_cache")
        if cache is None:
            return Absent((_LOADER_CACHE,))
        if "unknown" in cache:
            return _make_unknown(cache["unknown"], _LOADER_CACHE)
        return Known(
            {name: tuple(paths) for name, paths in cache.items()}, Source("file", _LOADER_CACHE)
        )

    def _make_unrecorded(self, message: str) -> UnrecordedError:
        self.unrecorded.append(UnrecordedError(message))
        return self.unrecorded[-1]

    def _replay_call(self, method: str, argument: str, annotation: str) -> Any:
        """Return the literal answer of a recorded call, None without one."""
        answers = self._calls.get(method, {})
        return (
            decode_as(annotation, RecordedHost, answers[argument]) if argument in answers else None
        )


def collect_recording(host: RecordedHost, selection: PythonSelection | None = None) -> Snapshot:
    """Collect the facts of a recorded machine; raises UnrecordedError where its recording is incomplete."""
    snapshot = collect(host, selection or PythonSelection())
    if host.unrecorded:
        raise host.unrecorded[0]
    return snapshot


_EMPTY_ELF: dict[str, Any] = {
    "machine": "x86_64",
    "soname": "",
    "needed": [],
    "runpath": [],
    "versions_needed": [],
    "versions_defined": [],
}


def _make_unknown(reason: Sequence[str], place: str) -> Unknown:
    return Unknown(reason[0], reason[1], (place,))


def _make_status(entry: Any) -> FileStatus:
    if not isinstance(entry, dict):
        entry = {"size": len(entry)}
    return FileStatus(
        kind=entry.get("kind", "file"),
        size=entry.get("size", 0),
        mode=entry.get("mode", "-rwxr-xr-x"),
        owner=entry.get("owner", "0:0"),
        readable=entry.get("readable", True),
        writable=entry.get("writable", True),
    )


def _make_command_fact(entry: Mapping[str, Any], command: str) -> Fact[Completed]:
    if "unknown" in entry:
        return _make_unknown(entry["unknown"], command)
    done = Completed(entry.get("returncode", 0), entry.get("stdout", ""), entry.get("stderr", ""))
    return Known(done, Source("command", command, done.first_line))
