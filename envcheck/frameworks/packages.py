"""Read the packages of the inspected interpreter from the answer of its child script."""

from __future__ import annotations

import fnmatch
import functools
import json
import posixpath
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from envcheck.frameworks import companions, imported_modules
from envcheck.host.data_files import read_data
from envcheck.host.paths import list_names
from envcheck.host.protocol import Host
from envcheck.model import Absent, Distribution, Fact, Known, Source, dataclass, replace


@functools.lru_cache(maxsize=1)
def load_cuda_data() -> Mapping[str, Any]:
    """Load data/nvidia/cuda_libraries.json."""
    table: Mapping[str, Any] = json.loads(read_data("nvidia/cuda_libraries.json"))
    return table


@dataclass
class Folder:
    """A folder that the interpreter imports from."""

    path: str
    scope: str


@dataclass
class Installation:
    """The folders and distributions of an interpreter, in the order of its imports."""

    executable: str
    prefix: str
    base_prefix: str
    is_conda: bool  # itself, or the base interpreter of its virtual environment
    folders: Tuple[Folder, ...]
    distributions: Tuple[Distribution, ...]
    # library path of nvidia wheels -> owners
    library_owners: Mapping[str, Tuple[Distribution, ...]]

    def named(self, names: Sequence[str]) -> Tuple[Distribution, ...]:
        """Return the distributions with one of `names`."""
        return tuple(each for each in self.distributions if each.name in names)


def read_installation(host: Host, answer: Mapping[str, Any]) -> Installation:
    """Build distributions from the answer of the child script, with conda's build strings."""
    prefix = answer["prefix"]
    distributions = [
        Distribution(
            name=entry["name"],
            version=entry["version"],
            location=entry["location"],
            scope=entry["scope"],
            installer=entry["installer"],
            requires=tuple(entry["requires"]),
            modules=tuple(entry["modules"]),
            build=entry["version"].partition("+")[2],
        )
        for entry in answer["distributions"]
    ]
    owners: Dict[str, List[Distribution]] = {}
    for distribution, entry in zip(distributions, answer["distributions"]):
        for path in entry["files"]:
            owners.setdefault(posixpath.join(entry["location"], path), []).append(distribution)
    is_conda = answer["kind"] == "conda"
    return Installation(
        executable=answer["executable"],
        prefix=prefix,
        base_prefix=answer["base_prefix"],
        is_conda=answer["base_is_conda"],
        folders=tuple(Folder(each["path"], each["scope"]) for each in answer["folders"]),
        distributions=(
            _add_conda_packages(host, distributions, prefix) if is_conda else tuple(distributions)
        ),
        library_owners={path: tuple(each) for path, each in owners.items()},
    )


def _add_conda_packages(
    host: Host, distributions: List[Distribution], prefix: str
) -> Tuple[Distribution, ...]:
    """Add conda's build strings, the packages that pip replaced, and those without metadata."""
    folder = posixpath.join(prefix, "conda-meta")
    parsed = [parse_conda_name(name) for name in list_names(host, folder)]
    packages = [replace(each, location=folder) for each in parsed if each is not None]
    builds = {(package.name, package.version): package.build for package in packages}
    merged = [
        replace(each, build=builds.get((each.name, each.version), each.build))
        for each in distributions
    ]
    by_name = {each.name: each for each in reversed(distributions)}
    extra: List[Distribution] = []
    for package in packages:
        twin = by_name.get(package.name)
        if twin is None:
            if any(
                fnmatch.fnmatchcase(package.name, pattern)
                for pattern in load_cuda_data()["conda_packages"]
            ):
                extra += [package]
        elif twin.installer not in ("", "conda") and twin.version != package.version:
            extra.append(replace(package, location=twin.location, scope=twin.scope))
    return (*merged, *extra)


def parse_conda_name(name: str) -> Optional[Distribution]:
    """Parse name, version and build in the file name of a conda-meta record.

    Sample: 'pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0.json'
    """
    parts = name[: -len(".json")].rsplit("-", 2)
    if not name.endswith(".json") or len(parts) != 3:
        return None
    return Distribution(
        parts[0].lower(), parts[1], scope="conda", installer="conda", build=parts[2]
    )


