"""Find every copy of cuDNN, TensorRT and NCCL, and the versions that it states."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Mapping, Optional, Set, Tuple

from envcheck.host.paths import (
    get_base_name,
    get_multiarch_triple,
    get_parent,
    join_path,
    list_folders_in,
    list_names,
    resolve_existing,
)
from envcheck.host.protocol import Host
from envcheck.model import (
    Absent,
    Fact,
    Known,
    LibraryInstall,
    Source,
    Unknown,
    dataclass,
    from_file,
    major,
)
from envcheck.probes.package_managers import DPKG_STATUS, read_dpkg_packages
from envcheck.probes.toolkit import Pair, find_places, list_site_packages


@dataclass
class LibraryKind:
    """The names of one library; patterns are regular expressions."""

    name: str  # as LibraryInstall.library
    headers: Tuple[str, ...]  # in the order of search
    # for major, minor, patch: the macro and those it may be defined as
    macros: Tuple[Tuple[str, ...], ...]
    stem: str  # of libSTEM.so.N
    dll: str  # pattern of the Windows library
    wheel_folders: Tuple[str, ...]  # below site-packages
    wheel: str  # pattern of the dist-info folder: groups cuda (optional) and version
    debian: Tuple[str, ...]  # prefixes of package names
    conda: str  # package name
    variables: Tuple[str, ...]  # that hold its root


CUDNN = LibraryKind(
    name="cudnn",
    # Up to 7 the macros are in cudnn.h; from 8 on it includes cudnn_version.h, which Debian's
    # alternatives link to cudnn_version_v8.h or cudnn_version_v9.h.
    headers=("cudnn_version.h", "cudnn_version_v9.h", "cudnn_version_v8.h", "cudnn.h"),
    # the three macros, not CUDNN_VERSION: its formula changed with 9 (8902 is 8.9.2, 90100 is
    # 9.1.0)
    macros=(("CUDNN_MAJOR",), ("CUDNN_MINOR",), ("CUDNN_PATCHLEVEL",)),
    stem="cudnn",
    dll=r"^cudnn64_(\d+)\.dll$",
    wheel_folders=("nvidia/cudnn",),
    wheel=r"^nvidia_cudnn(?:_cu(?P<cuda>\d+))?-(?P<version>[\d.]+)\.dist-info$",
    debian=("libcudnn", "nvidia-cudnn", "cudnn9"),
    conda="cudnn",
    variables=("CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT", "CUDNN_ROOT_DIR"),
)

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
    wheel=(
        r"^(?:nvidia_)?tensorrt(?:_cu(?P<cuda>\d+))?(?:_libs)?-(?P<version>[\d.]+)\S*\.dist-info$"
    ),
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


Installs = Fact[Tuple[LibraryInstall, ...]]


def collect_libraries(host: Host) -> Tuple[Installs, Installs, Installs]:
    """Return the copies of (cuDNN, TensorRT, NCCL)."""
    survey = Survey(host, (CUDNN, TENSORRT, NCCL))
    return _find_all(survey, CUDNN), _find_all(survey, TENSORRT), _find_all(survey, NCCL)


def _find_all(survey: Survey, kind: LibraryKind) -> Installs:
    places = find_library_places(survey, kind)
    installs = [install for place in places for install in _read_place(survey, kind, place)]
    if not installs:
        return Absent(tuple(dict.fromkeys(place.root for place in places)))
    return from_file(
        tuple(installs), ", ".join(dict.fromkeys(install.root for install in installs))
    )


_SYSTEM_LIBRARIES = r"^(/usr)?/lib(64|32|/[^/]*-linux-gnu)?$"


@dataclass
class LibraryPlace:
    """Folders whose headers and libraries belong together."""

    root: str
    origin: str  # as LibraryInstall.origin
    headers: Tuple[str, ...]
    libraries: Tuple[str, ...]


class Survey:
    """A cache for the searches of all libraries.

    Lists each folder once, and keeps only names of CUDA libraries.
    """

    def __init__(self, host: Host, kinds: Tuple[LibraryKind, ...]) -> None:
        self.host = host
        self.toolkits = find_places(host)
        self.sites = list_site_packages(host)
        self._stems = tuple(f"lib{kind.stem}.so" for kind in kinds)
        self._dlls = "|".join(kind.dll for kind in kinds)
        self._names: Dict[str, Tuple[str, ...]] = {}
        self.loader_folders = self._find_in_loader_cache()

    def names(self, folder: str) -> Tuple[str, ...]:
        """Return the names of our libraries in a folder; () where it is missing or unreadable."""
        if folder not in self._names:
            self._names[folder] = tuple(filter(self._is_ours, list_names(self.host, folder)))
        return self._names[folder]

    def _is_ours(self, name: str) -> bool:
        return name.startswith(self._stems) or (
            name.endswith(".dll") and re.search(self._dlls, name) is not None
        )

    def _find_in_loader_cache(self) -> Tuple[str, ...]:
        cache = self.host.loader_cache().value or {}
        paths = [path for soname in cache if self._is_ours(soname) for path in cache[soname]]
        return tuple(
            dict.fromkeys(resolve_existing(self.host, list(dict.fromkeys(map(get_parent, paths)))))
        )


def find_library_places(survey: Survey, kind: LibraryKind) -> Tuple[LibraryPlace, ...]:
    """Return every place; a folder that two places share belongs to the first."""
    places: List[LibraryPlace] = []
    folders: Set[str] = set()  # real library folders
    roots: Set[str] = set()
    for place in _list_places(survey, kind):
        new = dict.fromkeys(
            resolve_existing(survey.host, [each for each in place.libraries if survey.names(each)])
        )
        libraries = tuple(folder for folder in new if folder not in folders)
        folders.update(libraries)
        root = survey.host.real_path(place.root).value
        headers = () if root is None or root in roots else place.headers
        roots.add(root or place.root)
        if headers or libraries:
            places.append(LibraryPlace(place.root, place.origin, headers, libraries))
    return tuple(places)


def _list_places(survey: Survey, kind: LibraryKind) -> Iterator[LibraryPlace]:
    host = survey.host
    for toolkit in survey.toolkits:
        if toolkit.origin in ("debian", "wheels") or toolkit.root in ("/", "/usr"):
            continue  # it has no folder of its own: the other searches find its libraries
        origin = "toolkit"
        if toolkit.origin in ("conda", "environment"):
            origin = toolkit.origin
        yield LibraryPlace(toolkit.root, origin, toolkit.headers, toolkit.libraries)
    for site in survey.sites:
        for folder in kind.wheel_folders:
            root = join_path(host, site, *folder.split("/"))
            libraries = (join_path(host, root, "lib"), join_path(host, root, "bin"), root)
            yield LibraryPlace(root, "wheels", (join_path(host, root, "include"),), libraries)
    if host.system == "linux":
        yield from _list_system_places(survey)
    names = ("bin", "lib") if host.system == "windows" else ("lib64", "lib")
    for root in filter(None, map(host.environment().get, kind.variables)):
        folders = tuple(join_path(host, root, name) for name in names)
        yield LibraryPlace(root, "environment", (join_path(host, root, "include"),), folders)
    for folder in list_folders_in(host, "PATH" if host.system == "windows" else "LD_LIBRARY_PATH"):
        if survey.names(folder):
            yield _make_place_around(host, folder, "environment")


def _list_system_places(survey: Survey) -> Iterator[LibraryPlace]:
    triple = get_multiarch_triple(survey.host)
    # The loader's cache is not enough: it lacks dangling links, which a declined download of
    # Debian's nvidia-cudnn leaves, and is outdated where ldconfig did not run.
    libraries = (f"/usr/lib/{triple}", "/usr/lib64", "/usr/lib")
    yield LibraryPlace("/usr", "system", ("/usr/include", f"/usr/include/{triple}"), libraries)
    yield LibraryPlace("/usr/local", "system", ("/usr/local/include",), ("/usr/local/lib",))
    for folder in survey.loader_folders:
        if not re.search(_SYSTEM_LIBRARIES, folder):
            yield _make_place_around(survey.host, folder, "system")


def _make_place_around(host: Host, folder: str, origin: str) -> LibraryPlace:
    root = folder
    if get_base_name(folder) in ("lib", "lib64", "bin"):
        root = get_parent(folder)
    return LibraryPlace(root, origin, (join_path(host, root, "include"),), (folder,))


def _read_place(survey: Survey, kind: LibraryKind, place: LibraryPlace) -> List[LibraryInstall]:
    """Return one install per major version.

    A single header and a single library always belong together.
    """
    libraries = _read_libraries(survey, kind, place)
    headers = _read_headers(survey.host, kind, place.headers)
    if len(libraries) <= 1 and len(headers) <= 1:
        majors = [next(iter(libraries), next(iter(headers), None))]
        headers = {str(majors[0]): header for header in headers.values()}
    else:
        majors = list(dict.fromkeys((*libraries, *headers)))
    no_library = ("", Absent(place.libraries))
    no_header = ("", Absent(place.headers))
    return [
        _make_install(
            survey.host,
            kind,
            place,
            libraries.get(release, no_library),
            headers.get(release, no_header),
        )
        for release in majors
        if release is not None
    ]


def _make_install(
    host: Host,
    kind: LibraryKind,
    place: LibraryPlace,
    library: Tuple[str, Fact[str]],
    header: Tuple[str, Fact[str]],
) -> LibraryInstall:
    version, library_path = library
    header_path, header_version = header
    release = major(version or header_version.value or "")
    package_version, cuda_major = _find_package(host, kind, place, release)
    library_version = library_path
    if isinstance(library_path, Known):
        name = get_base_name(library_path.value)
        missing = Unknown(
            "unparsable", f"the file name {name} contains no version", (library_path.value,)
        )
        library_version = missing
        if version:
            library_version = Known(version, library_path.source)
    header_fact: Fact[str] = Absent(place.headers)
    if header_path:
        header_fact = from_file(header_path, header_path)
    return LibraryInstall(
        library=kind.name,
        root=place.root,
        origin=place.origin,
        header_version=header_version,
        header_path=header_fact,
        library_version=library_version,
        library_path=library_path,
        package_version=package_version,
        cuda_major=cuda_major,
    )


def _read_libraries(
    survey: Survey, kind: LibraryKind, place: LibraryPlace
) -> Dict[str, Tuple[str, Fact[str]]]:
    """Return major -> (version in the real file's name, that file); absent for a dangling link."""
    libraries: Dict[str, Tuple[str, Fact[str]]] = {}
    for folder in place.libraries:
        names = [name for name in survey.names(folder) if _is_library(name, kind)]
        for name in sorted(names, key=len):  # the soname before the real file
            path = join_path(survey.host, folder, name)
            real = survey.host.real_path(path)
            if isinstance(real, Absent):
                real = Absent((f"{path} is a link that leads nowhere",))
            version = parse_library_name(
                get_base_name(real.value) if isinstance(real, Known) else name, kind
            )
            release = major(version)
            if release not in libraries or isinstance(libraries[release][1], Absent):
                libraries[release] = (version, real)
    if len(libraries) > 1:
        # the unversioned link: the other names of the folder have a version
        libraries.pop("", None)
    return libraries


def _is_library(name: str, kind: LibraryKind) -> bool:
    return (
        re.search(rf"^lib{kind.stem}\.so(\.\d+)*$", name) is not None
        or re.search(kind.dll, name) is not None
    )


def parse_library_name(name: str, kind: LibraryKind) -> str:
    """Parse the version in the file name of a library, "" without one.

    libcudnn.so.8.9.2 -> 8.9.2, libcudnn.so.9 -> 9, cudnn64_8.dll -> 8, libcudnn.so -> ""
    """
    match = re.search(rf"^lib{kind.stem}\.so\.(\d+(?:\.\d+)*)$", name) or re.search(kind.dll, name)
    return (match.group(1) or "") if match and match.groups() else ""


_HEADER_BYTES = 1 << 17  # nccl.h and the old cudnn.h define their version near the top


def parse_version_macros(text: str, macros: Tuple[Tuple[str, ...], ...]) -> Optional[str]:
    """Parse major.minor.patch, each the first number that one of its macros is defined as.

    #define CUDNN_MAJOR 8
    #define CUDNN_MINOR 9
    #define CUDNN_PATCHLEVEL 7
    """
    parts = []
    for names in macros:
        match = re.search(
            rf"^[ \t]*#[ \t]*define[ \t]+(?:{'|'.join(names)})[ \t]+(\d+)\b", text, re.MULTILINE
        )
        if match is None:
            return None
        parts.append(match.group(1))
    return ".".join(parts)


def _read_headers(
    host: Host, kind: LibraryKind, folders: Tuple[str, ...]
) -> Dict[str, Tuple[str, Fact[str]]]:
    """Return major -> (header, version).

    Without any, the key "" has a header that could not be read.
    """
    headers: Dict[str, Tuple[str, Fact[str]]] = {}
    unread: List[Tuple[str, Fact[str]]] = []
    for folder in folders:
        for name in kind.headers:
            path = join_path(host, folder, name)
            text = host.read_text(path, _HEADER_BYTES)
            version = None
            if isinstance(text, Known):
                version = parse_version_macros(text.value, kind.macros)
            if version is not None:
                fact = from_file(version, path, f"{kind.macros[0][0]} {major(version)} ...")
                headers.setdefault(major(version), (path, fact))
            elif isinstance(text, Unknown):
                unread.append((path, text))
            elif isinstance(text, Known) and name == kind.headers[0]:
                unread.append(
                    (
                        path,
                        Unknown(
                            "unparsable", f"{path} does not define {kind.macros[0][0]}", (path,)
                        ),
                    )
                )
    return headers or ({"": unread[0]} if unread else {})


def _find_package(host: Host, kind: LibraryKind, place: LibraryPlace, release: str) -> Pair:
    """Return (package version, CUDA major) from the package manager's records."""
    if place.origin == "wheels":
        version, cuda_major = _read_wheel_names(host, kind, place)
    elif place.origin == "conda":
        version, cuda_major = _read_conda_records(host, kind, place)
    elif place.origin == "system" and place.root == "/usr":
        version, cuda_major = _read_dpkg(host, kind, release)
    else:
        version = Absent((f"no package manager installs into {place.root}",))
        cuda_major = Absent((place.root,))
    return version, (
        cuda_major if isinstance(cuda_major, Known) else parse_cuda_major(place.root) or cuda_major
    )


def parse_cuda_major(root: str) -> Optional[Fact[str]]:
    r"""Parse the CUDA major in a path: /usr/local/cuda-11.8, C:\\...\\CUDA\\v12.6."""
    match = re.search(r"[/\\]cuda(?:-|[/\\]v?)(\d+)(?:[./\\-]|$)", root, re.IGNORECASE)
    if match:
        return from_file(match.group(1), root, match.group(0).strip("/\\"))
    return None


def _read_wheel_names(host: Host, kind: LibraryKind, place: LibraryPlace) -> Pair:
    below_site = next(
        name for name in kind.wheel_folders if place.root.replace("\\", "/").endswith("/" + name)
    )
    site = place.root[: -len(below_site) - 1]
    names = host.list_folder(site)
    matches = [
        match for match in (re.search(kind.wheel, name) for name in names.value or ()) if match
    ]
    if not matches:
        reason = names if isinstance(names, Unknown) else Absent((f"{kind.wheel} in {site}",))
        return reason, reason
    wheels = ", ".join(match.group(0) for match in matches)
    # the files of the last installed one win
    if len({match.group("version") for match in matches}) > 1:
        reason = Unknown("conflict", f"these wheels share {place.root}: {wheels}", (site,))
        return reason, reason
    source = Source("file", site, wheels)
    majors = [match.group("cuda") for match in matches if match.group("cuda")]
    return Known(matches[0].group("version"), source), (
        Known(majors[0], source) if majors else Absent((wheels,))
    )


def _read_conda_records(host: Host, kind: LibraryKind, place: LibraryPlace) -> Pair:
    prefix = place.root
    if place.root.endswith("\\Library"):
        prefix = get_parent(place.root)
    records = join_path(host, prefix, "conda-meta")
    names = host.list_folder(records)
    for name in names.value or ():
        match = re.search(rf"^{kind.conda}-(\d[\d.]*)-([^-]+)\.json$", name)
        if match:
            path = join_path(host, records, name)
            return from_file(match.group(1), path, name), _read_conda_cuda(
                host, path, match.group(2)
            )
    reason = names if isinstance(names, Unknown) else Absent((f"{kind.conda}-* in {records}",))
    return reason, reason


def _read_conda_cuda(host: Host, path: str, build: str) -> Fact[str]:
    """Read the CUDA major in the build string (cuda11_0) or in the dependencies of the package."""
    match = re.search(r"cuda(\d\d)", build)
    if match:
        return from_file(match.group(1), path, build)
    record = host.read_text(path).value or ""
    match = re.search(r"\"(?:cuda-version|cudatoolkit) [^\"\d]*(\d+)", record)
    if match:
        return from_file(match.group(1), path, match.group(0).strip('"'))
    return Absent((path,))


def _read_dpkg(host: Host, kind: LibraryKind, release: str) -> Pair:
    packages = read_dpkg_packages(host, rf"(?:{'|'.join(kind.debian)})\S*")
    if not isinstance(packages, Known):
        reason: Fact[str] = packages
        if isinstance(packages, Absent):
            reason = Unknown(
                "failed", "envcheck reads only Debian's package records", packages.tried
            )
        return reason, reason
    name, version = _choose_package(packages.value, release)
    if not name:
        return Absent((DPKG_STATUS,)), Absent((DPKG_STATUS,))
    source = Source("file", DPKG_STATUS, f"{name} {version}")
    match = re.search(r"cuda-?(\d+)", f"{name} {version}")
    return Known(version, source), (
        Known(match.group(1), source) if match else Absent((f"{name} {version}",))
    )


def _choose_package(packages: Mapping[str, str], release: str) -> Tuple[str, str]:
    """Choose the package of that major: the library itself before headers and samples."""
    names = [
        name
        for name in packages
        if re.search(rf"^(?:\d+:)?{release or '[0-9]+'}\.", packages[name])
    ]
    ranked = sorted(
        names, key=lambda name: ("-dev" in name, "-samples" in name, "-headers" in name, len(name))
    )
    return (ranked[0], packages[ranked[0]]) if ranked else ("", "")
