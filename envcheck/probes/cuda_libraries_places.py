"""Where a copy of cuDNN, TensorRT or NCCL may lie."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Mapping, Set, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Known, value_of
from envcheck.model.records import dataclass
from envcheck.probes.cuda_libraries_kinds import LibraryKind
from envcheck.probes.toolkit_paths import base_name, folders_in, join, multiarch_triple, parent
from envcheck.probes.toolkit_places import find_places
from envcheck.probes.toolkit_wheels import site_packages

_SYSTEM_LIBRARIES = r"^(/usr)?/lib(64|32|/[^/]*-linux-gnu)?$"


@dataclass(frozen=True)
class LibraryPlace:
    """Folders whose headers and libraries belong together."""

    root: str
    origin: str  # as LibraryInstall.origin
    headers: Tuple[str, ...]
    libraries: Tuple[str, ...]


class Survey:
    """What all three libraries' searches share: each folder is listed once, only our names are kept."""

    def __init__(self, host: Host, kinds: Tuple[LibraryKind, ...]) -> None:
        self.host = host
        self.toolkits = find_places(host)
        self.sites = site_packages(host)
        self._stems = tuple(f"lib{kind.stem}.so" for kind in kinds)
        self._dlls = "|".join(kind.dll for kind in kinds)
        self._names: Dict[str, Tuple[str, ...]] = {}
        self.loader_folders = self._in_loader_cache()

    def names(self, folder: str) -> Tuple[str, ...]:
        """Return our libraries' names in a folder; none where it is not there or not readable."""
        if folder not in self._names:
            listed = self.host.list_folder(folder)
            names = listed.value if isinstance(listed, Known) else ()
            self._names[folder] = tuple(filter(self._is_ours, names))
        return self._names[folder]

    def _is_ours(self, name: str) -> bool:
        return name.startswith(self._stems) or (name.endswith(".dll") and re.search(self._dlls, name) is not None)

    def _in_loader_cache(self) -> Tuple[str, ...]:
        cache = self.host.loader_cache()
        known: Mapping[str, Tuple[str, ...]] = cache.value if isinstance(cache, Known) else {}
        paths = [path for soname in known if self._is_ours(soname) for path in known[soname]]
        real = [self.host.real_path(folder) for folder in dict.fromkeys(map(parent, paths))]
        return tuple(dict.fromkeys(folder.value for folder in real if isinstance(folder, Known)))


def library_places(survey: Survey, kind: LibraryKind) -> Tuple[LibraryPlace, ...]:
    """Return every place; a folder two places would share stays with the first of them."""
    places: List[LibraryPlace] = []
    taken: Set[str] = set()  # real library folders
    roots: Set[str] = set()
    for place in _all_places(survey, kind):
        fresh: Dict[str, None] = {}
        for folder in place.libraries:
            real = survey.host.real_path(folder) if survey.names(folder) else None
            if isinstance(real, Known) and real.value not in taken:
                fresh[real.value] = None
        taken.update(fresh)
        root = value_of(survey.host.real_path(place.root))
        headers = () if root is None or root in roots else place.headers
        roots.add(root or place.root)
        if headers or fresh:
            places.append(LibraryPlace(place.root, place.origin, headers, tuple(fresh)))
    return tuple(places)


def _all_places(survey: Survey, kind: LibraryKind) -> Iterator[LibraryPlace]:
    host = survey.host
    for toolkit in survey.toolkits:
        if toolkit.origin in ("debian", "wheels") or toolkit.root in ("/", "/usr"):
            continue  # no folder of its own: the other searches meet what lies there
        origin = toolkit.origin if toolkit.origin in ("conda", "environment") else "toolkit"
        yield LibraryPlace(toolkit.root, origin, toolkit.headers, toolkit.libraries)
    yield from _wheel_places(survey, kind)
    if host.system == "linux":
        yield from _system_places(survey)
    for variable in kind.variables:
        root = host.environment().get(variable)
        if root:
            yield LibraryPlace(root, "environment", (join(host, root, "include"),), _library_folders(host, root))
    for folder in folders_in(host, "PATH" if host.system == "windows" else "LD_LIBRARY_PATH"):
        if survey.names(folder):
            yield _around(host, folder, "environment")


def _wheel_places(survey: Survey, kind: LibraryKind) -> Iterator[LibraryPlace]:
    for site in survey.sites:
        for folder in kind.wheel_folders:
            root = join(survey.host, site, *folder.split("/"))
            libraries = (join(survey.host, root, "lib"), join(survey.host, root, "bin"), root)
            yield LibraryPlace(root, "wheels", (join(survey.host, root, "include"),), libraries)


def _system_places(survey: Survey) -> Iterator[LibraryPlace]:
    triple = multiarch_triple(survey.host)
    # Listed, not only looked up in the loader's cache: that leaves out links that dangle, which is how a
    # declined download of Debian's nvidia-cudnn shows, and is old where ldconfig did not run.
    libraries = (f"/usr/lib/{triple}", "/usr/lib64", "/usr/lib")
    yield LibraryPlace("/usr", "system", ("/usr/include", f"/usr/include/{triple}"), libraries)
    yield LibraryPlace("/usr/local", "system", ("/usr/local/include",), ("/usr/local/lib",))
    for folder in survey.loader_folders:
        if not re.search(_SYSTEM_LIBRARIES, folder):
            yield _around(survey.host, folder, "system")


def _around(host: Host, folder: str, origin: str) -> LibraryPlace:
    root = parent(folder) if base_name(folder) in ("lib", "lib64", "bin") else folder
    return LibraryPlace(root, origin, (join(host, root, "include"),), (folder,))


def _library_folders(host: Host, root: str) -> Tuple[str, ...]:
    names = ("bin", "lib") if host.system == "windows" else ("lib64", "lib")
    return tuple(join(host, root, name) for name in names)
