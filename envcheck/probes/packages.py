"""Read what is installed for the inspected interpreter, from the answer of its child script."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Absent, Distribution, Fact, Known, Source, dataclass, replace
from envcheck.probes.cuda_libraries import load_cuda_data


@dataclass(frozen=True)
class Folder:
    """A folder the interpreter imports from."""

    path: str
    scope: str


@dataclass(frozen=True)
class Installation:
    """An interpreter's folders and distributions, in the order in which it would import them."""

    executable: str
    prefix: str
    base_prefix: str
    is_conda: bool  # itself, or the interpreter below its virtual environment
    folders: Tuple[Folder, ...]
    distributions: Tuple[Distribution, ...]
    library_owners: Mapping[str, Tuple[Distribution, ...]]  # path of a library of nvidia wheels -> who installed it

    def named(self, names: Sequence[str]) -> Tuple[Distribution, ...]:
        """Return the distributions with one of `names`."""
        return tuple(each for each in self.distributions if each.name in names)


def read_installation(host: Host, answer: Mapping[str, Any]) -> Installation:
    """Turn the child script's answer into distributions, with conda's build strings."""
    prefix, base = answer["prefix"], answer["base_prefix"]
    found = [_make_distribution(entry) for entry in answer["distributions"]]
    owners: Dict[str, List[Distribution]] = {}
    for index, entry in enumerate(answer["distributions"]):
        for path in entry["files"]:
            owners.setdefault(posixpath.join(entry["location"], path), []).append(found[index])
    return Installation(
        executable=answer["executable"],
        prefix=prefix,
        base_prefix=base,
        is_conda=answer["base_is_conda"],
        folders=tuple(Folder(each["path"], each["scope"]) for each in answer["folders"]),
        distributions=_add_conda_packages(host, found, prefix) if answer["kind"] == "conda" else tuple(found),
        library_owners={path: tuple(who) for path, who in owners.items()},
    )


def _make_distribution(entry: Mapping[str, Any]) -> Distribution:
    return Distribution(
        name=entry["name"],
        version=entry["version"],
        location=entry["location"],
        scope=entry["scope"],
        installer=entry["installer"],
        requires=tuple(entry["requires"]),
        modules=tuple(entry["modules"]),
        build=entry["version"].partition("+")[2],
    )


def _add_conda_packages(host: Host, found: List[Distribution], prefix: str) -> Tuple[Distribution, ...]:
    """Add conda's build strings, the records that pip installed over, and packages that matter to a GPU."""
    folder = posixpath.join(prefix, "conda-meta")
    names = host.list_folder(folder)
    parsed = [parse_conda_name(name) for name in names.value] if isinstance(names, Known) else []
    packages = [replace(each, location=folder) for each in parsed if each is not None]
    builds = {(package.name, package.version): package.build for package in packages}
    merged = [replace(each, build=builds.get((each.name, each.version), each.build)) for each in found]
    by_name = {each.name: each for each in reversed(found)}
    extra: List[Distribution] = []
    for package in packages:
        twin = by_name.get(package.name)
        if twin is None:
            extra += [package] if _is_gpu_package(package.name) else []
        elif twin.installer not in ("", "conda") and twin.version != package.version:
            extra.append(replace(package, location=twin.location, scope=twin.scope))
    return (*merged, *extra)


def _is_gpu_package(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in load_cuda_data()["conda_packages"])


def parse_conda_name(name: str) -> Optional[Distribution]:
    """Read name, version and build from the file name of a conda-meta record.

    Sample: 'pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0.json'
    """
    parts = name[: -len(".json")].rsplit("-", 2)
    if not name.endswith(".json") or len(parts) != 3:
        return None
    return Distribution(parts[0].lower(), parts[1], scope="conda", installer="conda", build=parts[2])


def find_duplicate_owners(installed: Installation, where: Source) -> Fact[Mapping[str, Tuple[str, ...]]]:
    """Name modules of frameworks and library files of nvidia wheels that several distributions own."""
    modules: Dict[Tuple[str, str], List[str]] = {}
    for each in installed.distributions:
        for module in each.modules:
            if module in load_cuda_data()["shadowing_names"]:
                modules.setdefault((each.location, module), []).append(each.name)
    several = {module: tuple(names) for (_, module), names in modules.items() if len(names) > 1}
    for path, owners in installed.library_owners.items():
        if len(owners) > 1:
            several[path] = tuple(each.name for each in owners)
    return Known(several, where) if several else Absent((where.where,))


def find_shadowing(host: Host, installed: Installation, module: str, location: str) -> Fact[str]:
    """Look for `module` wherever Python started here looks before `location`, and for a NumPy in this folder."""
    here = _get_current_folder(host)
    tried = [(folder, module) for folder in _list_earlier_folders(host, installed, location)]
    if here and here not in [folder.path for folder in installed.folders]:
        tried.append((here, "numpy"))
    for folder, name in tried:
        for path, file in ((f"{folder}/{name}.py", ""), (f"{folder}/{name}", "/__init__.py")):
            status = host.status(path + file)
            if isinstance(status, Known) and status.value.kind == "file":
                return Known(path, status.source)
    return Absent(tuple(f"{folder}/{name}" for folder, name in tried))


def _get_current_folder(host: Host) -> str:
    safe = host.environment().get("PYTHONSAFEPATH", "")
    return "" if safe else str(host.system_facts().get("folder", ""))


def _list_earlier_folders(host: Host, installed: Installation, location: str) -> Iterator[str]:
    current = _get_current_folder(host)
    if current and current != location:
        yield current
    for entry in host.environment().get("PYTHONPATH", "").split(";" if host.system == "windows" else ":"):
        if entry == location:
            return
        if entry:
            yield posixpath.join(current, entry)
    for folder in installed.folders:
        if folder.path == location:
            return
        if folder.scope != "path":
            yield folder.path


_PREFIX = '"$prefix"'


_LAUNCHER = "bin/envcheck-cuda"  # as envcheck/plan/activation.py names it


def find_activated_folders(host: Host, prefix: str, known: Sequence[str]) -> Tuple[str, ...]:
    """List the folders that an environment's activation sets; its patterns are held against the `known` ones."""
    found = []
    text = host.read_text(posixpath.join(prefix, _LAUNCHER))
    for pattern in parse_launcher(text.value) if isinstance(text, Known) else ():
        whole = pattern.replace(_PREFIX, prefix)
        found += [folder for folder in known if fnmatch.fnmatch(folder, whole)] if "*" in pattern else [whole]
    return tuple(dict.fromkeys(found))


def parse_launcher(text: str) -> Tuple[str, ...]:
    """Return the folders, those below the environment with "$prefix" in front.

    Sample: add "$prefix"/lib/python3.12/site-packages/nvidia/*/lib
    """
    line = re.search(r"^add (.*)$", text, re.MULTILINE)
    return tuple(re.findall(r'(?:"\$prefix")?/[^ ;"]+', line.group(1))) if line else ()
