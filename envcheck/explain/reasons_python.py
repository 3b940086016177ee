"""Conclude from messages of pip and Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.explain.log import FRAMEWORKS, Claim, Log, Strength, framework_of_message, is_framework_module, number
from envcheck.explain.signatures import Event
from envcheck.model import FrameworkRelease, get_value, major_minor, numbers
from envcheck.remedies.situation import last_gpu_release
from envcheck.remedies.system import system_packages
from envcheck.rules.requirements import easiest_for_pip, lowest_glibc, wheel_glibc

PYTHON, BITS, PIP, PLATFORM, REMOVED, GLIBC = (
    "python-unsupported", "python-32bit", "pip-too-old", "platform-no-gpu-wheel", "framework-package-removed",
    "glibc-too-old",
)  # fmt: skip
_RIVALS = (BITS, PIP, PLATFORM, GLIBC)


def pip_claims(log: Log) -> Iterator[Claim]:
    """Say why pip refuses a requirement, a wheel or an extra."""
    asked: dict[str, list[Event]] = {}
    for event in log.of("pip-from-versions", "pip-no-distribution"):
        asked.setdefault(event.captured["requirement"].rstrip(".,:;"), []).append(event)
    for requirement, events in asked.items():
        claim = _requirement(log, requirement, tuple(events))
        if claim:
            yield claim
    for event in log.of("wrong-wheel-tag"):
        yield _wheel(log, event)
    for event in log.of("pip-extra-missing"):
        yield _extra(log, event)


def _requirement(log: Log, text: str, events: tuple[Event, ...]) -> Claim | None:
    parts = requirement_parts(text)
    if parts is None:
        return None
    name, specifier = parts
    removed = log.matrix.removed_distribution(name)
    framework = log.matrix.framework_of(name) or (removed.framework if removed else None)
    if framework is None:
        return _of_no_framework(name, text, events)
    if "+" in specifier and any(item.plugins and item.owns(name) for item in FRAMEWORKS):
        return _of_linked_page(log, text, events)
    rows = admitted_rows(log, framework, name, specifier)
    if removed and (not rows or _is_past(specifier, removed.last_versions.values())):
        none_listed = not specifier and any(event.signature == "pip-from-versions" for event in events)
        if none_listed and not _listed(events):  # the empty last release is listed for every Python since it is there
            return _nothing_for(log, text, events)
        return Claim(REMOVED, Strength.NAMED_PART, f"{name} was withdrawn: {removed.reason}", events)
    return _obstacle(log, text, rows, events)


def _of_linked_page(log: Log, text: str, events: tuple[Event, ...]) -> Claim:
    """Judge a wheel with a label, of a page that a framework once linked to: for Linux alone, and gone."""
    if log.os in ("windows", "darwin"):
        return Claim(PLATFORM, Strength.DERIVED, f"{text} was built for Linux alone.", events, rivals=(REMOVED,))
    return Claim(REMOVED, Strength.NOT_FOUND, f"Wheels such as {text} are no longer offered under that name.", events)


def requirement_parts(text: str) -> tuple[str, str] | None:
    """Part what pip was asked for into the normalised name and the specifier; None for what is no requirement."""
    match = re.match(r"([A-Za-z0-9][\w.-]*?)(?:\[[\w,-]*\])?((?:[=<>!~]=?=?)[\w.+*!,<>=~-]+)?$", text)
    return (match.group(1).lower().replace("_", "-"), match.group(2) or "") if match else None


def _of_no_framework(name: str, text: str, events: tuple[Event, ...]) -> Claim:
    if re.match(r"nvidia-[\w-]+-cu\d+$|triton$", name):
        means = f"{name} has no file for this platform: the CUDA wheels are for Linux, so there is no GPU build here."
        return Claim(PLATFORM, Strength.USUAL, means, events, rivals=("framework-cuda-extra-missing",))
    return Claim(
        "dependency-conflict", Strength.SIDE_EFFECT, f"pip finds no file of {text} that fits.", events, rivals=(PYTHON,)
    )


def _nothing_for(log: Log, text: str, events: tuple[Event, ...]) -> Claim:
    """Judge a withdrawn name of which pip saw no release at all: it was asked for before it was withdrawn."""
    if log.os == "darwin" or log.architecture in ("aarch64", "arm64"):
        return Claim(
            PLATFORM,
            Strength.NAMED_PART,
            f"{text} never had a wheel for this platform.",
            events,
            rivals=(REMOVED, PYTHON),
        )
    if get_value(log.facts.python.bits) == 32 or log.has("python-32bit", "pip-debug-win32"):
        return Claim(BITS, Strength.REFUSED_PART, f"{text} has no wheel for a 32-bit Python.", events)
    means = f"pip sees no release of {text} for this Python, its bits and this system; the name was withdrawn as well."
    return Claim(PYTHON, Strength.LIKELY, means, events, rivals=(REMOVED, BITS, PLATFORM))


def _obstacle(log: Log, text: str, rows: list[FrameworkRelease], events: tuple[Event, ...]) -> Claim:
    """Look for what keeps every row from fitting: bits, Python, platform, pip; then judge by what pip listed."""
    if get_value(log.facts.python.bits) == 32 or log.has("python-32bit", "pip-debug-win32"):
        return Claim(BITS, Strength.REFUSED_PART, f"{text} has no wheel for a 32-bit Python.", events)
    if log.python and rows and not any(log.python in row.pythons for row in rows):
        return Claim(PYTHON, Strength.NAMED_PART, f"{text} has no wheel for Python {log.python}.", events)
    family = {"windows": "win", "darwin": "macosx", "linux": "linux"}.get(log.os, "")
    machine = log.architecture
    here = [row for row in rows if family in row.platform and (machine in row.platform or machine in _USUAL)]
    if rows and not here:
        return Claim(
            PLATFORM, Strength.DERIVED, f"{text} has no wheel for this platform.", events, rivals=("python-wrong-arch",)
        )
    needed = _pip_needed(here or rows)
    pip = get_value(log.facts.python.pip_version) or log.first("pip")
    listed = _listed(events)
    if needed and pip and _older(pip, needed):
        return Claim(
            PIP,
            Strength.NAMED_CAUSE,
            f"The wheels of {text} are seen by pip {needed} and newer; this is pip {pip}.",
            events,
        )
    if log.python and pip and needed and log.os == "linux" and not _has_glibc(log, here or rows):
        means = (
            f"Python {log.python} and pip {pip} take the wheels of {text}: what is left is a system too old for them."
        )
        return Claim(GLIBC, Strength.NOT_FOUND, means, events, rivals=(PLATFORM, PYTHON))
    return _by_listing(text, rows, listed, events) if listed else _by_pips_words(log, text, needed, events)


def _by_pips_words(log: Log, text: str, needed: str, events: tuple[Event, ...]) -> Claim:
    """Judge where pip lists nothing: pip 19.1 and newer write ERROR first; without that, this pip may be too old."""
    plain = needed and log.os != "windows" and not any("prefix" in event.captured for event in events)
    if plain and names_release(text) and not _older(needed, system_packages().pip.oldest_in_use):
        means = f"This pip is an old one; the wheels of {text} need pip {needed}."
        return Claim(PIP, Strength.USUAL, means, events, rivals=(PYTHON,))
    means = f"No wheel of {text} fits this Python, its bits, this system, or what this pip accepts."
    return Claim(PYTHON, Strength.USUAL, means, events, rivals=_RIVALS)


_USUAL = ("", "x86_64", "AMD64", "amd64")  # what a platform names in several ways
_MACHINES = ("x86_64", "aarch64", "arm64")


def names_release(text: str) -> bool:
    """Tell whether a requirement names a release."""
    return any(sign in text for sign in "=<>~")


def _listed(events: Iterable[Event]) -> list[str]:
    shown = next((event.captured["versions"] for event in events if event.captured.get("versions")), "")
    return [item.strip() for item in shown.split(",") if re.match(r"\s*\d", item)]


def _by_listing(text: str, rows: list[FrameworkRelease], listed: list[str], events: tuple[Event, ...]) -> Claim:
    """Judge by the releases pip did list: none as new as the one asked means an older pip or a newer Python."""
    from packaging.version import InvalidVersion, Version

    def version(item: str) -> Version:
        try:
            return Version(item)
        except InvalidVersion:
            return Version("0")

    newest = max(map(version, listed))
    wanted = max((version(row.version) for row in rows), default=None)
    shown = f"pip lists {listed[-1]} as the newest release it can use"
    if wanted is not None and newest < wanted and wanted.major == newest.major and _pip_needed(rows):
        means = f"{shown}; {text} exists for newer Pythons, or for a newer pip."
        return Claim(PYTHON, Strength.LIKELY, means, events, rivals=(PIP, GLIBC))
    return Claim(
        PYTHON, Strength.LIKELY, f"{shown}: this Python is none that {text} was built for.", events, rivals=(BITS, PIP)
    )


def admitted_rows(log: Log, framework: str, name: str, specifier: str) -> list[FrameworkRelease]:
    """List the releases of a distribution that a specifier admits, on every platform; without one the newest."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        admitted = SpecifierSet(specifier.replace("===", "=="))
    except InvalidSpecifier:
        return []
    rows = [row for row in log.matrix.releases(framework) if row.distribution == name]
    found = [row for row in rows if admitted.contains(row.version, prereleases=True)]
    if specifier or not found:
        return found
    newest = found[0].version  # without a specifier pip wants the newest
    return [row for row in found if row.version == newest]


