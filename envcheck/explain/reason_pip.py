"""Why pip finds no file: the package was withdrawn, or Python, its bits, the platform or pip itself do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.explain.events import Event
from envcheck.explain.log import Claim, Log
from envcheck.model.facts import value_of
from envcheck.model.releases import FrameworkRelease

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
    if "+" in specifier and name.startswith("jax"):
        return _of_jax_links(log, text, events)
    rows = admitted_rows(log, framework, name, specifier)
    if removed and (not rows or _is_past(specifier, removed.last_versions.values())):
        none_listed = not specifier and any(event.signature == "pip-from-versions" for event in events)
        if none_listed and not _listed(events):  # the empty last release is listed for every Python since it is there
            return _nothing_for(log, text, events)
        return Claim(REMOVED, 90, f"{name} was withdrawn: {removed.reason}", events)
    return _obstacle(log, text, rows, events)


def _of_jax_links(log: Log, text: str, events: tuple[Event, ...]) -> Claim:
    """Judge a wheel of the page that JAX once linked to: for Linux alone, and gone under that name."""
    if log.os in ("windows", "darwin"):
        return Claim(PLATFORM, 84, f"{text} was built for Linux alone.", events, rivals=(REMOVED,))
    return Claim(REMOVED, 80, f"Wheels such as {text} are no longer offered under that name.", events)


def requirement_parts(text: str) -> tuple[str, str] | None:
    """Part what pip was asked for into the normalised name and the specifier; None for what is no requirement."""
    match = re.match(r"([A-Za-z0-9][\w.-]*?)(?:\[[\w,-]*\])?((?:[=<>!~]=?=?)[\w.+*!,<>=~-]+)?$", text)
    return (match.group(1).lower().replace("_", "-"), match.group(2) or "") if match else None


def _of_no_framework(name: str, text: str, events: tuple[Event, ...]) -> Claim:
    if re.match(r"nvidia-[\w-]+-cu\d+$|triton$", name):
        means = f"{name} has no file for this platform: the CUDA wheels are for Linux, so there is no GPU build here."
        return Claim(PLATFORM, 74, means, events, rivals=("framework-cuda-extra-missing",))
    return Claim("dependency-conflict", 34, f"pip finds no file of {text} that fits.", events, rivals=(PYTHON,))


def _nothing_for(log: Log, text: str, events: tuple[Event, ...]) -> Claim:
    """Judge a withdrawn name of which pip saw no release at all: it was asked for before it was withdrawn."""
    if log.os == "darwin" or log.architecture in ("aarch64", "arm64"):
        return Claim(PLATFORM, 88, f"{text} never had a wheel for this platform.", events, rivals=(REMOVED, PYTHON))
    if value_of(log.facts.python.bits) == 32 or log.has("python-32bit", "pip-debug-win32"):
        return Claim(BITS, 93, f"{text} has no wheel for a 32-bit Python.", events)
    means = f"pip sees no release of {text} for this Python, its bits and this system; the name was withdrawn as well."
    return Claim(PYTHON, 76, means, events, rivals=(REMOVED, BITS, PLATFORM))


def _obstacle(log: Log, text: str, rows: list[FrameworkRelease], events: tuple[Event, ...]) -> Claim:
    """Look for what keeps every row from fitting: bits, Python, platform, pip; then judge by what pip listed."""
    if value_of(log.facts.python.bits) == 32 or log.has("python-32bit", "pip-debug-win32"):
        return Claim(BITS, 93, f"{text} has no wheel for a 32-bit Python.", events)
    if log.python and rows and not any(log.python in row.pythons for row in rows):
        return Claim(PYTHON, 90, f"{text} has no wheel for Python {log.python}.", events)
    family = {"windows": "win", "darwin": "macosx", "linux": "linux"}.get(log.os, "")
    machine = log.architecture
    here = [row for row in rows if family in row.platform and (machine in row.platform or machine in _USUAL)]
    if rows and not here:
        return Claim(PLATFORM, 84, f"{text} has no wheel for this platform.", events, rivals=("python-wrong-arch",))
    needed = _pip_needed(here or rows)
    pip = value_of(log.facts.python.pip_version) or log.first("pip")
    listed = _listed(events)
    if needed and pip and _older(pip, needed):
        return Claim(PIP, 92, f"The wheels of {text} are seen by pip {needed} and newer; this is pip {pip}.", events)
    if log.python and pip and needed and log.os == "linux" and not _has_glibc(log, here or rows):
        means = (
            f"Python {log.python} and pip {pip} take the wheels of {text}: what is left is a system too old for them."
        )
        return Claim(GLIBC, 79, means, events, rivals=(PLATFORM, PYTHON))
    return _by_listing(text, rows, listed, events) if listed else _by_pips_words(log, text, needed, events)


def _by_pips_words(log: Log, text: str, needed: str, events: tuple[Event, ...]) -> Claim:
    """Judge where pip lists nothing: pip 19.1 and newer write ERROR first; without that, this pip may be too old."""
    plain = needed and log.os != "windows" and not any("prefix" in event.captured for event in events)
    if plain and specified(text) and _is_newer_than_plain(needed):
        means = f"This pip is an old one; the wheels of {text} need pip {needed}."
        return Claim(PIP, 74, means, events, rivals=(PYTHON,))
    means = f"No wheel of {text} fits this Python, its bits, this system, or what this pip accepts."
    return Claim(PYTHON, 72, means, events, rivals=_RIVALS)


_USUAL = ("", "x86_64", "AMD64", "amd64")  # what a platform names in several ways
_MACHINES = ("x86_64", "aarch64", "arm64")


def specified(text: str) -> bool:
    """Tell whether a requirement names a release."""
    return any(sign in text for sign in "=<>~")


def _is_newer_than_plain(needed: str) -> bool:
    return not _older(needed, "9")


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
        return Claim(PYTHON, 76, means, events, rivals=(PIP, GLIBC))
    return Claim(PYTHON, 78, f"{shown}: this Python is none that {text} was built for.", events, rivals=(BITS, PIP))


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
    from envcheck.rules.wheel_tags import easiest_for_pip

    needs = [need.pip for need in map(easiest_for_pip, rows) if need is not None]
    return min(needs, key=_parts) if needs else ""


def _has_glibc(log: Log, rows: Iterable[FrameworkRelease]) -> bool:
    """Tell whether the C library is known and new enough for one of the rows."""
    from envcheck.rules.wheel_tags import wheel_glibc

    told = value_of(log.facts.host.libc_version) or log.first("glibc")
    return bool(told) and any(not _older(told, wheel_glibc(row)) for row in rows)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _older(one: str, other: str) -> bool:
    return _parts(one) < _parts(other)


def _wheel(log: Log, event: Event) -> Claim:
    from envcheck.rules.wheel_tags import lowest_glibc

    wheel = event.captured["wheel"]
    tag = re.search(r"-(cp(\d)(\d+)\w*)-\w+-([\w.]+)\.whl$", wheel)
    if tag is None:
        return Claim(PYTHON, 70, f"The tags of {wheel} do not fit this Python or platform.", (event,))
    python = f"{tag.group(2)}.{tag.group(3)}"
    machine = log.architecture
    other = [name for name in _MACHINES if tag.group(4).endswith(name) and machine in _MACHINES and machine != name]
    if other:
        means = f"{wheel} is for {other[0]}, this machine is {machine}."
        return Claim("python-wrong-arch", 90, means, (event,))
    glibc = value_of(log.facts.host.libc_version) or log.first("glibc")
    floor = lowest_glibc(tag.group(4).split("."))
    if glibc and floor and _older(glibc, floor):
        means = f"{wheel} is for glibc {floor} or newer; this system has {glibc}."
        return Claim(GLIBC, 90, means, (event,), rivals=(PIP,))
    if log.python == python and "manylinux" in tag.group(4):
        return Claim(PIP, 86, f"The Python fits {wheel}; this pip does not know its platform tag.", (event,))
    means = f"{wheel} is for Python {python}" + (f", this is {log.python}." if log.python else ", not for this one.")
    return Claim(PYTHON, 82, means, (event,), rivals=(PIP, "python-wrong-arch"))


def _extra(log: Log, event: Event) -> Claim:
    name, version, extra = (event.captured[key] for key in ("package", "version", "extra"))
    framework = log.matrix.framework_of(name.lower())
    rows = [row for row in log.matrix.releases(framework or "") if row.version == version and row.distribution == name]
    means = f"{name} {version} has no extra named {extra}, so pip installed no CUDA libraries."
    if log.os in ("windows", "darwin") and "cu" in extra:
        return Claim(PLATFORM, 82, means, (event,), rivals=("framework-cuda-extra-missing",))
    if "cu" not in extra:
        return Claim("dependency-conflict", 30, f"{name} {version} has no extra named {extra}.", (event,), "warning")
    with_extra = any(extra in row.extras for row in rows)
    finding = PLATFORM if with_extra else "framework-cuda-extra-missing"
    return Claim(finding, 78, means, (event,), rivals=(PLATFORM,))
