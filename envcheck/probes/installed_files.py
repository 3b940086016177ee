"""Compare installed files with their lists, and find what interruptions left behind."""

from __future__ import annotations

import posixpath
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from envcheck.frameworks import (
    companions,
    distribution_names,
    framework_names,
    framework_of,
    imported_modules,
    needed_distributions,
)
from envcheck.host.elf import find_damage
from envcheck.host.paths import list_names
from envcheck.host.protocol import Host
from envcheck.model import (
    NOT_STATED,
    NUMPY_1,
    Absent,
    Fact,
    FileFault,
    InstallLeftover,
    Known,
    Unknown,
    from_file,
    major_minor,
    numbers,
)
from envcheck.model.text import find_group
from envcheck.model.versions import name_needs

_RECORD_LIMIT = 32 << 20  # bytes; TensorFlow's has 3 million
_KEPT = 50  # faults of one distribution
_COPIED = 200  # files of one distribution that changed after its installation
_MODULE_LIMIT, _MODULES_READ = 20 << 20, 16  # of the compiled modules that are read for NumPy
_UNTESTED = re.compile(r"(^|/)tests/")
_LIBRARY = re.compile(r"\.so(\.\d+)*$|\.(pyd|dll|dylib)$")
_MARKER, _JOURNALS = ".envcheck-incomplete", ".envcheck-"  # envcheck/install/places.py names them
_UNLOADABLE = ("missing", "empty", "not-elf", "other-python")  # an ImportError, and no signal
_INNER = re.compile(r"[^/]+/(?!__init__\.py$).+\.py")  # a module below one of the uppermost
_LEFT_BY_PIP = re.compile(r"~(.+)-([^-]+)\.dist-info$")
Sizes = Mapping[str, int]


def collect_file_faults(
    host: Host, answer: Mapping[str, Any], leftovers: Sequence[InstallLeftover]
) -> Fact[Tuple[FileFault, ...]]:
    """Find the damaged files of a framework, and of what its import loads."""
    checked = list(_select([*answer["distributions"], *_list_renamed(leftovers)]))
    if not checked:
        return Absent((f"distributions {', '.join(distribution_names())}",))
    if any("metadata" not in entry for entry in checked):
        return NOT_STATED
    folders, compiler = _Folders(host), _find_compiler(host, answer)
    tag = "cpython-" + str(answer["abi"])[2:]
    numpys = [each["version"] for each in answer["distributions"] if each["name"] == "numpy"]
    has_numpy_2 = numbers("".join(numpys[:1])) >= (2,)
    faults: List[FileFault] = []
    for entry in checked:
        # a folder on PYTHONPATH may be another Python's, whole: its entry is at fault
        own = "" if entry.get("scope") in ("path", "front") else tag
        faults += _find_faults(host, folders, {**entry, NUMPY_1: has_numpy_2}, compiler, own)
    if not faults and folders.unreadable is not None:
        return folders.unreadable
    return from_file(tuple(faults), str(checked[0]["location"]))


def _find_compiler(host: Host, answer: Mapping[str, Any]) -> Optional[str]:
    """Return the Python that compiles what is installed.

    Return None where it is not ours to start, and ours is another.
    """
    if not answer.get("is_found"):
        return str(answer["executable"])
    own = host.ask("interpreter_info", "without-packages").value or {}
    is_alike = major_minor(str(own.get("version", ""))) == major_minor(answer["version"])
    return "" if is_alike else None


def _list_renamed(leftovers: Sequence[InstallLeftover]) -> Iterator[Mapping[str, Any]]:
    """List the distributions that pip renamed, whose RECORD tells which of their files are back."""
    for item in leftovers:
        if item.kind == "compared":
            location, metadata = posixpath.split(item.path)
            yield {
                "name": item.distribution,
                "version": item.release,
                "location": location,
                "metadata": metadata,
                "installer": "pip",
                "modules": (item.distribution.replace("-", "_"),),
            }