def _is_past(specifier: str, last: Iterable[str]) -> bool:
    from packaging.version import InvalidVersion, Version

    pinned = re.fullmatch(r"={2,3}([\w.+!]+?)(?:\.\*)?", specifier)
    if pinned is None:
        return not specifier
    try:
        return all(Version(pinned.group(1)) > Version(item) for item in last)
    except InvalidVersion:
        return False


def _pip_needed(rows: Iterable[FrameworkRelease]) -> str:
    needs = [need.pip for need in map(easiest_for_pip, rows) if need is not None]
    return min(needs, key=numbers) if needs else ""


def _has_glibc(log: Log, rows: Iterable[FrameworkRelease]) -> bool:
    """Tell whether the C library is known and new enough for one of the rows."""
    told = get_value(log.facts.host.libc_version) or log.first("glibc")
    return bool(told) and any(not _older(told, wheel_glibc(row)) for row in rows)


def _older(one: str, other: str) -> bool:
    return numbers(one)[:3] < numbers(other)[:3]


def _wheel(log: Log, event: Event) -> Claim:
    wheel = event.captured["wheel"]
    tag = re.search(r"-(cp(\d)(\d+)\w*)-\w+-([\w.]+)\.whl$", wheel)
    if tag is None:
        return Claim(PYTHON, Strength.DECIDED, f"The tags of {wheel} do not fit this Python or platform.", (event,))
    python = f"{tag.group(2)}.{tag.group(3)}"
    machine = log.architecture
    other = [name for name in _MACHINES if tag.group(4).endswith(name) and machine in _MACHINES and machine != name]
    if other:
        means = f"{wheel} is for {other[0]}, this machine is {machine}."
        return Claim("python-wrong-arch", Strength.NAMED_PART, means, (event,))
    glibc = get_value(log.facts.host.libc_version) or log.first("glibc")
    floor = lowest_glibc(tag.group(4).split("."))
    if glibc and floor and _older(glibc, floor):
        means = f"{wheel} is for glibc {floor} or newer; this system has {glibc}."
        return Claim(GLIBC, Strength.NAMED_PART, means, (event,), rivals=(PIP,))
    if log.python == python and "manylinux" in tag.group(4):
        return Claim(
            PIP, Strength.NAMED_PLACE, f"The Python fits {wheel}; this pip does not know its platform tag.", (event,)
        )
    means = f"{wheel} is for Python {python}" + (f", this is {log.python}." if log.python else ", not for this one.")
    return Claim(PYTHON, Strength.MISSING_HERE, means, (event,), rivals=(PIP, "python-wrong-arch"))


