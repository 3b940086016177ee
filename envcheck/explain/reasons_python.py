"""Conclude from messages of pip and Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from envcheck.explain.log import (
    FRAMEWORKS,
    UNREACHED_INDEX,
    Claim,
    Log,
    conclude,
    find_framework_of_message,
    is_framework_module,
    parse_number,
)
from envcheck.explain.signatures import Event
from envcheck.matrix.companions import source_package
from envcheck.matrix.package_index import cuda_label
from envcheck.model import FrameworkRelease, major_minor, numbers, replace
from envcheck.model.text import canonical_name, find_group
from envcheck.model.versions import find_requirement, name_of, public_version, within
from envcheck.remedies.situation import find_last_gpu_release
from envcheck.remedies.system import system_packages
from envcheck.rules.requirements import easiest_for_pip, lowest_glibc

# what lets pip find nothing to install
REFUSALS = (
    "python-unsupported", "python-32bit", "pip-too-old", "platform-no-gpu-wheel",
    "framework-package-removed", "glibc-too-old",
)  # fmt: skip
_NEVER_BUILT = ("aarch64", "arm64")  # processors for which no withdrawn distribution had a wheel


def pip_claims(log: Log) -> Iterator[Claim]:
    """Say why pip refuses a requirement, a wheel or an extra."""
    by_requirement: dict[str, list[Event]] = {}
    for event in log.select("pip-from-versions", "pip-no-distribution"):
        by_requirement.setdefault(event.values["requirement"].rstrip(".,:;"), []).append(event)
    for requirement, events in by_requirement.items():
        offered = _list_offered(events)
        if not offered and log.has(*UNREACHED_INDEX):
            continue  # an index that does not answer lists nothing
        left_out = [item for item in log.select("pip-left-out") if _is_named(item, requirement)]
        if left_out:
            yield conclude("release-left-out", *left_out, *events, requirement=requirement)
            continue
        name = _read_requirement(log, requirement, events)
        newest = "".join(offered[-1:]) or _find_newest(log, requirement)
        stated = {
            "requirement": requirement,
            "newest": newest,
            "python": log.python,
            "pip": log.pip,
            "label": log.first_value("index_label") or find_group(r"\+(cu\d{3})$", requirement),
        }
        options = log.select("pip-only-binary") if name == "no-file-of-package" else ()
        is_source = name == "no-file-of-package" and source_package(name_of(requirement))
        if options or (is_source and not offered):
            name = "source-release-refused"
        if name:
            yield conclude(name, *events, *options, **stated)
    for event in log.select("wrong-wheel-tag"):
        yield from _judge_wheel(log, event)


def _is_named(left_out: Event, requirement: str) -> bool:
    """Return whether pip leaves out the very release that is required."""
    asked = find_requirement(requirement)
    row = left_out.values
    return asked is not None and (asked.name, asked.specifier) == (
        canonical_name(row["package"]),
        f"=={row['left_out']}",
    )


def _read_requirement(log: Log, text: str, events: list[Event]) -> str:
    """Name why pip finds nothing for a requirement; "" where the rules say it."""
    asked = find_requirement(text)
    if asked is None:
        return ""
    name, specifier = asked.name, asked.specifier
    removed = log.matrix.removed_distribution(name)
    framework = log.matrix.framework_of(name) or (removed.framework if removed else "")
    if not framework:
        is_of_linux = re.match(r"nvidia-[\w-]+-cu\d+$|triton$", name)
        return "cuda-wheel-of-linux" if is_of_linux else "no-file-of-package"
    if "+" in specifier and any(item.plugins and item.owns(name) for item in FRAMEWORKS):
        # a page that the framework once linked to, with wheels for Linux alone, is gone
        return "labelled-wheel-of-linux" if log.os in ("windows", "darwin") else "labelled-wheel"
    rows = list_matching_releases(log, framework, name, specifier)
    if not removed or (rows and not _is_after_last(specifier, removed.last_versions.values())):
        return _read_obstacle(log, text, rows, events)
    is_never_built = log.os == "darwin" or log.architecture in _NEVER_BUILT
    if specifier or _list_offered(events) or not is_never_built:
        return ""  # the rules say that it was withdrawn
    return "never-built"


def _read_obstacle(log: Log, text: str, rows: list[FrameworkRelease], events: list[Event]) -> str:
    """Name what the log tells: the Python, what pip lists, its own release.

    The rest the rules say of the machine.
    """
    elsewhere = _read_place(log, text, rows, events)
    if elsewhere:
        return elsewhere
    if log.python and rows and not any(log.python in row.pythons for row in rows):
        return "no-wheel-for-python"
    required = map(easiest_for_pip, rows)
    required_pip = min((item.pip for item in required if item), key=numbers, default="")
    # of a known one the rules judge
    has_glibc = bool(log.facts.host.libc_version.value or log.first_value("glibc"))
    is_left = log.python and log.pip and required_pip and not has_glibc and log.os == "linux"
    if is_left and not _is_older(log.pip, required_pip):
        return "system-too-old"
    if _list_offered(events):
        return "newer-not-offered"
    # pip 19.1 and newer write ERROR first; without that, this pip may be too old
    is_old_format = not any("prefix" in event.values for event in events)
    oldest = system_packages().pip.oldest_in_use
    is_old = is_old_format and log.os != "windows" and re.search("[=<>~]", text)
    if is_old and required_pip and not _is_older(required_pip, oldest):
        return "old-pip"
    return "nothing-fits"


def _read_place(log: Log, text: str, rows: list[FrameworkRelease], events: list[Event]) -> str:
    """Name the C library or the index that has no such wheel; "" where neither decides.

    No index has a release that is newer than all.
    """
    newest = _find_newest(log, text)
    if newest and _is_older(newest, find_group(r"={2,3}([\d.]+)(?:\+\w+)?$", text)):
        return "beyond-newest"
    if rows and log.values("musl"):
        return "no-wheel-for-musl"
    if rows and find_nearest_index(log, rows, text):
        return "index-does-not-exist"
    return "index-not-asked" if find_label_not_offered(text, events) else ""


_OLDEST_LABEL = 118  # of which every build is known


def find_nearest_index(log: Log, rows: Sequence[FrameworkRelease], text: str) -> str:
    """Return the label nearest to one of which the framework has no build: cu130 for cu131.

    `rows` are the releases that were asked for by `text`, the newest first. "" for a label that it
    has.
    """
    asked = int(log.first_value("index_label")[2:] or find_group(r"\+cu(\d{3})$", text) or 0)
    if asked < _OLDEST_LABEL:
        return ""
    labels = [
        {int(cuda_label(cuda)[2:]) for cuda in row.variants}
        for row in (*rows, *log.matrix.releases(rows[0].framework))
        if row.variants
    ]
    if not labels or asked in set().union(*labels):
        return ""
    return f"cu{min(sorted(labels[0]), key=lambda label: abs(label - asked))}"


_MACHINES = ("x86_64", "aarch64", "arm64")


def find_label_not_offered(text: str, events: Iterable[Event]) -> str:
    """Return the label of a release that pip lists without it: cu121 of torch==2.4.0+cu121."""
    public, _, label = text.partition("=")[2].strip("=").partition("+")
    return label if public in _list_offered(events) else ""


def _list_offered(events: Iterable[Event]) -> list[str]:
    """List the releases that pip says it can use, the newest last."""
    texts = [event.values.get("versions", "") for event in events]
    listed = next(filter(None, texts), "").split(",")
    return [item.strip() for item in listed if re.match(r"\s*\d", item)]


def list_matching_releases(
    log: Log, framework: str, name: str, specifier: str
) -> list[FrameworkRelease]:
    """List the releases that a specifier admits on every platform; without one the newest."""
    rows = [row for row in log.matrix.releases(framework) if row.distribution == name]
    public = public_version(specifier.replace("===", "=="))  # the matrix' rows have no label
    try:
        matching = [row for row in rows if within(row.version, public)]
    except ValueError:  # a log may hold anything
        return []
    if specifier or not matching:
        return matching
    newest = matching[0].version  # without a specifier pip wants the newest
    return [row for row in matching if row.version == newest]


def _is_after_last(specifier: str, last_versions: Iterable[str]) -> bool:
    asked = find_group(r"^={2,3}(\d[\w.+!]*?)(?:\.\*)?$", specifier)
    if not asked:
        return not specifier
    return all(_is_older(item, asked) for item in last_versions)


def _find_newest(log: Log, text: str) -> str:
    """Return the newest release that the matrix has of a framework that is asked for."""
    return next(iter(log.matrix.versions(log.matrix.framework_of(name_of(text)) or "")), "")


def _is_older(version: str, other: str) -> bool:
    return numbers(version)[:3] < numbers(other)[:3]


_SYSTEMS = {"win": "windows", "macosx": "darwin"}  # by the start of a platform tag


def _judge_wheel(log: Log, event: Event) -> Iterator[Claim]:
    """Compare the tags of a wheel that pip refuses with what is stated of the machine."""
    match = re.search(r"-cp(\d)(\d+)\w*-\w+-([\w.]+)\.whl$", event.values["wheel"])
    if match is None:
        return
    python, tags = f"{match[1]}.{match[2]}", match[3]
    target = next((name for name in _MACHINES if tags.endswith(name)), "")
    glibc = log.facts.host.libc_version.value or log.first_value("glibc")
    floor = lowest_glibc(tags.split("."))
    system = next((name for start, name in _SYSTEMS.items() if tags.startswith(start)), "linux")
    name = "wheel-for-python"
    if log.os and log.os != system:
        return  # the Python is not to blame
    if target and log.architecture in _MACHINES and log.architecture != target:
        name = "wheel-for-machine"
    elif glibc and floor and _is_older(glibc, floor):
        name = "wheel-for-glibc"
    elif not log.python:
        return  # its name states a Python and a platform, the log neither
    elif log.python == python:
        if "manylinux" not in tags:
            return  # another tag than that of Python, which its name does not tell
        name = "wheel-unknown-to-pip"
    here = {"machine": log.architecture, "glibc": glibc, "here": log.python}
    yield conclude(name, event, python=python, target=target, floor=floor, **here)


_INSTALLED = (
    "site-packages", "dist-packages", "/lib/python", "\\Lib\\", "\\lib\\", "<frozen",
)  # fmt: skip
_ATTRIBUTES = (
    "tf1-code-on-tf2", "torch-attribute", "jax-attribute", "partially-initialized",
    "unknown-location",
)  # fmt: skip


def python_claims(log: Log) -> Iterator[Claim]:
    """Say what imports and attributes that fail mean."""
    yield from _judge_shadowing(log)
    yield from _judge_numpy(log)
    yield from _judge_two_releases(log)
    yield from _judge_builds(log)


def is_users_file(path: str) -> bool:
    """Return whether a path lies outside the folders where packages are installed."""
    return not any(part in path for part in _INSTALLED)


# What the loader says of a file that was not copied whole.
_DAMAGE = r"file too short|invalid ELF header|ELF load command|cannot read file data"
_OF_WHEEL = r"-[0-9a-f]{8}\b"  # a wheel's own copy of a library has a hash in its name


def _judge_numpy(log: Log) -> Iterator[Claim]:
    """Say why NumPy's compiled part does not load, which its own words hide.

    NumPy ends with "you should not try to import numpy from its source directory" whatever failed.
    """
    wrappers = log.select("numpy-c-extensions")
    tree = log.select("tf-source-directory")
    of_numpy = [event for event in tree if "numpy" in event.text]
    originals = log.select("numpy-original-error")
    name, stated = _read_numpy(log, originals[-1]) if originals else ("", {})
    if name:
        same = (item for item in log.events if originals[-1].values["original"] in item.text)
        package = ("package", "numpy")
        needed = ("needed", f"numpy=={log.first_value('numpy_release')}".removesuffix("=="))
        captures = (*originals[-1].captures, package, needed, *stated.items())
        event = replace(originals[-1], captures=captures)
        yield conclude(name, event, *same, *wrappers, *of_numpy)
    elif wrappers and not _has_other_reading(log, originals[-1:]):
        yield conclude("numpy-binaries", *wrappers)
    is_installed = not all(map(is_users_file, log.values("numpy_folder")))
    for event in tree:
        if event not in of_numpy or not (name or wrappers or is_installed):
            yield conclude("source-directory", event)


def _has_other_reading(log: Log, originals: Sequence[Event]) -> bool:
    """Return whether another known message is what NumPy calls its original error."""
    lines = {event.line for event in originals}
    others = (event for event in log.events if event not in originals)
    return any(lines & {event.line, event.last_line} for event in others)


def _read_numpy(log: Log, event: Event) -> tuple[str, dict[str, str]]:
    """Name what NumPy's original error means, with its values; "" where other messages say it."""
    original = event.values["original"]
    missing = re.match(r"(?P<library>lib[\w+.-]+): cannot open shared object file", original)
    if missing:
        is_own = re.search(_OF_WHEEL, missing["library"])
        name = "numpy-library-of-wheel" if is_own else "numpy-lacks-library"
        return name, missing.groupdict()
    if re.search(_DAMAGE, original):
        return "numpy-damaged", {}
    if "No module named 'numpy." in original:
        stated = {"folder": "".join(log.values("numpy_folder")[-1:])}
        for row in log.select("numpy-interpreter"):
            stated.update(row.values)
        return _read_numpy_folder(**stated), stated
    return "", {}


