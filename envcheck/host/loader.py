"""Find shared libraries in the order of glibc's loader.

DT_RPATH (of the file, its loaders and the program; none if the file has DT_RUNPATH),
LD_LIBRARY_PATH, DT_RUNPATH of the requesting file, the loader's cache, the default folders (man
ld.so). Subfolders for CPU features are not searched.
"""

from __future__ import annotations

import posixpath
import re
from typing import Dict, FrozenSet, Iterator, Optional, Sequence, Tuple

from envcheck.host.paths import get_multiarch_triple
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Unknown, dataclass, from_file

_MAX_TRIED = 30  # folders named when a library is not found


@dataclass
class FoundLibrary:
    """A library that the loader would open."""

    path: str  # real file
    via: str  # preload, rpath, LD_LIBRARY_PATH, runpath, ld.so cache, default, activation


class Loader:
    """The loader of one machine; each folder is listed once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._listed: Dict[str, Optional[FrozenSet[str]]] = {}
        environment = host.environment()
        self._preloaded = environment.get("LD_PRELOAD", "").replace(":", " ").split()
        # an empty or relative entry means the current folder, which is no property of the machine
        self._library_path = tuple(
            dict.fromkeys(
                entry
                for entry in re.split("[:;]", environment.get("LD_LIBRARY_PATH", ""))
                if entry.startswith("/")
            )
        )
        multiarch = get_multiarch_triple(host)
        folders = (
            "/lib/" + multiarch,
            "/usr/lib/" + multiarch,
            "/lib64",
            "/usr/lib64",
            "/lib",
            "/usr/lib",
        )
        self._default = tuple(filter(self.names, folders))

    def find(
        self, soname: str, rpath: Sequence[str] = (), runpath: Sequence[str] = ()
    ) -> Fact[FoundLibrary]:
        """Find `soname` for a file that has `runpath`, or inherits `rpath`."""
        for path, via in self.list_candidates(soname, rpath, runpath):
            real = self._host.real_path(path)
            if real.value is not None:
                return from_file(FoundLibrary(real.value, via), path)
        tried = (*rpath, *self._library_path, *runpath, "/etc/ld.so.cache", *self._default)[
            :_MAX_TRIED
        ]
        cache = self._host.loader_cache()
        if isinstance(cache, Unknown):
            return Unknown(
                cache.why, f"{soname}: the loader's cache could not be read: {cache.detail}", tried
            )
        return Absent(tried)

    def copies(self, soname: str, folders: Sequence[str]) -> Iterator[str]:
        """Yield the real files named `soname` in `folders`, searched by the loader or not."""
        for path in self._list_in_folders(soname, folders):
            real = self._host.real_path(path)
            if real.value is not None:
                yield real.value

    def names(self, folder: str) -> Optional[FrozenSet[str]]:
        """List a folder; None where it exists but cannot be listed."""
        if folder not in self._listed:
            names = self._host.list_folder(folder)
            self._listed[folder] = (
                None if isinstance(names, Unknown) else frozenset(names.value or ())
            )
        return self._listed[folder]

    def list_candidates(
        self, soname: str, rpath: Sequence[str] = (), runpath: Sequence[str] = ()
    ) -> Iterator[Tuple[str, str]]:
        """Yield the paths that the loader tries for a name, each with what leads to it."""
        for path in self._preloaded:
            if posixpath.basename(path) == soname and path.startswith("/"):
                yield path, "preload"
        for folders, via in (
            (rpath, "rpath"),
            (self._library_path, "LD_LIBRARY_PATH"),
            (runpath, "runpath"),
        ):
            for path in self._list_in_folders(soname, folders):
                yield (path, via)
        cache = self._host.loader_cache().value or {}
        for path in cache.get(soname, ()):
            yield (path, "ld.so cache")
        for path in self._list_in_folders(soname, self._default):
            yield (path, "default")

    def _list_in_folders(self, soname: str, folders: Sequence[str]) -> Iterator[str]:
        for folder in folders:
            names = self.names(folder)
            if names is None or soname in names:
                yield posixpath.join(folder, soname)


def parse_libstdcxx_name(path: str) -> Optional[str]:
    """Parse the newest GLIBCXX version in libstdc++'s real name, numbered alike since 4.1.

    Sample: 'libstdc++.so.6.0.30' -> 3.4.30. Reading the file would take longer than a whole probe.
    """
    match = re.search(r"(?:^|/)libstdc\+\+\.so\.6\.0\.(\d+)$", path)
    return f"3.4.{match.group(1)}" if match else None
