"""Find every copy of cuDNN, TensorRT and NCCL, and read the versions that its header, library and package state."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from envcheck.host.data_files import read_data
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, LibraryInstall, Source, Unknown, dataclass, get_value
from envcheck.probes.toolkit_places import (
    find_places,
    get_base_name,
    get_multiarch_triple,
    get_parent,
    join_path,
    list_folders_in,
    list_site_packages,
)


@functools.lru_cache(maxsize=1)
def load_cuda_data() -> Mapping[str, Any]:
    """Return data/cuda_libraries.json."""
    table: Mapping[str, Any] = json.loads(read_data("cuda_libraries.json"))
    return table


def list_framework_names() -> Tuple[str, ...]:
    """Return the names of all distributions that hold a framework; JAX's CUDA plugins are jax-cuda* besides."""
    data = load_cuda_data()
    return (*data["tensorflow"]["distributions"], *data["torch"]["distributions"], *data["jax"]["distributions"])


@dataclass(frozen=True)
class LibraryKind:
    """The names one library goes by; patterns are regular expressions."""

    name: str  # as LibraryInstall.library
    headers: Tuple[str, ...]  # in the order they are tried
    macros: Tuple[Tuple[str, ...], ...]  # for major, minor, patch: the macro and what it may be an alias of
    stem: str  # of libSTEM.so.N
    dll: str  # pattern of the Windows library
    wheel_folders: Tuple[str, ...]  # below site-packages
    wheel: str  # pattern of the dist-info folder: groups cuda (or none) and version
    debian: Tuple[str, ...]  # beginnings of package names
    conda: str  # package name
    variables: Tuple[str, ...]  # that name its root


TENSORRT = LibraryKind(
    name="tensorrt",
    headers=("NvInferVersion.h", "NvInfer.h"),
    # from 10.13 on NV_TENSORRT_MAJOR is defined as TRT_MAJOR_ENTERPRISE
    macros=(
        ("NV_TENSORRT_MAJOR", "TRT_MAJOR_ENTERPRISE"),
        ("NV_TENSORRT_MINOR", "TRT_MINOR_ENTERPRISE"),
        ("NV_TENSORRT_PATCH", "TRT_PATCH_ENTERPRISE"),
    ),
    stem="nvinfer",
    dll=r"^nvinfer(?:_(\d+))?\.dll$",
    wheel_folders=("tensorrt_libs", "tensorrt"),
    wheel=r"^(?:nvidia_)?tensorrt(?:_cu(?P<cuda>\d+))?(?:_libs)?-(?P<version>[\d.]+)\S*\.dist-info$",
    debian=("libnvinfer",),
    conda="tensorrt",
    variables=("TENSORRT_ROOT", "TENSORRT_DIR"),
)

NCCL = LibraryKind(
    name="nccl",
    headers=("nccl.h",),
    macros=(("NCCL_MAJOR",), ("NCCL_MINOR",), ("NCCL_PATCH",)),
    stem="nccl",
    dll=r"^nccl\.dll$",
    wheel_folders=("nvidia/nccl",),
    wheel=r"^nvidia_nccl(?:_cu(?P<cuda>\d+))?-(?P<version>[\d.]+)\.dist-info$",
    debian=("libnccl",),
    conda="nccl",
    variables=("NCCL_HOME", "NCCL_ROOT"),
)


_HEADER_BYTES = 1 << 17  # nccl.h and the old cudnn.h define their version near the top


def parse_version_macros(text: str, macros: Tuple[Tuple[str, ...], ...]) -> Optional[str]:
    """Return major.minor.patch from the first number any of each part's macros is defined as.

    #define CUDNN_MAJOR 8
    #define CUDNN_MINOR 9
    #define CUDNN_PATCHLEVEL 7
    """
    parts = []
    for names in macros:
        match = re.search(rf"^[ \t]*#[ \t]*define[ \t]+(?:{'|'.join(names)})[ \t]+(\d+)\b", text, re.MULTILINE)
        if match is None:
            return None
        parts.append(match.group(1))
    return ".".join(parts)


def read_headers(host: Host, kind: LibraryKind, folders: Tuple[str, ...]) -> Dict[str, Tuple[str, Fact[str]]]:
    """Return major -> (header, version); the key "" holds a header that could not be read, alone."""
    found: Dict[str, Tuple[str, Fact[str]]] = {}
    unread: List[Tuple[str, Fact[str]]] = []
    for folder in folders:
        for name in kind.headers:
            path = join_path(host, folder, name)
            text = host.read_text(path, _HEADER_BYTES)
            version = parse_version_macros(text.value, kind.macros) if isinstance(text, Known) else None
            if version is not None:
                fact = Known(version, Source("file", path, f"{kind.macros[0][0]} {version.split('.')[0]} ..."))
                found.setdefault(version.split(".")[0], (path, fact))
            elif isinstance(text, Unknown):
                unread.append((path, text))
            elif isinstance(text, Known) and name == kind.headers[0]:
                unread.append((path, Unknown("unparsable", f"{path} defines no {kind.macros[0][0]}", (path,))))
    return found or ({"": unread[0]} if unread else {})