def _read_numpy_folder(folder: str, interpreter: str = "", python: str = "") -> str:
    """Tell a NumPy of another Python from one that lost its compiled part, by where it lies."""
    prefix = re.sub(r"[/\\](?:bin[/\\])?[^/\\]+$", "", interpreter)
    minor = find_group(r"[/\\]python(\d\.\d+)[/\\]", folder)
    # Debian's folder is of every Python 3, its NumPy of the system's
    is_shared = folder.endswith("/python3/dist-packages")
    is_here = minor == python or (not minor and folder.startswith(prefix))
    if folder and prefix and (is_shared or not is_here):
        return "numpy-of-other-python"
    return "numpy-part-missing"


def _judge_two_releases(log: Log) -> Iterator[Claim]:
    """Tell that the framework which is imported is not the one that pip or conda lists."""
    for item in FRAMEWORKS:
        listed = {
            parse_number(public_version(event.values["version"])): event
            for event in log.select(f"pip-list-{item.name}")
            if event.values["package"] in item.logs.packages
        }
        for event, imported in log.find_captures(item.name):
            is_answer = event.signature.startswith("answered-")
            if listed and is_answer and parse_number(public_version(imported)) not in listed:
                events = (event, *listed.values())
                version = events[1].values["version"]
                shown = {"framework": item.name, "version": version, "imported": imported}
                yield conclude("other-copy-imported", *events, **shown)