def _extra(log: Log, event: Event) -> Claim:
    name, version, extra = (event.captured[key] for key in ("package", "version", "extra"))
    framework = log.matrix.framework_of(name.lower())
    rows = [row for row in log.matrix.releases(framework or "") if row.version == version and row.distribution == name]
    means = f"{name} {version} has no extra named {extra}, so pip installed no CUDA libraries."
    if log.os in ("windows", "darwin") and "cu" in extra:
        return Claim(PLATFORM, Strength.MISSING_HERE, means, (event,), rivals=("framework-cuda-extra-missing",))
    if "cu" not in extra:
        return Claim(
            "dependency-conflict",
            Strength.SIDE_EFFECT,
            f"{name} {version} has no extra named {extra}.",
            (event,),
            "warning",
        )
    with_extra = any(extra in row.extras for row in rows)
    finding = PLATFORM if with_extra else "framework-cuda-extra-missing"
    return Claim(finding, Strength.LIKELY, means, (event,), rivals=(PLATFORM,))


SHADOW = "local-module-shadowing"
_INSTALLED = ("site-packages", "dist-packages", "/lib/python", "\\Lib\\", "\\lib\\", "<frozen", "/work/")
_ATTRIBUTES = ("tf1-code-on-tf2", "torch-attribute", "jax-attribute", "partially-initialized", "unknown-location")
_DEPENDENCIES = (
    "numpy2-compiled", "numpy-dtype-size", "numpy-abi-version", "numpy-multiarray", "protobuf-descriptors",
    "protobuf-other", "h5py-decode", "import-name-missing", "glibcxx-not-found", "version-conflict", "keras-attribute",
    "torchvision-cuda-different",
)  # fmt: skip


