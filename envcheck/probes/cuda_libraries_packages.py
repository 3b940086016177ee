"""Which package a copy of cuDNN, TensorRT or NCCL came with: a wheel, a conda or a Debian package."""

from __future__ import annotations

import re
from typing import List, Mapping, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.records import dataclass
from envcheck.probes.cuda_libraries_kinds import LibraryKind
from envcheck.probes.cuda_libraries_places import LibraryPlace
from envcheck.probes.toolkit_paths import join, parent

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
    return Package(package.version, cuda_major_of_path(place.root) or package.cuda_major)


def cuda_major_of_path(root: str) -> Optional[Fact[str]]:
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
    prefix = parent(place.root) if place.root.endswith("\\Library") else place.root
    records = join(host, prefix, "conda-meta")
    names = host.list_folder(records)
    for name in names.value if isinstance(names, Known) else ():
        match = re.search(rf"^{kind.conda}-(\d[\d.]*)-([^-]+)\.json$", name)
        if match:
            path = join(host, records, name)
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