def _select(entries: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Select frameworks, what requires one (torchvision, flax), and what importing these loads.

    Of each name the first.
    """
    frameworks = {framework_of(entry["name"]) for entry in entries} - {""}
    beside = {entry["name"] for entry in entries if companions().get(entry["name"]) in frameworks}
    modules: Set[str] = set()
    for name in frameworks | beside:
        modules.update(*imported_modules(name))
    needed: Set[str] = set()
    needed.update(*map(needed_distributions, beside))
    seen: Set[str] = set()
    for entry in entries if frameworks else ():
        name = entry["name"]
        is_named = framework_of(name) or name in needed or name.startswith("nvidia-")
        is_part = (
            is_named
            or modules.intersection(entry["modules"])
            or any(map(framework_of, name_needs(entry.get("requires", ()))))
        )
        if is_part and name not in seen and entry["installer"] != "conda":
            seen.add(name)
            yield entry


class _Folders:
    """Lists each folder once; remembers the first that could not be read."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sizes: Dict[str, Optional[Sizes]] = {}
        self.unreadable: Optional[Unknown] = None

    def sizes(self, path: str) -> Optional[Sizes]:
        """Return the files in a folder with their sizes.

        None where there is no such folder, None if unreadable.
        """
        if path not in self._sizes:
            fact = self._host.list_sizes(path)
            if isinstance(fact, Unknown):
                self.unreadable = self.unreadable or fact
            self._sizes[path] = None if isinstance(fact, Unknown) else fact.value or {}
        return self._sizes[path]

    def find_missing(self, location: str, folder: str) -> str:
        """Find the topmost folder on the way to one that does not exist.

        Return "" where none is missing.
        """
        parts = folder.split("/")
        for count in range(1, len(parts) + 1):
            sizes = self.sizes(posixpath.join(location, *parts[: count - 1]))
            if sizes is None:
                return ""
            if parts[count - 1] not in sizes:
                return "/".join(parts[:count])
        return ""


def _find_faults(
    host: Host, folders: _Folders, entry: Mapping[str, Any], python: Optional[str], own: str
) -> List[FileFault]:
    location = entry["location"]
    listing = posixpath.join(location, entry["metadata"], "RECORD")
    record = host.read_text(listing, _RECORD_LIMIT).value
    if record is None:
        return []
    listed = parse_record(record)
    found = dict(_find_numpy_1(host, entry, listed))
    smaller: List[str] = []
    changed: List[str] = []
    for folder, files in listed.items():
        place = posixpath.join(location, folder)
        sizes = folders.sizes(place)
        if sizes is None:
            continue
        missing = folders.find_missing(location, folder) if folder and not sizes else ""
        if missing:
            found[missing] = "missing"
            continue
        later = set(host.list_changed(place, listing))
        for name, size in files.items():
            path, there = posixpath.join(folder, name), sizes.get(name, 0)
            kind = _judge(host, place, name, size, sizes) or _judge_tag(name, sizes, own)
            if kind:
                found[path] = kind
            elif name.endswith(".py") and 0 < there < size:
                smaller.append(path)
            elif name.endswith(".py") and (there > size >= 0 or name in later):
                changed.append(path)
    if len(changed) > _COPIED:  # the whole environment was copied or unpacked anew
        changed = []
    found.update(
        _find_altered(host, location, smaller[:_KEPT], changed, record=record, python=python)
    )
    found.update(list(_weigh(host, location, found)))
    # What every import needs comes first: libraries, and the files of the uppermost folders.
    order = sorted(found, key=lambda path: (_LIBRARY.search(path) is None, path.count("/"), path))
    given = (entry["name"], entry["version"])
    return [
        FileFault(*given, path, found[path], entry["installer"], location) for path in order[:_KEPT]
    ]


def _weigh(host: Host, location: str, found: Mapping[str, str]) -> Iterator[Tuple[str, str]]:
    """Tell from the modules near a damaged one whether their import goes on without what it lost.

    Of the first files alone: where more are damaged, hardly an import works.
    """
    if not found:
        return
    from envcheck.probes.module_sources import is_optional, list_lacking

    for path, kind in list(found.items())[:_KEPT]:
        if kind in _UNLOADABLE and re.search(r"\.(so|pyd)$", path):
            if is_optional(host, location, path):
                yield path, "optional"
        elif kind in ("shortened", "edited", "empty") and path.endswith(".py"):
            is_for_names = kind == "empty" and not _INNER.fullmatch(path)
            is_lacking = is_for_names or bool(list_lacking(host, location, path))
            if is_lacking is (kind != "empty"):
                yield path, "lacking" if is_lacking else "emptied"


_ASKS_NUMPY = b"module compiled against A"  # each module that asks NumPy for its ABI says so
_OF_NUMPY_2 = b"numpy._core"  # where those look that are compiled with its headers


def _find_numpy_1(
    host: Host, entry: Mapping[str, Any], listed: Mapping[str, Sizes]
) -> Iterator[Tuple[str, str]]:
    """Find a module that states by its texts that it was compiled for NumPy 1: NumPy 2 refuses it.

    One distribution is built at once: the first small module that asks NumPy answers for all.
    """
    needs = re.compile(r"numpy\b(?![-_.])")
    if not entry[NUMPY_1] or not any(map(needs.match, entry.get("requires", ()))):
        return
    sized = [
        (size, posixpath.join(folder, name))
        for folder, files in listed.items()
        for name, size in files.items()
        if name.endswith(".so") and not name.startswith("lib") and 0 < size <= _MODULE_LIMIT
    ]
    for _, path in sorted(sized)[:_MODULES_READ]:
        place = posixpath.join(entry["location"], path)
        content = host.read_bytes(place, _MODULE_LIMIT).value or b""
        if _ASKS_NUMPY in content:
            if _OF_NUMPY_2 not in content:
                yield path, NUMPY_1
            return


def _find_altered(
    host: Host,
    location: str,
    smaller: Sequence[str],
    changed: Sequence[str],
    *,
    record: str,
    python: Optional[str],
) -> Dict[str, str]:
    """Tell files that were cut off from those that hold another text than was installed.

    Another text is one that was not installed, or was installed as another file.
    """
    kinds: Dict[str, str] = {}
    for path in (*smaller, *changed):
        content = host.read_bytes(posixpath.join(location, path), _RECORD_LIMIT).value
        if content is None:
            continue
        listed = re.search(rf"^{re.escape(path)},sha256=([\w-]+),", record, re.MULTILINE)
        digest = hash_content(content)
        if path in smaller and not content.endswith(b"\n"):
            kinds[path] = "shortened"  # as no editor leaves it
        elif listed and digest != listed[1]:
            kinds[path] = "misplaced" if f",sha256={digest}," in record else "edited"
    places = {posixpath.join(location, path): path for path in (*smaller, *kinds)}
    if not places or python is None:
        return kinds
    answer = host.ask("syntax_errors", *places, python=python, timeout=10.0).value or {}
    for place in answer.get("paths", ()):
        kinds[places[place]] = "truncated" if places[place] in smaller else "garbled"
    return kinds


def hash_content(content: bytes) -> str:
    """Hash a file as a RECORD writes it."""
    import base64  # few environments hold a file that changed
    import hashlib  # which loads OpenSSL

    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return digest.rstrip(b"=").decode("ascii")


def parse_record(text: str) -> Dict[str, Dict[str, int]]:
    """Parse the Python files and the libraries of a RECORD.

    Folder -> name -> size, -1 where none is stated.

    Sample: 'torch/lib/libc10.so,sha256=2mMkh0TTTlDc-A1W,1253144'
    """
    folders: Dict[str, Dict[str, int]] = {}
    for line in text.splitlines():
        if ".py," not in line and ".so" not in line and ".pyd," not in line and ".d" not in line:
            continue
        path, _, rest = line.partition(",")
        folder, _, name = path.rpartition("/")
        if not (name.endswith(".py") or _LIBRARY.search(name)) or path.startswith(("..", "/", '"')):
            continue
        if not _UNTESTED.search(path) and not name.endswith("_test.py"):
            size = rest.rpartition(",")[2]
            folders.setdefault(folder, {})[name] = int(size) if size.isdigit() else -1
    return folders


def _judge(host: Host, folder: str, name: str, size: int, sizes: Sizes) -> str:
    """Say what is wrong with a file; "" where nothing is.

    An edited file differs in its size alone.
    """
    there = sizes.get(name)
    if there is None:
        # Python imports it without the source
        has_bytecode = name.endswith(".py") and f"{name}c" in sizes
        # without it the folder is a namespace package
        is_marker = name == "__init__.py" and size == 0
        return "" if has_bytecode or is_marker else "missing"
    if there == 0:
        return "empty" if size > 0 else ""
    if there == size or size < 0 or not re.search(r"\.so(\.\d+)*$", name):
        return ""
    head = host.read_bytes(posixpath.join(folder, name), 4096)
    return find_damage(head.value, there) if head.value is not None else ""


_BUILT = re.compile(r"\.(cpython-\d+t?)-[\w-]+\.so$")


def _judge_tag(name: str, sizes: Sizes, own: str) -> str:
    """Say that a module names another Python, and none beside it is for this one.

    Sample: '_multiarray_umath.cpython-313-x86_64-linux-gnu.so'
    """
    if not own.startswith("cpython-3") or not _BUILT.search(name):
        return ""
    stem = name.partition(".")[0]
    beside = [each for each in sizes if each.startswith(f"{stem}.")]
    tags = [_BUILT.search(each) for each in beside]
    has_own = any(tag is not None and tag.group(1) == own for tag in tags)
    is_usable = {f"{stem}.so", f"{stem}.abi3.so", f"{stem}.py"}.intersection(beside)
    return "" if has_own or is_usable else "other-python"


def collect_leftovers(host: Host, answer: Mapping[str, Any]) -> Fact[Tuple[InstallLeftover, ...]]:
    """Find what an installation that did not come to its end left in the environment."""
    marker = posixpath.join(answer["prefix"], _MARKER)
    text = host.read_text(marker)
    found: List[InstallLeftover] = []
    if text.value is not None:
        command = ""
        if _has_journal(host, answer["prefix"]):
            command = "\n".join(text.value.splitlines()[1:2])
        found.append(InstallLeftover(marker, "marker", command=command))
    found += _find_start_code(host, answer["folders"])
    entries = answer["distributions"]
    if any("metadata" not in entry for entry in entries):
        if found:
            return from_file(tuple(found), marker)
        return NOT_STATED
    names = {entry["name"] for entry in entries}
    for folder in answer["folders"]:
        if folder["scope"] == "environment":
            found += _find_renamed(host, folder["path"], names)
    found += [each for entry in entries for each in _find_without_record(host, entry)]
    found += _find_unowned(host, answer)
    return from_file(tuple(found), answer["prefix"])


def _find_start_code(host: Host, folders: Sequence[Mapping[str, str]]) -> Iterator[InstallLeftover]:
    """Find the code that Python runs at its start, where its first level ends Python."""
    for name in ("sitecustomize", "usercustomize"):
        paths = (posixpath.join(folder["path"], f"{name}.py") for folder in folders)
        texts = ((path, host.read_text(path).value) for path in paths)
        path, text = next((item for item in texts if item[1] is not None), ("", None))
        if text and re.search(r"exit|quit|SystemExit", text, re.IGNORECASE):
            from envcheck.probes.module_sources import find_ending

            ending = find_ending(text)
            if ending:
                yield InstallLeftover(path, "start-code", command=ending)


def _has_journal(host: Host, prefix: str) -> bool:
    """Return whether the installation into an environment can still be finished or undone."""
    parent, name = posixpath.split(posixpath.normpath(prefix))
    return any(
        each.endswith(".jsonl")
        for each in list_names(host, posixpath.join(parent, _JOURNALS + name))
    )


def _find_renamed(host: Host, folder: str, names: Set[str]) -> Iterator[InstallLeftover]:
    """Find distributions that pip renamed to remove them, and of which none came in their place."""
    for name in list_names(host, folder):
        match = _LEFT_BY_PIP.match(name)
        ending = re.sub(r"[-_.]+", "-", match.group(1)).lower() if match else ""
        if match and not any(each[1:] == ending for each in names):
            whole = next((each for each in _list_known(names) if each[1:] == ending), "")
            path = posixpath.join(folder, name)
            is_listed = isinstance(host.status(posixpath.join(path, "RECORD")), Known)
            yield InstallLeftover(
                path, "compared" if is_listed else "renamed", whole, match.group(2)
            )


def _list_known(installed: Set[str]) -> Iterator[str]:
    """List the distributions of frameworks, and what importing them needs."""
    yield from distribution_names()
    for name in framework_names():
        for module in sorted(imported_modules(name)[0]):
            yield module.replace("_", "-")
    for name in sorted(installed.intersection(companions())):
        yield from sorted(needed_distributions(name))


def _find_without_record(host: Host, entry: Mapping[str, Any]) -> Iterator[InstallLeftover]:
    """Find wheels without RECORD, which pip writes last, or METADATA.

    Debian and conda differ.
    """
    path = posixpath.join(entry["location"], entry["metadata"])
    if entry["scope"] != "environment" or not entry["metadata"].endswith(".dist-info"):
        return
    if entry["installer"] not in ("", "pip", "uv"):
        return
    sizes = host.list_sizes(path).value or {}
    lost = [name for name in ("RECORD", "METADATA") if not sizes.get(name)]
    if "WHEEL" in sizes and lost:
        yield InstallLeftover(path, f"no-{lost[0].lower()}", entry["name"], entry["version"])


def _find_unowned(host: Host, answer: Mapping[str, Any]) -> Iterator[InstallLeftover]:
    """Find frameworks' modules without metadata, which uv and pip write last.

    A link leads to another owner's folder; editable installs have metadata, and their folders lie
    elsewhere.
    """
    owned = {framework_of(entry["name"]) for entry in answer["distributions"]}
    if answer["kind"] == "conda" or answer["base_is_conda"]:
        return
    for folder in answer["folders"]:
        path = folder["path"]
        if folder["scope"] != "environment" or not re.search(
            r"/[Ll]ib(64)?/(.*/)?site-packages$", path
        ):
            continue
        names = list_names(host, path)
        renamed = {match.group(1).lower() for match in map(_LEFT_BY_PIP.match, names) if match}
        for name in framework_names():
            if (
                name in owned
                or name not in names
                or name[1:] in {each.partition("_")[0] for each in renamed}
            ):
                continue
            module = posixpath.join(path, name)
            is_own = host.real_path(module).value == posixpath.join(
                host.real_path(path).value or "", name
            )
            if is_own and any(each.endswith(".py") for each in list_names(host, module)):
                text = host.read_text(posixpath.join(module, "version.py")).value or ""
                yield InstallLeftover(
                    module,
                    "unowned",
                    name,
                    find_group(r"^_*version_*\s*=\s*['\"](\d[\w.+]*)['\"]", text, re.MULTILINE),
                )