def python_claims(log: Log) -> Iterator[Claim]:
    """Say what imports and attributes that fail mean."""
    yield from _shadowing(log)
    yield from _mixed(log)
    yield from _windows(log)
    yield from _builds(log)
    yield from _foreign_processor(log)
    yield from _bitsandbytes(log)


def is_users_file(path: str) -> bool:
    """Tell whether a path lies outside the folders where packages are installed."""
    return not any(part in path for part in _INSTALLED)


def _two_releases(log: Log) -> Iterator[Claim]:
    """Tell that the framework which is imported is not the one that pip or conda lists."""
    for item in FRAMEWORKS:
        listed = [event for event in log.of(f"pip-list-{item.name}") if event.captured["package"] in item.log_packages]
        answered = [pair for pair in log.capturing(item.name) if pair[0].signature.startswith("answered-")]
        releases = {_public(event.captured["version"]) for event in listed}
        for event, imported in answered if listed else ():
            if _public(imported) in releases:
                continue
            version = listed[0].captured["version"]
            means = f"{item.name} {version} is listed, and {item.name} {imported} is imported, another copy."
            yield Claim("env-mixed", Strength.DERIVED, means, (event, *listed), rivals=("framework-duplicate-dists",))


def _public(version: str) -> tuple[int, ...]:
    return number(version.partition("+")[0])


def _shadowing(log: Log) -> Iterator[Claim]:
    files = {row["module"]: event for event in log.of("shadowing-traceback") for row in (event.captured,)
             if is_users_file(row["path"])}  # fmt: skip
    for event in log.of("import-from-user-file"):
        row = event.captured
        if row["file"] == row["module"].split(".")[0] and is_users_file(row["path"]):
            yield Claim(
                SHADOW,
                Strength.LIMIT_AND_VALUE,
                f"The user's file {row['path']} is imported in place of {row['module']}.",
                (event,),
            )
        elif _is_users_folder(row["module"], row["path"]):
            means = f"The user's folder {row['path']} has the name of the module {row['module']}."
            yield Claim(SHADOW, Strength.MISSING_HERE, means, (event,), rivals=("dependency-conflict",))
    for event in log.of(*_ATTRIBUTES):
        module = _module(event)
        if module in files:
            means = f"The user's file {files[module].captured['path']} has the name of the module {module}."
            yield Claim(SHADOW, Strength.REFUSED_PART, means, (event, files[module]))
        elif event.signature in ("partially-initialized", "unknown-location"):
            yield from _partial(event, module)
        else:
            means = f"The code and the installed {module} are of different releases."
            yield Claim("dependency-conflict", Strength.FAILED_PART, means, (event,), rivals=(SHADOW, "program-error"))


def _is_users_folder(module: str, path: str) -> bool:
    named = re.search(r"[/\\](tensorflow|torch|jax|keras|numpy)[/\\]__init__\.py$", path)
    return named is not None and named.group(1) == module and is_users_file(path)


def _module(event: Event) -> str:
    named = event.captured.get("module2") or event.captured.get("module") or ""
    if event.signature in ("partially-initialized", "unknown-location") and named:
        return named
    found = re.search(r"[Nn]o module named '?(\w+)|module '(\w+)", event.text)
    return (found.group(1) or found.group(2)) if found else ""