_OWN_FOLDER = r"[/\\](tensorflow|torch|jax|keras|numpy)[/\\]__init__\.py$"


def _judge_shadowing(log: Log) -> Iterator[Claim]:
    frames = log.select("shadowing-traceback")
    files = {
        event.values["module"]: event for event in frames if is_users_file(event.values["path"])
    }
    for event in log.select("import-from-user-file"):
        row = event.values
        if row["file"] == row["module"].split(".")[0] and is_users_file(row["path"]):
            yield conclude("users-file-imported", event)
        elif find_group(_OWN_FOLDER, row["path"]) == row["module"] and is_users_file(row["path"]):
            yield conclude("users-folder-imported", event)
    for event in log.select(*_ATTRIBUTES):
        file = files.get(event.values.get("module", ""))
        if file:
            yield conclude("users-file-named-so", event, file)


def _judge_builds(log: Log) -> Iterator[Claim]:
    for event in log.select(
        "tf-not-built-with-cuda", "tf-is-built-with-cuda", "tf-build-info-no-cuda"
    ):
        framework = find_framework_of_message(event.signature)
        if framework is None or log.os != "windows":
            continue
        last = find_last_gpu_release(log.matrix, framework.name, "win_amd64")
        release = parse_number(log.release_of(framework))[:2]
        if last and not (release and release <= parse_number(last)[:2]):
            last = major_minor(last)
            yield conclude("no-cuda-on-windows", event, framework=framework.title, last=last)
    for event in log.select("module-missing-other", "build-helpers"):
        built = _find_isolated_build(log, event)
        if event.signature == "build-helpers":
            if built and "cython" in event.text:
                yield conclude("cython-of-isolated-build", event, built=built)
        elif not is_framework_module(event.values["missing_module"].split(".")[0]):
            name = "module-missing-in-build" if built else "other-module-missing"
            yield conclude(name, event, built=built)


def _find_isolated_build(log: Log, event: Event) -> str:
    """Name what is built, in an environment of its own, where a message stands; "" for none."""
    begun = [item for item in log.select("build-environment") if item.line < event.line]
    if not (begun and log.has("ninja-failed")):
        return ""
    failed = [item.values.get("package", "") for item in log.select("ninja-failed")]
    taken = [item for item in log.select("pip-collecting") if item.line < event.line]
    collected = [item.values["collected"] for item in taken[-1:]]
    return next(filter(None, (*failed, *collected)), "The package")