CUDNN = LibraryKind(
    name="cudnn",
    # Up to 7 the macros stand in cudnn.h; from 8 on that only includes cudnn_version.h, which on Debian is
    # an alternative to choose between cudnn_version_v8.h and cudnn_version_v9.h.
    headers=("cudnn_version.h", "cudnn_version_v9.h", "cudnn_version_v8.h", "cudnn.h"),
    # the three macros, not CUDNN_VERSION: its formula changed at 9 (8902 is 8.9.2, 90100 is 9.1.0)
    macros=(("CUDNN_MAJOR",), ("CUDNN_MINOR",), ("CUDNN_PATCHLEVEL",)),
    stem="cudnn",
    dll=r"^cudnn64_(\d+)\.dll$",
    wheel_folders=("nvidia/cudnn",),
    wheel=r"^nvidia_cudnn(?:_cu(?P<cuda>\d+))?-(?P<version>[\d.]+)\.dist-info$",
    debian=("libcudnn", "nvidia-cudnn", "cudnn9"),
    conda="cudnn",
    variables=("CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT", "CUDNN_ROOT_DIR"),
)


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
        self.sites = list_site_packages(host)
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
        real = [self.host.real_path(folder) for folder in dict.fromkeys(map(get_parent, paths))]
        return tuple(dict.fromkeys(folder.value for folder in real if isinstance(folder, Known)))


def find_library_places(survey: Survey, kind: LibraryKind) -> Tuple[LibraryPlace, ...]:
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
        root = get_value(survey.host.real_path(place.root))
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
            yield LibraryPlace(root, "environment", (join_path(host, root, "include"),), _library_folders(host, root))
    for folder in list_folders_in(host, "PATH" if host.system == "windows" else "LD_LIBRARY_PATH"):
        if survey.names(folder):
            yield _around(host, folder, "environment")


def _wheel_places(survey: Survey, kind: LibraryKind) -> Iterator[LibraryPlace]:
    for site in survey.sites:
        for folder in kind.wheel_folders:
            root = join_path(survey.host, site, *folder.split("/"))
            libraries = (join_path(survey.host, root, "lib"), join_path(survey.host, root, "bin"), root)
            yield LibraryPlace(root, "wheels", (join_path(survey.host, root, "include"),), libraries)


def _system_places(survey: Survey) -> Iterator[LibraryPlace]:
    triple = get_multiarch_triple(survey.host)
    # Listed, not only looked up in the loader's cache: that leaves out links that dangle, which is how a
    # declined download of Debian's nvidia-cudnn shows, and is old where ldconfig did not run.
    libraries = (f"/usr/lib/{triple}", "/usr/lib64", "/usr/lib")
    yield LibraryPlace("/usr", "system", ("/usr/include", f"/usr/include/{triple}"), libraries)
    yield LibraryPlace("/usr/local", "system", ("/usr/local/include",), ("/usr/local/lib",))
    for folder in survey.loader_folders:
        if not re.search(_SYSTEM_LIBRARIES, folder):
            yield _around(survey.host, folder, "system")


def _around(host: Host, folder: str, origin: str) -> LibraryPlace:
    root = get_parent(folder) if get_base_name(folder) in ("lib", "lib64", "bin") else folder
    return LibraryPlace(root, origin, (join_path(host, root, "include"),), (folder,))


def _library_folders(host: Host, root: str) -> Tuple[str, ...]:
    names = ("bin", "lib") if host.system == "windows" else ("lib64", "lib")
    return tuple(join_path(host, root, name) for name in names)


_DPKG_STATUS = "/var/lib/dpkg/status"
_DPKG_BYTES = 32 << 20  # 5 MB on a desktop; read only where a system-wide copy was found


@dataclass(frozen=True)
class Package:
    """A package's version, and the CUDA major its name or version tells."""

    version: Fact[str]
    cuda_major: Fact[str]


def find_package(host: Host, kind: LibraryKind, place: LibraryPlace, major: str) -> Package:
    """Look up the package in the records of whoever installs into such a place."""
    if place.origin == "wheels":
        package = _from_wheels(host, kind, place)
    elif place.origin == "conda":
        package = _from_conda(host, kind, place)
    elif place.origin == "system" and place.root == "/usr":
        package = _from_dpkg(host, kind, major)
    else:
        package = Package(Absent((f"no package manager installs into {place.root}",)), Absent((place.root,)))
    if isinstance(package.cuda_major, Known):
        return package
    return Package(package.version, parse_cuda_major(place.root) or package.cuda_major)