def _partial(event: Event, module: str) -> Iterator[Claim]:
    if event.signature == "unknown-location":
        means = f"The folder of {module} is there without its package: the installation is broken or mixed."
        yield Claim("env-mixed", Strength.DECIDED, means, (event,), rivals=(SHADOW,))
    elif is_framework_module(module) or module in ("keras", "numpy"):
        means = f"The module {module} is imported while it imports itself, as where a user's file has its name."
        yield Claim(SHADOW, Strength.USUAL, means, (event,), rivals=("env-mixed",))
    elif module in ("torchvision", "torchaudio"):
        means = f"{module} cannot load its own compiled part: it was built for another release of torch."
        yield Claim("extension-build-mismatch", Strength.USUAL, means, (event,), rivals=(SHADOW,))
    else:
        yield Claim(
            "dependency-conflict", Strength.FAILED_CALL, f"{module} does not fit the packages around it.", (event,)
        )


def _mixed(log: Log) -> Iterator[Claim]:
    for event in log.of("module-missing"):
        satisfied = log.of("pip-satisfied")
        if satisfied:
            means = "pip installed the package, and the Python that runs does not find it: pip belongs to another one."
            yield Claim("env-mixed", Strength.MISSING_HERE, means, (event, *satisfied))
    yield from _two_releases(log)
    user = log.of("user-site-path")
    if user and log.of("conda-path"):
        for event in log.of(*_DEPENDENCIES):
            means = "Packages of the user site (~/.local) are imported into a conda environment."
            yield Claim("env-mixed", Strength.BOTH_VALUES, means, (event, user[0]))
    for event in log.of("h5py-decode"):
        rivals = ("env-mixed",)
        yield Claim("dependency-conflict", Strength.USUAL, "An old Keras meets h5py 3.", (event,), rivals=rivals)
    yield from _wheels(log)


def _wheels(log: Log) -> Iterator[Claim]:
    """Say which nvidia-* wheels cannot both be right."""
    for event in log.of("pip-resolver-conflict"):
        if re.match(r"nvidia-[a-z-]+-cu\d+$", event.captured.get("package", "")):
            means = f"Two packages ask for different releases of {event.captured['package']}."
            yield Claim("cuda-wheel-conflict", Strength.LIKELY, means, (event,), rivals=("dependency-conflict",))
    majors: dict[str, set[str]] = {}
    for name in log.packages:
        found = re.match(r"(nvidia-[a-z-]+)-cu(\d+)$", name)
        if found:
            majors.setdefault(found.group(1), set()).add(found.group(2))
    twice = [name for name, numbers in majors.items() if len(numbers) > 1]
    if twice:
        means = f"{twice[0]} is installed for two CUDA majors; both write into one folder."
        events = log.of("nccl-symbol", "cudnn-symbol", "nvjitlink-symbol", "pip-list-nvidia")
        yield Claim(
            "cuda-wheel-conflict",
            Strength.LIMIT_AND_VALUE if len(events) > 2 or log.has("nccl-symbol") else Strength.OPEN,
            means,
            events,
        )


def _windows(log: Log) -> Iterator[Claim]:
    for event in log.of("win-dll-load-failed", "win-dll-load-failed-bare", "win-pywrap"):
        reason = event.captured.get("reason", "") + event.captured.get("code", "")
        if "-1073741795" in reason or "3221225501" in reason:
            yield Claim(
                "cpu-missing-avx", Strength.NAMED_PART, "The processor lacks an instruction of the DLL.", (event,)
            )
        elif "initialization routine failed" in reason and "module" not in event.captured:
            means = "The DLL could not start, as on a processor without AVX."
            yield Claim("cpu-missing-avx", Strength.PROBABLE, means, (event,), rivals=("msvc-runtime-missing",))
        elif "Win32" in reason:
            yield Claim(
                "python-wrong-arch",
                Strength.DERIVED,
                "The DLL is of another architecture.",
                (event,),
                rivals=("python-32bit",),
            )
        elif _is_frameworks(event):
            means = "A DLL that the framework needs is not there: the Visual C++ runtime, or a library of CUDA."
            yield Claim(
                "msvc-runtime-missing",
                Strength.PROBABLE,
                means,
                (event,),
                rivals=("toolkit-missing", "cpu-missing-avx"),
            )
        else:
            yield Claim(
                "dependency-conflict", Strength.FAILED_PART, "A DLL that a module needs does not fit.", (event,)
            )
    for event in log.of("win-error-loading"):
        library = event.captured["library"]
        if event.captured["code"] == "127" and re.search(r"torch(?:audio|vision|text)", event.captured["path"]):
            means = f"{library} was built for another release of torch than is installed."
            yield Claim("extension-build-mismatch", Strength.DERIVED, means, (event,), rivals=("dependency-conflict",))
            continue
        finding = (
            "toolkit-missing" if re.match(r"cu|nv", library) and "nvrtc" not in library else "msvc-runtime-missing"
        )
        means = f"Windows cannot load {library} or a DLL that it needs, such as the Visual C++ or OpenMP runtime."
        yield Claim(finding, Strength.NOT_FOUND, means, (event,), rivals=("dependency-conflict",))


