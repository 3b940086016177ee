"""Conclude from messages of pip and Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.explain.log import (
    FRAMEWORKS,
    Claim,
    Log,
    Strength,
    find_framework_of_message,
    is_framework_module,
    parse_number,
)
from envcheck.explain.signatures import Event
from envcheck.model import FrameworkRelease, major_minor, numbers
from envcheck.model.requirements import find_requirement
from envcheck.model.specifiers import within
from envcheck.remedies.situation import find_last_gpu_release
from envcheck.remedies.system import system_packages
from envcheck.rules.requirements import easiest_for_pip, lowest_glibc

PYTHON, BITS, PIP, PLATFORM, REMOVED, GLIBC = (
    "python-unsupported", "python-32bit", "pip-too-old", "platform-no-gpu-wheel",
    "framework-package-removed", "glibc-too-old",
)  # fmt: skip
REFUSALS = (PYTHON, BITS, PIP, PLATFORM, REMOVED, GLIBC)  # what lets pip find nothing to install
_RIVALS = (BITS, PIP, PLATFORM, GLIBC)


def pip_claims(log: Log) -> Iterator[Claim]:
    """Say why pip refuses a requirement, a wheel or an extra."""
    by_requirement: dict[str, list[Event]] = {}
    for event in log.select("pip-from-versions", "pip-no-distribution"):
        by_requirement.setdefault(event.values["requirement"].rstrip(".,:;"), []).append(event)
    for requirement, events in by_requirement.items():
        claim = _judge_requirement(log, requirement, tuple(events))
        if claim:
            yield claim
    for event in log.select("wrong-wheel-tag"):
        yield _judge_wheel(log, event)
    for event in log.select("pip-extra-missing"):
        yield _judge_extra(log, event)


def _judge_requirement(log: Log, text: str, events: tuple[Event, ...]) -> Claim | None:
    asked = find_requirement(text)
    if asked is None:
        return None
    name, specifier = asked.name, asked.specifier
    removed = log.matrix.removed_distribution(name)
    framework = log.matrix.framework_of(name) or (removed.framework if removed else None)
    if framework is None:
        return _judge_other_package(name, text, events)
    if "+" in specifier and any(item.plugins and item.owns(name) for item in FRAMEWORKS):
        return _judge_linked_wheel(log, text, events)
    rows = list_matching_releases(log, framework, name, specifier)
    if removed and (not rows or _is_after_last(specifier, removed.last_versions.values())):
        if specifier or _parse_listed_releases(events) or not _is_never_built(log):
            return None  # the rules say that it was withdrawn
        message = f"{text} never had a wheel for this platform."
        return Claim(PLATFORM, Strength.NAMED_PART, message, events, rivals=(REMOVED, PYTHON))
    return _judge_obstacle(log, text, rows, events)


def _judge_linked_wheel(log: Log, text: str, events: tuple[Event, ...]) -> Claim:
    """Judge a wheel with a label, of a page that a framework once linked to.

    For Linux alone, and gone.
    """
    if log.os in ("windows", "darwin"):
        return Claim(
            PLATFORM,
            Strength.DERIVED,
            f"{text} was built for Linux only.",
            events,
            rivals=(REMOVED,),
        )
    return Claim(
        REMOVED,
        Strength.NOT_FOUND,
        f"Wheels such as {text} are no longer offered under that name.",
        events,
    )


def _judge_other_package(name: str, text: str, events: tuple[Event, ...]) -> Claim:
    if re.match(r"nvidia-[\w-]+-cu\d+$|triton$", name):
        message = f"{name} has no file for this platform: the CUDA wheels are for Linux only."
        return Claim(
            PLATFORM, Strength.USUAL, message, events, rivals=("framework-cuda-extra-missing",)
        )
    return Claim(
        "dependency-conflict",
        Strength.SIDE_EFFECT,
        f"pip finds no compatible file of {text}.",
        events,
        rivals=(PYTHON,),
    )


def _is_never_built(log: Log) -> bool:
    """Return whether this is a platform for which no withdrawn distribution had a wheel."""
    return log.os == "darwin" or log.architecture in ("aarch64", "arm64")


def _judge_obstacle(
    log: Log, text: str, rows: list[FrameworkRelease], events: tuple[Event, ...]
) -> Claim:
    """Judge by the Python that the log names, else by what pip listed.

    The rest the rules say of the machine.
    """
    if log.python and rows and not any(log.python in row.pythons for row in rows):
        return Claim(
            PYTHON, Strength.NAMED_PART, f"{text} has no wheel for Python {log.python}.", events
        )
    listed, required_pip = _parse_listed_releases(events), _find_required_pip(rows)
    pip = log.facts.python.pip_version.value or log.first_value("pip")
    # of a known one the rules judge
    glibc = log.facts.host.libc_version.value or log.first_value("glibc")
    is_left = log.python and pip and not glibc and log.os == "linux"
    if is_left and required_pip and not _is_older(pip, required_pip):
        message = (
            f"Python {log.python} and pip {pip} accept the wheels of {text}, so the system is too"
            " old for them."
        )
        return Claim(GLIBC, Strength.NOT_FOUND, message, events, rivals=(PLATFORM, PYTHON))
    if listed:
        return _judge_pip_listing(text, rows, listed, events)
    return _judge_pip_message(log, text, required_pip, events)


def _judge_pip_message(log: Log, text: str, required_pip: str, events: tuple[Event, ...]) -> Claim:
    """Judge where pip lists nothing.

    pip 19.1 and newer write ERROR first; without that, this pip may be too old.
    """
    is_old_format = (
        required_pip
        and log.os != "windows"
        and not any("prefix" in event.values for event in events)
    )
    if (
        is_old_format
        and names_release(text)
        and not _is_older(required_pip, system_packages().pip.oldest_in_use)
    ):
        message = f"This pip is old; the wheels of {text} need pip {required_pip}."
        return Claim(PIP, Strength.USUAL, message, events, rivals=(PYTHON,))
    message = f"No wheel of {text} fits this Python, this system and this pip."
    return Claim(PYTHON, Strength.USUAL, message, events, rivals=_RIVALS)


_MACHINES = ("x86_64", "aarch64", "arm64")


def names_release(text: str) -> bool:
    """Return whether a requirement names a release."""
    return any(sign in text for sign in "=<>~")


def _parse_listed_releases(events: Iterable[Event]) -> list[str]:
    versions = next(
        (event.values["versions"] for event in events if event.values.get("versions")), ""
    )
    return [item.strip() for item in versions.split(",") if re.match(r"\s*\d", item)]


def _judge_pip_listing(
    text: str, rows: list[FrameworkRelease], listed: list[str], events: tuple[Event, ...]
) -> Claim:
    """Judge by the releases pip did list.

    None as new as the one asked means an older pip or a newer Python.
    """
    from packaging.version import InvalidVersion, Version

    def version(item: str) -> Version:
        try:
            return Version(item)
        except InvalidVersion:
            return Version("0")

    newest = max(map(version, listed))
    required = max((version(row.version) for row in rows), default=None)
    summary = f"pip lists {listed[-1]} as the newest release it can use"
    if (
        required is not None
        and newest < required
        and required.major == newest.major
        and _find_required_pip(rows)
    ):
        message = f"{summary}; {text} exists for newer Pythons, or for a newer pip."
        return Claim(PYTHON, Strength.LIKELY, message, events, rivals=(PIP, GLIBC))
    return Claim(
        PYTHON,
        Strength.LIKELY,
        f"{summary}: {text} was not built for this Python.",
        events,
        rivals=(BITS, PIP),
    )


def list_matching_releases(
    log: Log, framework: str, name: str, specifier: str
) -> list[FrameworkRelease]:
    """List the releases that a specifier admits on every platform; without one the newest."""
    rows = [row for row in log.matrix.releases(framework) if row.distribution == name]
    try:
        matching = [row for row in rows if within(row.version, specifier.replace("===", "=="))]
    except ValueError:  # a log may hold anything
        return []
    if specifier or not matching:
        return matching
    newest = matching[0].version  # without a specifier pip wants the newest
    return [row for row in matching if row.version == newest]


def _is_after_last(specifier: str, last_versions: Iterable[str]) -> bool:
    from packaging.version import InvalidVersion, Version

    match = re.fullmatch(r"={2,3}([\w.+!]+?)(?:\.\*)?", specifier)
    if match is None:
        return not specifier
    try:
        return all(Version(match.group(1)) > Version(item) for item in last_versions)
    except InvalidVersion:
        return False


def _find_required_pip(rows: Iterable[FrameworkRelease]) -> str:
    versions = [
        requirement.pip for requirement in map(easiest_for_pip, rows) if requirement is not None
    ]
    return min(versions, key=numbers) if versions else ""


def _is_older(version: str, other: str) -> bool:
    return numbers(version)[:3] < numbers(other)[:3]


def _judge_wheel(log: Log, event: Event) -> Claim:
    wheel = event.values["wheel"]
    match = re.search(r"-(cp(\d)(\d+)\w*)-\w+-([\w.]+)\.whl$", wheel)
    if match is None:
        return Claim(
            PYTHON,
            Strength.DECIDED,
            f"The tags of {wheel} do not fit this Python or platform.",
            (event,),
        )
    python = f"{match.group(2)}.{match.group(3)}"
    machine = log.architecture
    other_machines = [
        name
        for name in _MACHINES
        if match.group(4).endswith(name) and machine in _MACHINES and machine != name
    ]
    if other_machines:
        message = f"{wheel} is for {other_machines[0]}, this machine is {machine}."
        return Claim("python-wrong-arch", Strength.NAMED_PART, message, (event,))
    glibc = log.facts.host.libc_version.value or log.first_value("glibc")
    floor = lowest_glibc(match.group(4).split("."))
    if glibc and floor and _is_older(glibc, floor):
        message = f"{wheel} is for glibc {floor} or newer; this system has {glibc}."
        return Claim(GLIBC, Strength.NAMED_PART, message, (event,), rivals=(PIP,))
    if log.python == python and "manylinux" in match.group(4):
        return Claim(
            PIP,
            Strength.NAMED_PLACE,
            f"The Python fits {wheel}, but this pip does not know its platform tag.",
            (event,),
        )
    message = f"{wheel} is for Python {python}" + (
        f", this is {log.python}." if log.python else ", not for this one."
    )
    return Claim(
        PYTHON, Strength.MISSING_HERE, message, (event,), rivals=(PIP, "python-wrong-arch")
    )


def _judge_extra(log: Log, event: Event) -> Claim:
    name, version, extra = (event.values[key] for key in ("package", "version", "extra"))
    message = f"{name} {version} has no extra named {extra}, so pip installed no CUDA libraries."
    if log.os in ("windows", "darwin") and "cu" in extra:
        return Claim(
            PLATFORM,
            Strength.MISSING_HERE,
            message,
            (event,),
            rivals=("framework-cuda-extra-missing",),
        )
    return Claim(
        "framework-cuda-extra-missing", Strength.LIKELY, message, (event,), rivals=(PLATFORM,)
    )


SHADOW = "local-module-shadowing"
_INSTALLED = (
    "site-packages",
    "dist-packages",
    "/lib/python",
    "\\Lib\\",
    "\\lib\\",
    "<frozen",
    "/work/",
)
_ATTRIBUTES = (
    "tf1-code-on-tf2",
    "torch-attribute",
    "jax-attribute",
    "partially-initialized",
    "unknown-location",
)
_DEPENDENCIES = (
    "numpy2-compiled", "numpy-dtype-size", "numpy-abi-version", "numpy-multiarray",
    "protobuf-descriptors", "protobuf-other", "h5py-decode", "import-name-missing",
    "glibcxx-not-found", "version-conflict", "keras-attribute", "torchvision-cuda-different",
)  # fmt: skip


def python_claims(log: Log) -> Iterator[Claim]:
    """Say what imports and attributes that fail mean."""
    yield from _judge_shadowing(log)
    yield from _judge_mixed_environment(log)
    yield from _judge_windows(log)
    yield from _judge_builds(log)
    yield from _judge_emulation(log)
    yield from _judge_bitsandbytes(log)


def is_users_file(path: str) -> bool:
    """Return whether a path lies outside the folders where packages are installed."""
    return not any(part in path for part in _INSTALLED)


def _judge_two_releases(log: Log) -> Iterator[Claim]:
    """Tell that the framework which is imported is not the one that pip or conda lists."""
    for item in FRAMEWORKS:
        list_events = [
            event
            for event in log.select(f"pip-list-{item.name}")
            if event.values["package"] in item.logs.packages
        ]
        imports = [
            pair
            for pair in log.find_captures(item.name)
            if pair[0].signature.startswith("answered-")
        ]
        releases = {_parse_public_version(event.values["version"]) for event in list_events}
        for event, version_imported in imports if list_events else ():
            if _parse_public_version(version_imported) in releases:
                continue
            version = list_events[0].values["version"]
            message = (
                f"{item.name} {version} is listed, and {item.name} {version_imported} is imported,"
                " another copy."
            )
            yield Claim(
                "env-mixed",
                Strength.DERIVED,
                message,
                (event, *list_events),
                rivals=("framework-duplicate-dists",),
            )


def _parse_public_version(version: str) -> tuple[int, ...]:
    return parse_number(version.partition("+")[0])


def _judge_shadowing(log: Log) -> Iterator[Claim]:
    files = {
        row["module"]: event
        for event in log.select("shadowing-traceback")
        for row in (event.values,)
        if is_users_file(row["path"])
    }
    for event in log.select("import-from-user-file"):
        row = event.values
        if row["file"] == row["module"].split(".")[0] and is_users_file(row["path"]):
            message = f"The user's file {row['path']} is imported instead of {row['module']}."
            yield Claim(SHADOW, Strength.LIMIT_AND_VALUE, message, (event,))
        elif _is_users_folder(row["module"], row["path"]):
            message = f"The user's folder {row['path']} has the name of the module {row['module']}."
            yield Claim(
                SHADOW, Strength.MISSING_HERE, message, (event,), rivals=("dependency-conflict",)
            )
    for event in log.select(*_ATTRIBUTES):
        module = _find_module(event)
        if module in files:
            message = (
                f"The user's file {files[module].values['path']} has the name of the module"
                f" {module}."
            )
            yield Claim(SHADOW, Strength.REFUSED_PART, message, (event, files[module]))
        elif event.signature in ("partially-initialized", "unknown-location"):
            yield from _judge_partial_module(event, module)
        else:
            message = f"The code and the installed {module} are of different releases."
            yield Claim(
                "dependency-conflict",
                Strength.FAILED_PART,
                message,
                (event,),
                rivals=(SHADOW, "program-error"),
            )


def _is_users_folder(module: str, path: str) -> bool:
    match = re.search(r"[/\\](tensorflow|torch|jax|keras|numpy)[/\\]__init__\.py$", path)
    return match is not None and match.group(1) == module and is_users_file(path)


def _find_module(event: Event) -> str:
    module = event.values.get("module2") or event.values.get("module") or ""
    if event.signature in ("partially-initialized", "unknown-location") and module:
        return module
    match = re.search(r"[Nn]o module named '?(\w+)|module '(\w+)", event.text)
    return (match.group(1) or match.group(2)) if match else ""


def _judge_partial_module(event: Event, module: str) -> Iterator[Claim]:
    if event.signature == "unknown-location":
        message = (
            f"The folder of {module} exists without its package: the installation is broken or"
            " mixed."
        )
        yield Claim("env-mixed", Strength.DECIDED, message, (event,), rivals=(SHADOW,))
    elif is_framework_module(module) or module in ("keras", "numpy"):
        message = (
            f"The module {module} imports itself, which happens when a user's file has its name."
        )
        yield Claim(SHADOW, Strength.USUAL, message, (event,), rivals=("env-mixed",))
    elif module in ("torchvision", "torchaudio"):
        message = (
            f"{module} cannot load its own compiled part: it was built for another release of"
            " torch."
        )
        yield Claim("extension-build-mismatch", Strength.USUAL, message, (event,), rivals=(SHADOW,))
    else:
        yield Claim(
            "dependency-conflict",
            Strength.FAILED_CALL,
            f"{module} does not fit the other packages.",
            (event,),
        )


def _judge_mixed_environment(log: Log) -> Iterator[Claim]:
    for event in log.select("module-missing"):
        pip_events = log.select("pip-satisfied")
        if pip_events:
            message = (
                "pip installed the package, but this Python does not find it: pip belongs to"
                " another Python."
            )
            yield Claim("env-mixed", Strength.MISSING_HERE, message, (event, *pip_events))
    yield from _judge_two_releases(log)
    user_site = log.select("user-site-path")
    if user_site and log.select("conda-path"):
        for event in log.select(*_DEPENDENCIES):
            message = "Packages of the user site (~/.local) are imported into a conda environment."
            yield Claim("env-mixed", Strength.BOTH_VALUES, message, (event, user_site[0]))
    yield from _judge_cuda_wheels(log)


def _judge_cuda_wheels(log: Log) -> Iterator[Claim]:
    """Say which nvidia-* wheels cannot both be right."""
    for event in log.select("pip-resolver-conflict"):
        if re.match(r"nvidia-[a-z-]+-cu\d+$", event.values.get("package", "")):
            message = f"Two packages ask for different releases of {event.values['package']}."
            yield Claim(
                "cuda-wheel-conflict",
                Strength.LIKELY,
                message,
                (event,),
                rivals=("dependency-conflict",),
            )
    majors: dict[str, set[str]] = {}
    for name in log.packages:
        match = re.match(r"(nvidia-[a-z-]+)-cu(\d+)$", name)
        if match:
            majors.setdefault(match.group(1), set()).add(match.group(2))
    duplicates = [name for name, numbers in majors.items() if len(numbers) > 1]
    if duplicates:
        message = f"{duplicates[0]} is installed for two CUDA majors; both write into one folder."
        events = log.select("nccl-symbol", "cudnn-symbol", "nvjitlink-symbol", "pip-list-nvidia")
        yield Claim(
            "cuda-wheel-conflict",
            (
                Strength.LIMIT_AND_VALUE
                if len(events) > 2 or log.has("nccl-symbol")
                else Strength.OPEN
            ),
            message,
            events,
        )


def _judge_windows(log: Log) -> Iterator[Claim]:
    for event in log.select("win-dll-load-failed", "win-dll-load-failed-bare", "win-pywrap"):
        reason = event.values.get("reason", "") + event.values.get("code", "")
        if "-1073741795" in reason or "3221225501" in reason:
            yield Claim(
                "cpu-missing-avx",
                Strength.NAMED_PART,
                "The processor lacks an instruction of the DLL.",
                (event,),
            )
        elif "initialization routine failed" in reason and "module" not in event.values:
            message = "The DLL could not start, which happens on a processor without AVX."
            yield Claim(
                "cpu-missing-avx",
                Strength.PROBABLE,
                message,
                (event,),
                rivals=("msvc-runtime-missing",),
            )
        elif _is_framework_dll(event):
            message = (
                "A DLL that the framework needs is missing: the Visual C++ runtime, or a CUDA"
                " library."
            )
            yield Claim(
                "msvc-runtime-missing",
                Strength.PROBABLE,
                message,
                (event,),
                rivals=("toolkit-missing", "cpu-missing-avx"),
            )
    for event in log.select("win-error-loading"):
        library = event.values["library"]
        if event.values["code"] == "127" and re.search(
            r"torch(?:audio|vision|text)", event.values["path"]
        ):
            message = f"{library} was built for another release of torch than is installed."
            yield Claim(
                "extension-build-mismatch",
                Strength.DERIVED,
                message,
                (event,),
                rivals=("dependency-conflict",),
            )
            continue
        finding = "msvc-runtime-missing"
        if re.match(r"cu|nv", library) and "nvrtc" not in library:
            finding = "toolkit-missing"
        message = (
            f"Windows cannot load {library} or a DLL that it needs, such as the Visual C++ or"
            " OpenMP runtime."
        )
        yield Claim(finding, Strength.NOT_FOUND, message, (event,), rivals=("dependency-conflict",))


def _is_framework_dll(event: Event) -> bool:
    module = event.values.get("module", "")
    if event.signature != "win-dll-load-failed" or not module:
        return True
    return "pywrap" in module or module == "_C" or is_framework_module(module)


def _judge_builds(log: Log) -> Iterator[Claim]:
    cpu_builds = log.select(
        "tf-not-built-with-cuda", "tf-is-built-with-cuda", "tf-build-info-no-cuda"
    )
    for event in cpu_builds if log.os == "windows" else ():
        framework = find_framework_of_message(event.signature)
        last_release = ""
        if framework:
            last_release = find_last_gpu_release(log.matrix, framework.name, "win_amd64")
        release = log.release_of(framework) if framework else ""
        if (
            not framework
            or not last_release
            or (release and parse_number(release)[:2] <= parse_number(last_release)[:2])
        ):
            continue
        message = (
            f"{framework.title}'s builds for Windows have no CUDA after"
            f" {major_minor(last_release)}."
        )
        yield Claim(
            "platform-no-gpu-wheel",
            Strength.LIMIT_AND_VALUE,
            message,
            (event,),
            rivals=("framework-cpu-build",),
        )
    if log.has("tf-built-with-cuda-asked") and log.os != "linux" and not log.is_healthy:
        events = log.select("tf-built-with-cuda-asked")
        message = "The log queries whether TensorFlow has CUDA, and no GPU is used."
        yield Claim(
            "platform-no-gpu-wheel" if log.os == "windows" else "framework-cpu-build",
            Strength.SIDE_EFFECT,
            message,
            events,
        )
    for event in log.select("module-missing-other"):
        if is_framework_module(event.values["missing_module"].split(".")[0]):
            continue
        yield Claim(
            "dependency-conflict",
            Strength.AFTERMATH,
            f"{event.values['missing_module']} is not installed.",
            (event,),
        )


_CRASHES = ("illegal-instruction", "cpu-feature-required", "jax-cpu-feature", "segfault", "aborted")


def _judge_emulation(log: Log) -> Iterator[Claim]:
    """Tell an emulated program from a processor that lacks an instruction."""
    emulation_events = log.select("qemu-signal", "docker-platform-mismatch", "rosetta-jaxlib")
    crashes = log.select(*_CRASHES)
    if emulation_events and crashes:
        message = (
            "The program is for another architecture than the machine, and the emulation lacks"
            " instructions."
        )
        yield Claim(
            "python-wrong-arch",
            Strength.EMULATED,
            message,
            (*emulation_events, *crashes),
            rivals=("cpu-missing-avx",),
        )


def _judge_bitsandbytes(log: Log) -> Iterator[Claim]:
    for event in log.select("bnb-setup-failed"):
        message = "bitsandbytes has no library for the CUDA that it found."
        yield Claim(
            "extension-build-mismatch",
            Strength.PROBABLE,
            message,
            (event,),
            rivals=("toolkit-path-conflict",),
        )