def parse_cuda_major(root: str) -> Optional[Fact[str]]:
    r"""Return the CUDA major in a path: /usr/local/cuda-11.8, .../hpc_sdk/.../cuda/12.4, C:\...\CUDA\v12.6."""
    match = re.search(r"[/\\]cuda(?:-|[/\\]v?)(\d+)(?:[./\\-]|$)", root, re.IGNORECASE)
    return Known(match.group(1), Source("file", root, match.group(0).strip("/\\"))) if match else None


def parse_dpkg_status(text: str, beginnings: Tuple[str, ...]) -> Mapping[str, str]:
    """Return name -> version of the installed packages whose names begin so.

    Package: libcudnn8
    Status: install ok installed
    Version: 8.9.2.26-1+cuda12.1

    A stanza of a removed package stays, with another status.
    """
    found = {}
    for beginning in beginnings:
        mark, position = "\nPackage: " + beginning, -1
        text = text if text.startswith("\n") else "\n" + text
        while True:
            position = text.find(mark, position + 1)
            if position < 0:
                break
            stanza = text[position : text.find("\n\n", position) + 1 or None]
            version = re.search(r"^Version: (\S+)", stanza, re.MULTILINE)
            if version and re.search(r"^Status: \S+ \S+ installed$", stanza, re.MULTILINE):
                found[stanza.split("\n")[1].split(": ", 1)[1].strip()] = version.group(1)
    return found


def _from_wheels(host: Host, kind: LibraryKind, place: LibraryPlace) -> Package:
    site = place.root[: -len(_below_site(kind, place.root)) - 1]
    names = host.list_folder(site)
    matches = [re.search(kind.wheel, name) for name in (names.value if isinstance(names, Known) else ())]
    found = [match for match in matches if match]
    if not found:
        reason = names if isinstance(names, Unknown) else Absent((f"{kind.wheel} in {site}",))
        return Package(reason, reason)
    told = ", ".join(match.group(0) for match in found)
    if len({match.group("version") for match in found}) > 1:  # one folder: the last one written is what is there
        reason = Unknown("conflict", f"these wheels share {place.root}: {told}", (site,))
        return Package(reason, reason)
    source = Source("file", site, told)
    cuda = [match.group("cuda") for match in found if match.group("cuda")]
    return Package(Known(found[0].group("version"), source), Known(cuda[0], source) if cuda else Absent((told,)))


def _below_site(kind: LibraryKind, root: str) -> str:
    return next(folder for folder in kind.wheel_folders if root.replace("\\", "/").endswith("/" + folder))


def _from_conda(host: Host, kind: LibraryKind, place: LibraryPlace) -> Package:
    prefix = get_parent(place.root) if place.root.endswith("\\Library") else place.root
    records = join_path(host, prefix, "conda-meta")
    names = host.list_folder(records)
    for name in names.value if isinstance(names, Known) else ():
        match = re.search(rf"^{kind.conda}-(\d[\d.]*)-([^-]+)\.json$", name)
        if match:
            path = join_path(host, records, name)
            version = Known(match.group(1), Source("file", path, name))
            return Package(version, _cuda_of_conda(host, path, match.group(2)))
    reason = names if isinstance(names, Unknown) else Absent((f"{kind.conda}-* in {records}",))
    return Package(reason, reason)


def _cuda_of_conda(host: Host, path: str, build: str) -> Fact[str]:
    """Read the CUDA major off the build string (cuda11_0) or what the package depends on."""
    match = re.search(r"cuda(\d\d)", build)
    if match:
        return Known(match.group(1), Source("file", path, build))
    text = host.read_text(path)
    match = re.search(r"\"(?:cuda-version|cudatoolkit) [^\"\d]*(\d+)", text.value) if isinstance(text, Known) else None
    return Known(match.group(1), Source("file", path, match.group(0).strip('"'))) if match else Absent((path,))


def _from_dpkg(host: Host, kind: LibraryKind, major: str) -> Package:
    text = host.read_text(_DPKG_STATUS, _DPKG_BYTES)
    if isinstance(text, Absent):
        reason: Fact[str] = Unknown("failed", "only Debian's package records are read", text.tried)
        return Package(reason, reason)
    if isinstance(text, Unknown):
        return Package(text, text)
    name, version = _best_package(parse_dpkg_status(text.value, kind.debian), major)
    if not name:
        return Package(Absent((_DPKG_STATUS,)), Absent((_DPKG_STATUS,)))
    source = Source("file", _DPKG_STATUS, f"{name} {version}")
    match = re.search(r"cuda-?(\d+)", f"{name} {version}")
    return Package(Known(version, source), Known(match.group(1), source) if match else Absent((f"{name} {version}",)))