def _is_frameworks(event: Event) -> bool:
    module = event.captured.get("module", "")
    if event.signature != "win-dll-load-failed" or not module:
        return True
    return "pywrap" in module or module == "_C" or is_framework_module(module)


def _builds(log: Log) -> Iterator[Claim]:
    for event in log.of("torch-cpu-build", "torch-cpu-label", "torch-cuda-none", "tf-not-built-with-cuda"):
        if log.os == "darwin":
            means = "No framework has CUDA builds for macOS."
            yield Claim(
                "platform-no-gpu-wheel", Strength.LIMIT_AND_VALUE, means, (event,), rivals=("framework-cpu-build",)
            )
    without = log.of("tf-not-built-with-cuda", "tf-is-built-with-cuda", "tf-build-info-no-cuda")
    for event in without if log.os == "windows" else ():
        known = framework_of_message(event.signature)
        last = last_gpu_release(log.matrix, known.name, "win_amd64") if known else ""
        release = log.release_of(known) if known else ""
        if not known or not last or (release and number(release)[:2] <= number(last)[:2]):
            continue
        means = f"{known.title}'s builds for Windows have no CUDA after {major_minor(last)}."
        yield Claim("platform-no-gpu-wheel", Strength.LIMIT_AND_VALUE, means, (event,), rivals=("framework-cpu-build",))
    if (
        log.has("torch-cuda-asked")
        and log.has("torch-unavailable")
        and not log.values("torch_cuda")
        and not log.is_healthy
    ):
        means = "torch.version.cuda was asked for and names no CUDA."
        yield Claim("framework-cpu-build", Strength.SIDE_EFFECT, means, log.of("torch-cuda-asked", "torch-unavailable"))
    if log.has("tf-built-with-cuda-asked") and log.os != "linux" and not log.is_healthy:
        events = log.of("tf-built-with-cuda-asked")
        means = "TensorFlow was asked whether it has CUDA, and no GPU is used."
        yield Claim(
            "platform-no-gpu-wheel" if log.os == "windows" else "framework-cpu-build",
            Strength.SIDE_EFFECT,
            means,
            events,
        )
    for event in log.of("module-missing-other"):
        if is_framework_module(event.captured["missing_module"].split(".")[0]):
            continue
        yield Claim(
            "dependency-conflict", Strength.AFTERMATH, f"{event.captured['missing_module']} is not installed.", (event,)
        )


_CRASHES = ("illegal-instruction", "cpu-feature-required", "jax-cpu-feature", "segfault", "aborted")


def _foreign_processor(log: Log) -> Iterator[Claim]:
    """Tell a program of another architecture, which is emulated, from a processor that lacks an instruction."""
    emulated = log.of("qemu-signal", "docker-platform-mismatch", "rosetta-jaxlib")
    crashed = log.of(*_CRASHES)
    if emulated and crashed:
        means = "The program is of another architecture than the machine, and the emulation lacks instructions."
        yield Claim("python-wrong-arch", Strength.EMULATED, means, (*emulated, *crashed), rivals=("cpu-missing-avx",))
    elif log.os == "darwin" and log.architecture != "x86_64":
        for event in log.of("jax-cpu-feature", "illegal-instruction"):
            means = "An x86_64 Python under Rosetta on Apple silicon has no AVX; a Python for arm64 needs none."
            yield Claim("python-wrong-arch", Strength.EMULATED, means, (event,), rivals=("cpu-missing-avx",))
    for event in log.of("jax-cpu-feature-mac"):
        means = "jaxlib for x86_64 met a processor without AVX, mostly Apple silicon under Rosetta."
        yield Claim("python-wrong-arch", Strength.EMULATED, means, (event,), rivals=("cpu-missing-avx",))


def _bitsandbytes(log: Log) -> Iterator[Claim]:
    for event in log.of("bnb-setup-failed"):
        means = "bitsandbytes has no library of its own for the CUDA it found."
        yield Claim("extension-build-mismatch", Strength.PROBABLE, means, (event,), rivals=("toolkit-path-conflict",))
