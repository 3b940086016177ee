"""Read the chosen Python environment without importing anything from it."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from envcheck.frameworks import distribution_names, framework, framework_names, framework_of
from envcheck.frameworks.packages import (
    Installation,
    find_duplicate_owners,
    load_cuda_data,
    read_installation,
)
from envcheck.host.documents import list_in, parse_object
from envcheck.host.known_variables import WordList, load_known_variables
from envcheck.host.loader import FoundLibrary, Loader, parse_libstdcxx_name
from envcheck.host.paths import list_names
from envcheck.host.protocol import ElfFacts, Host
from envcheck.model import (
    NO_ENVIRONMENT,
    NOT_STATED,
    Absent,
    Distribution,
    Extension,
    Fact,
    FrameworkBuild,
    InterpreterFault,
    JupyterKernel,
    Known,
    LinkFault,
    PythonFacts,
    Source,
    Unknown,
    UnknownWord,
    from_file,
    numbers,
    replace,
)
from envcheck.probes.environment_choice import PythonChoice, PythonSelection, choose_python
from envcheck.probes.installed_files import collect_file_faults, collect_leftovers

# Field of PythonFacts -> key of the child's answer.
_ANSWER_KEYS = {
    "version": "version",
    "implementation": "implementation",
    "bits": "bits",
    "architecture": "machine",
    "platform_tag": "platform",
    "abi_tag": "abi",
    "prefix": "prefix",
    "kind": "kind",
    "externally_managed": "externally_managed",
    "user_site_enabled": "user_site_enabled",
}
_OF_INTERPRETER = ("version", "implementation", "bits", "architecture", "platform_tag", "abi_tag")
_INSTALLATION_FIELDS = (
    "pip_version", "distributions", "duplicate_owners", "frameworks", "extensions", "kernels",
    "libstdcxx_path", "libstdcxx_glibcxx", "file_faults", "install_leftovers", "link_faults",
    "unowned_modules", "unknown_words", "interpreter_faults",
)  # fmt: skip


def collect_python(host: Host, selection: PythonSelection) -> PythonFacts:
    """Choose an interpreter, let it describe itself in isolation, and read its packages."""
    choice = choose_python(host, selection)
    facts = _describe_choice(host, choice, selection)
    return replace(
        facts,
        broken_environment=choice.broken_environment,
        is_found=choice.is_found,
        others=choice.others,
    )


def _describe_choice(host: Host, choice: PythonChoice, selection: PythonSelection) -> PythonFacts:
    if choice.chosen_by == NO_ENVIRONMENT:
        return _describe_no_environment(choice)
    if not isinstance(choice.answer, Known):
        return _make_unknown_facts(choice, choice.answer)
    answer, source = choice.answer.value, choice.answer.source
    if not _describes_interpreter(answer):
        unknown = Unknown(
            "unparsable", "its answer does not describe an interpreter", (source.where,)
        )
        return _make_unknown_facts(choice, unknown)
    if "distributions" not in answer:  # Python 2
        unknown = Unknown(
            "failed", f"Python {answer['version']} is too old to inspect", (source.where,)
        )
        return replace(
            _make_unknown_facts(choice, unknown), version=Known(str(answer["version"]), source)
        )
    facts: Dict[str, Any] = {
        field: Known(answer[key], source) for field, key in _ANSWER_KEYS.items()
    }
    if selection.without_packages:
        installed = {}
    else:
        installed = _read_installed(host, answer, source)
    return PythonFacts(
        executable=choice.executable, chosen_by=choice.chosen_by, **facts, **installed
    )


def _describes_interpreter(answer: Mapping[str, Any]) -> bool:
    """Return whether a child's answer can be one of our script's.

    Any program may answer in its place.
    """
    if not isinstance(answer.get("version"), str):
        return False
    if "distributions" not in answer:  # Python 2, which says no more than its version
        return True
    return all(isinstance(answer.get(key), _type_of(field)) for field, key in _ANSWER_KEYS.items())


def _type_of(field: str) -> type:
    if field == "bits":
        return int
    return bool if field in {"externally_managed", "user_site_enabled"} else str


def _describe_no_environment(choice: PythonChoice) -> PythonFacts:
    """State the interpreter that runs this program, with nothing installed.

    A plan can start from it.
    """
    facts = _make_unknown_facts(choice, choice.executable)
    if not isinstance(choice.answer, Known):
        return facts
    answer, source = choice.answer.value, choice.answer.source
    known = {field: Known(answer[_ANSWER_KEYS[field]], source) for field in _OF_INTERPRETER}
    return replace(facts, **known)


def _make_unknown_facts(choice: PythonChoice, reason: Fact[Any]) -> PythonFacts:
    facts: Dict[str, Any] = dict.fromkeys((*_ANSWER_KEYS, *_INSTALLATION_FIELDS), reason)
    return PythonFacts(executable=choice.executable, chosen_by=choice.chosen_by, **facts)


def _read_installed(host: Host, answer: Mapping[str, Any], source: Source) -> Dict[str, Any]:
    """Read the packages of the interpreter and what Python would load with them."""
    installed = read_installation(host, answer)
    pip: Tuple[Distribution, ...] = installed.named(("pip",))
    path, glibcxx = find_libstdcxx(host, installed)
    frameworks, link_faults = _read_frameworks(host, installed)
    leftovers = collect_leftovers(host, answer)
    return {
        "pip_version": Known(pip[0].version, source) if pip else Absent(("distribution pip",)),
        "distributions": Known(installed.distributions, source),
        "unowned_modules": _read_unowned(answer, source),
        "duplicate_owners": find_duplicate_owners(installed, source),
        "frameworks": frameworks,
        "extensions": collect_extensions(host, installed, source),
        "link_faults": link_faults,
        "libstdcxx_path": path,
        "libstdcxx_glibcxx": glibcxx,
        "kernels": collect_kernels(host, answer["prefix"]),
        "file_faults": collect_file_faults(host, answer, leftovers.value or ()),
        "install_leftovers": leftovers,
        "unknown_words": collect_unknown_words(host, installed.distributions),
        "interpreter_faults": collect_interpreter_faults(host, answer, source),
    }


def collect_interpreter_faults(
    host: Host, answer: Mapping[str, Any], source: Source
) -> Fact[Tuple[InterpreterFault, ...]]:
    """Read what is wrong with the Python itself, and with where it looks for packages."""
    if "compiled" not in answer:
        return NOT_STATED  # an older collector did not ask
    found = [InterpreterFault("front", folder, path) for folder, path in answer["front"].items()]
    replaced: Mapping[str, str] = answer.get("replaced", {})
    found += [InterpreterFault("replaced", module, path) for module, path in replaced.items()]
    lib = posixpath.join(answer["prefix"], "lib")
    found += [
        InterpreterFault("other-library", posixpath.join(lib, name))
        for name in answer["other_libraries"]
    ]
    loader = Loader(host)
    for module, path in answer["compiled"].items():
        elf = host.elf(path).value if path and module in _LINKED else None
        if not path:
            found.append(InterpreterFault("lacks", module))
        elif elf is not None:
            found += [
                InterpreterFault("unloadable", module, path, library)
                for library in elf.needed
                if isinstance(_find_needed(loader, elf, library), Absent)
            ]
    return Known(tuple(found), source)


# The modules of Python that link libraries of the system.
_LINKED = frozenset(("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl", "zlib"))


def _find_needed(loader: Loader, elf: ElfFacts, library: str) -> Fact[FoundLibrary]:
    rpath = elf.runpath if elf.is_rpath else ()
    return loader.find(library, rpath, () if elf.is_rpath else elf.runpath)


def _read_unowned(answer: Mapping[str, Any], source: Source) -> Fact[Tuple[str, ...]]:
    # an older collector did not list them
    if "unowned" in answer:
        return Known(tuple(answer["unowned"]), source)
    return NOT_STATED


def _read_frameworks(
    host: Host, installed: Installation
) -> Tuple[Fact[Tuple[FrameworkBuild, ...]], Fact[Tuple[LinkFault, ...]]]:
    names = {framework_of(each.name) for each in installed.distributions} - {""}
    if not names:
        absent = Absent((f"distributions {', '.join(distribution_names())}",))
        return absent, absent
    # not loaded where there is nothing to read
    from envcheck.frameworks.installed import Inspection, collect_frameworks
    from envcheck.probes.linking import collect_link_faults

    inspection = Inspection(host, installed)
    frameworks = tuple(framework(name) for name in framework_names() if name in names)
    builds = collect_frameworks(inspection, frameworks)
    return from_file(builds, installed.prefix), collect_link_faults(inspection, frameworks)


def collect_kernels(host: Host, prefix: str) -> Fact[Tuple[JupyterKernel, ...]]:
    """Read kernel.json of every kernel that a Jupyter of this environment or user lists."""
    folders = list(_list_kernel_folders(host, prefix))
    kernels: Dict[str, JupyterKernel] = {}
    for folder in folders:
        for name in list_names(host, folder):
            python = parse_kernel(
                host.read_text(posixpath.join(folder, name, "kernel.json")).value or ""
            )
            if python:
                kernels.setdefault(name, JupyterKernel(name, python))
    if kernels:
        return from_file(tuple(kernels.values()), folders[0])
    return Absent(tuple(folders))


def parse_kernel(text: str) -> str:
    """Parse the program that a kernel.json starts, "" without one.

    Sample: '{"argv": ["/v/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "language": "python"}'
    """
    command = list_in(parse_object(text), "argv")
    return str(command[0]) if command else ""


def _list_kernel_folders(host: Host, prefix: str) -> Iterator[str]:
    environment = host.environment()
    home = environment.get("HOME", "")
    for entry in environment.get("JUPYTER_PATH", "").split(":"):
        if entry.startswith("/"):
            yield f"{entry}/kernels"
    if environment.get("JUPYTER_DATA_DIR"):
        yield posixpath.join(environment["JUPYTER_DATA_DIR"], "kernels")
    elif host.system == "darwin":
        yield posixpath.join(home, "Library/Jupyter/kernels")
    elif host.system == "windows":
        yield posixpath.join(environment.get("APPDATA", ""), "jupyter/kernels")
    else:
        yield posixpath.join(
            environment.get("XDG_DATA_HOME") or f"{home}/.local/share", "jupyter/kernels"
        )
    yield posixpath.join(prefix, "share/jupyter/kernels")
    if host.system != "windows":
        yield from ("/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels")


def collect_extensions(
    host: Host, installed: Installation, source: Source
) -> Fact[Tuple[Extension, ...]]:
    """Read the libraries that known extensions need: flash-attn, mmcv, apex, torchvision ..."""
    known = load_cuda_data()["extensions"]
    extensions = tuple(
        extension
        for distribution in installed.distributions
        for pattern in known.get(distribution.name, ())
        for extension in _read_extensions(host, distribution, pattern)
    )
    if extensions:
        return Known(extensions, source)
    return Absent(("distributions: " + ", ".join(sorted(known)),))


def _read_extensions(host: Host, distribution: Distribution, pattern: str) -> Iterator[Extension]:
    prefixes = tuple(load_cuda_data()["extension_needs"])
    folder, name_pattern = posixpath.split(posixpath.join(distribution.location, pattern))
    for name in list_names(host, folder):
        if fnmatch.fnmatchcase(name, name_pattern) and ".so" in name:
            path = posixpath.join(folder, name)
            elf = host.elf(path)
            if elf.value is not None:
                needed = tuple(soname for soname in elf.value.needed if soname.startswith(prefixes))
                yield Extension(distribution.name, path, needed)


_LIBSTDCXX = "libstdc++.so.6"


def find_libstdcxx(host: Host, installed: Installation) -> Tuple[Fact[str], Fact[str]]:
    """Return the path and newest GLIBCXX of the copy that Python loads.

    It is conda's, else the system's.
    """
    if host.system != "linux":
        absent = Absent((f"{_LIBSTDCXX} on {host.system}",))
        return absent, absent
    # A conda interpreter has an RPATH to this folder.
    rpath = [posixpath.join(installed.base_prefix, "lib")] if installed.is_conda else []
    library = Loader(host).find(_LIBSTDCXX, rpath=tuple(rpath))
    if not isinstance(library, Known):
        return library, library
    path = library.value.path
    return Known(path, library.source), _read_newest_glibcxx(host, path)


def _read_newest_glibcxx(host: Host, path: str) -> Fact[str]:
    version = parse_libstdcxx_name(path)
    if version:
        return from_file(version, path)
    elf = host.elf(path)
    if not isinstance(elf, Known):
        return elf
    matches = [re.match(r"GLIBCXX_([\d.]+)$", name) for name in elf.value.versions_defined]
    versions = [match.group(1) for match in matches if match]
    if not versions:
        return Unknown("unparsable", f"{path} defines no GLIBCXX version", (path,))
    return Known(max(versions, key=numbers), elf.source)


_LIMIT = 1 << 29  # bytes; the library of jaxlib has 350 million


def collect_unknown_words(
    host: Host, installed: Sequence[Distribution]
) -> Fact[Tuple[UnknownWord, ...]]:
    """Find the words of set variables that the installed release does not have.

    Absent where none is looked up.
    """
    environment = host.environment()
    unknown: List[UnknownWord] = []
    read: List[str] = []
    for row in load_known_variables().words:
        named = dict.fromkeys(re.findall(row.words, environment.get(row.name, "")))
        words = [item for item in named if item not in row.usual]
        for owner in (item for item in installed if words and item.name == row.package):
            for path in _find_file(host, owner, row):
                content = host.read_bytes(path, _LIMIT).value
                if content is not None:
                    read.append(path)
                    lost = (item for item in words if item.encode() not in content)
                    given = (owner.name, owner.version, path)
                    unknown += [UnknownWord(row.name, item, *given) for item in lost]
    if not read:
        return Absent(tuple(row.name for row in load_known_variables().words))
    return from_file(tuple(unknown), read[0])


def _find_file(host: Host, owner: Distribution, row: WordList) -> Iterator[str]:
    """Yield the first file of a list that is there."""
    paths = (posixpath.join(owner.location, name) for name in row.files)
    found = (path for path in paths if isinstance(host.status(path), Known))
    yield from list(found)[:1]