def _best_package(packages: Mapping[str, str], major: str) -> Tuple[str, str]:
    """Choose the package of that major: the library's own before headers and samples."""
    names: List[str] = [name for name in packages if re.search(rf"^(?:\d+:)?{major or '[0-9]+'}\.", packages[name])]
    ranked = sorted(names, key=lambda name: ("-dev" in name, "-samples" in name, "-headers" in name, len(name)))
    return (ranked[0], packages[ranked[0]]) if ranked else ("", "")


Installs = Fact[Tuple[LibraryInstall, ...]]


def collect_libraries(host: Host) -> Tuple[Installs, Installs, Installs]:
    """Return the copies of (cuDNN, TensorRT, NCCL)."""
    survey = Survey(host, (CUDNN, TENSORRT, NCCL))
    return _find_all(survey, CUDNN), _find_all(survey, TENSORRT), _find_all(survey, NCCL)


def parse_library_name(name: str, kind: LibraryKind) -> str:
    """Return as much of the version as a library's file name tells, "" when nothing.

    libcudnn.so.8.9.2 -> 8.9.2, libcudnn.so.9 -> 9, cudnn64_8.dll -> 8, libcudnn.so -> ""
    """
    match = re.search(rf"^lib{kind.stem}\.so\.(\d+(?:\.\d+)*)$", name) or re.search(kind.dll, name)
    return (match.group(1) or "") if match and match.groups() else ""


def _find_all(survey: Survey, kind: LibraryKind) -> Installs:
    places = find_library_places(survey, kind)
    installs = [install for place in places for install in _in_place(survey, kind, place)]
    if not installs:
        return Absent(tuple(dict.fromkeys(place.root for place in places)))
    return Known(tuple(installs), Source("file", ", ".join(dict.fromkeys(install.root for install in installs))))


def _in_place(survey: Survey, kind: LibraryKind, place: LibraryPlace) -> List[LibraryInstall]:
    """Return one install per major version; a lone header and a lone library belong together, right or wrong."""
    libraries = _libraries(survey, kind, place)
    headers = read_headers(survey.host, kind, place.headers)
    if len(libraries) <= 1 and len(headers) <= 1:
        majors = [next(iter(libraries), next(iter(headers), None))]
        headers = {str(majors[0]): header for header in headers.values()}
    else:
        majors = list(dict.fromkeys((*libraries, *headers)))
    none = ("", Absent(place.libraries)), ("", Absent(place.headers))
    return [
        _install(survey.host, kind, place, libraries.get(major, none[0]), headers.get(major, none[1]))
        for major in majors
        if major is not None
    ]


def _install(
    host: Host, kind: LibraryKind, place: LibraryPlace, library: Tuple[str, Fact[str]], header: Tuple[str, Fact[str]]
) -> LibraryInstall:
    version, library_path = library
    header_path, header_version = header
    told = version or (header_version.value if isinstance(header_version, Known) else "")
    package = find_package(host, kind, place, told.split(".")[0])
    return LibraryInstall(
        library=kind.name,
        root=place.root,
        origin=place.origin,
        header_version=header_version,
        header_path=Known(header_path, Source("file", header_path)) if header_path else Absent(place.headers),
        library_version=_told(version, library_path),
        library_path=library_path,
        package_version=package.version,
        cuda_major=package.cuda_major,
    )


def _told(version: str, path: Fact[str]) -> Fact[str]:
    if not isinstance(path, Known):
        return path
    if not version:
        return Unknown("unparsable", f"the name {get_base_name(path.value)} tells no version", (path.value,))
    return Known(version, path.source)


def _libraries(survey: Survey, kind: LibraryKind, place: LibraryPlace) -> Dict[str, Tuple[str, Fact[str]]]:
    """Return major -> (version told by the real file's name, that file); absent behind a dangling link."""
    found: Dict[str, Tuple[str, Fact[str]]] = {}
    for folder in place.libraries:
        ours = [name for name in survey.names(folder) if _is_library(name, kind)]
        for name in sorted(ours, key=len):  # the soname before the real file
            path = join_path(survey.host, folder, name)
            real = survey.host.real_path(path)
            if isinstance(real, Absent):
                real = Absent((f"{path} is a link that leads nowhere",))
            version = parse_library_name(get_base_name(real.value) if isinstance(real, Known) else name, kind)
            major = version.split(".")[0]
            if major not in found or isinstance(found[major][1], Absent):
                found[major] = (version, real)
    if len(found) > 1:
        found.pop("", None)  # the bare link of a folder whose other names tell more
    return found


def _is_library(name: str, kind: LibraryKind) -> bool:
    return re.search(rf"^lib{kind.stem}\.so(\.\d+)*$", name) is not None or re.search(kind.dll, name) is not None
