"""Find shared libraries in the order in which the loader of glibc does.

DT_RPATH (its own, its loaders', the program's; none of them when the file has DT_RUNPATH), LD_LIBRARY_PATH,
DT_RUNPATH of the file that asks, the loader's cache, the default folders. Hardware subfolders are not modelled.
"""

from __future__ import annotations

import posixpath
from typing import Dict, FrozenSet, Iterator, List, Optional, Sequence, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Source, Unknown, dataclass

_TRIED = 30  # folders named when a library is nowhere


@dataclass(frozen=True)
class FoundLibrary:
    """A library as the loader would open it."""

    path: str  # real file
    via: str  # preload, rpath, LD_LIBRARY_PATH, runpath, ld.so cache, default, activation


class Loader:
    """The loader's view of one machine; each folder is listed once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._listed: Dict[str, Optional[FrozenSet[str]]] = {}
        environment = host.environment()
        self._preloaded = environment.get("LD_PRELOAD", "").replace(":", " ").split()
        entries = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        # An empty or relative entry means the current folder, which says nothing of the machine: left out.
        self._library_path = tuple(dict.fromkeys(entry for entry in entries if entry.startswith("/")))
        machine = str(host.system_facts().get("machine", "x86_64"))
        multiarch = "{}-linux-gnu".format({"arm64": "aarch64", "i686": "i386"}.get(machine, machine))
        folders = ("/lib/" + multiarch, "/usr/lib/" + multiarch, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
        self._default = tuple(folder for folder in folders if self.names(folder))

    def find(self, soname: str, rpath: Sequence[str] = (), runpath: Sequence[str] = ()) -> Fact[FoundLibrary]:
        """Find `soname` for a file that has `runpath`, or inherits `rpath`."""
        for path in self._preloaded:
            if posixpath.basename(path) == soname and path.startswith("/"):
                found = self._open(path, "preload")
                if found is not None:
                    return found
        for path, via in self._candidates(soname, rpath, runpath):
            found = self._open(path, via)
            if found is not None:
                return found
        cache = self._host.loader_cache()
        tried = (*rpath, *self._library_path, *runpath, "/etc/ld.so.cache", *self._default)[:_TRIED]
        if isinstance(cache, Unknown):
            return Unknown(cache.why, f"{soname}: the loader's cache could not be read: {cache.detail}", tried)
        return Absent(tried)

    def copies(self, soname: str, folders: Sequence[str]) -> Iterator[str]:
        """Yield the real files named `soname` in `folders`, whether the loader looks there or not."""
        for path in self._in_folders(soname, folders):
            real = self._host.real_path(path)
            if isinstance(real, Known):
                yield real.value

    def names(self, folder: str) -> Optional[FrozenSet[str]]:
        """List a folder; None when it is there but cannot be listed."""
        if folder not in self._listed:
            names = self._host.list_folder(folder)
            denied = isinstance(names, Unknown)
            self._listed[folder] = None if denied else frozenset(names.value if isinstance(names, Known) else ())
        return self._listed[folder]

    def _candidates(self, soname: str, rpath: Sequence[str], runpath: Sequence[str]) -> Iterator[Tuple[str, str]]:
        told: List[Tuple[Sequence[str], str]] = [
            (rpath, "rpath"), (self._library_path, "LD_LIBRARY_PATH"), (runpath, "runpath"),
        ]  # fmt: skip
        for folders, via in told:
            yield from ((path, via) for path in self._in_folders(soname, folders))
        cache = self._host.loader_cache()
        if isinstance(cache, Known):
            yield from ((path, "ld.so cache") for path in cache.value.get(soname, ()))
        yield from ((path, "default") for path in self._in_folders(soname, self._default))

    def _in_folders(self, soname: str, folders: Sequence[str]) -> Iterator[str]:
        for folder in folders:
            names = self.names(folder)
            if names is None or soname in names:
                yield posixpath.join(folder, soname)

    def _open(self, path: str, via: str) -> Optional[Known[FoundLibrary]]:
        real = self._host.real_path(path)
        return Known(FoundLibrary(real.value, via), Source("file", path)) if isinstance(real, Known) else None
