"""Every copy of cuDNN, TensorRT and NCCL: what its header, its library and its package say."""

from __future__ import annotations

import re
from typing import Dict, List, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.machine import LibraryInstall
from envcheck.probes.cuda_libraries_headers import read_headers
from envcheck.probes.cuda_libraries_kinds import NCCL, TENSORRT, LibraryKind
from envcheck.probes.cuda_libraries_packages import find_package
from envcheck.probes.cuda_libraries_places import LibraryPlace, Survey, library_places
from envcheck.probes.cudnn import CUDNN
from envcheck.probes.toolkit_paths import base_name, join

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
    places = library_places(survey, kind)
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
        return Unknown("unparsable", f"the name {base_name(path.value)} tells no version", (path.value,))
    return Known(version, path.source)


def _libraries(survey: Survey, kind: LibraryKind, place: LibraryPlace) -> Dict[str, Tuple[str, Fact[str]]]:
    """Return major -> (version told by the real file's name, that file); absent behind a dangling link."""
    found: Dict[str, Tuple[str, Fact[str]]] = {}
    for folder in place.libraries:
        ours = [name for name in survey.names(folder) if _is_library(name, kind)]
        for name in sorted(ours, key=len):  # the soname before the real file
            path = join(survey.host, folder, name)
            real = survey.host.real_path(path)
            if isinstance(real, Absent):
                real = Absent((f"{path} is a link that leads nowhere",))
            version = parse_library_name(base_name(real.value) if isinstance(real, Known) else name, kind)
            major = version.split(".")[0]
            if major not in found or isinstance(found[major][1], Absent):
                found[major] = (version, real)
    if len(found) > 1:
        found.pop("", None)  # the bare link of a folder whose other names tell more
    return found


def _is_library(name: str, kind: LibraryKind) -> bool:
    return re.search(rf"^lib{kind.stem}\.so(\.\d+)*$", name) is not None or re.search(kind.dll, name) is not None