def find_duplicate_owners(
    installed: Installation, source: Source
) -> Fact[Mapping[str, Tuple[str, ...]]]:
    """Find framework modules and libraries of nvidia wheels that several distributions own."""
    modules: Dict[Tuple[str, str], List[str]] = {}
    for each in installed.distributions:
        for module in each.modules:
            if module in load_cuda_data()["shadowing_names"]:
                modules.setdefault((each.location, module), []).append(each.name)
    duplicates = {module: tuple(names) for (_, module), names in modules.items() if len(names) > 1}
    for path, owners in installed.library_owners.items():
        if len(owners) > 1:
            duplicates[path] = tuple(each.name for each in owners)
    return Known(duplicates, source) if duplicates else Absent((source.where,))


def find_shadowing(
    host: Host, installed: Installation, framework: str, module: str, location: str
) -> Fact[str]:
    """Find what Python imports instead of `module`, or of what its import loads.

    The standard library and the environment's other packages come after the current folder and
    PYTHONPATH only.
    """
    earlier = list(_list_earlier_folders(host, installed, location))
    packages = [folder.path for folder in installed.folders if folder.scope != "path"]
    first = [
        (folder, set(list_names(host, folder))) for folder in earlier if folder not in packages
    ]
    # A folder with these two is the standard library itself.
    other = [(folder, names) for folder, names in first if not {"os.py", "site.py"} <= names]
    beside = (
        each.name for each in installed.distributions if companions().get(each.name) == framework
    )
    needed, loaded = map(frozenset.union, *map(imported_modules, (framework, *beside)))
    # what is installed there, too, is another copy: its own metadata speaks for it
    front = {folder.path for folder in installed.folders if folder.scope == "front"}
    front &= {each.location for each in installed.distributions if module in each.modules}
    tried = [(folder, module) for folder in earlier if folder not in front]
    for name in (*sorted(needed), *sorted(loaded - needed)):
        tried += [
            (folder, name) for folder, names in other if name in names or f"{name}.py" in names
        ]
    for folder, name in tried:
        for path, file in ((f"{folder}/{name}.py", ""), (f"{folder}/{name}", "/__init__.py")):
            status = host.status(path + file)
            if isinstance(status, Known) and status.value.kind == "file":
                return Known(path, status.source)
    return Absent(tuple(f"{folder}/{name}" for folder, name in tried))


def _get_current_folder(host: Host) -> str:
    # Python with PYTHONSAFEPATH does not import from the current folder.
    is_safe = host.environment().get("PYTHONSAFEPATH", "")
    return "" if is_safe else str(host.system_facts().get("folder", ""))


def _list_earlier_folders(host: Host, installed: Installation, location: str) -> Iterator[str]:
    current = _get_current_folder(host)
    if current and current != location:
        yield current
    for entry in (
        host.environment().get("PYTHONPATH", "").split(";" if host.system == "windows" else ":")
    ):
        if entry == location:
            return
        if entry:
            yield posixpath.join(current, entry)
    for folder in installed.folders:
        if folder.path == location:
            return
        if folder.scope != "path":
            yield folder.path


_LAUNCHER = "bin/envcheck-cuda"  # envcheck/actions/environments.py writes it


def find_activated_folders(host: Host, prefix: str, known: Sequence[str]) -> Tuple[str, ...]:
    """List the folders that an environment's activation adds.

    Its patterns match the `known` ones.
    """
    folders: List[str] = []
    for pattern in parse_launcher(host.read_text(posixpath.join(prefix, _LAUNCHER)).value or ""):
        path = pattern.replace('"$prefix"', prefix)
        if "*" in pattern:
            folders += fnmatch.filter(known, path)
        else:
            folders.append(path)
    return tuple(dict.fromkeys(folders))


def parse_launcher(text: str) -> Tuple[str, ...]:
    """Parse the folders in the launcher, with "$prefix" in front of those below the environment.

    Sample: add "$prefix"/lib/python3.12/site-packages/nvidia/*/lib
    """
    line = re.search(r"^add (.*)$", text, re.MULTILINE)
    if line:
        return tuple(re.findall(r'(?:"\$prefix")?/[^ ;"]+', line.group(1)))
    return ()
