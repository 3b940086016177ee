"""Requirements of installed packages.

Their markers, what is known to break; and the platform tags of wheels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from packaging.version import Version

from envcheck.host.data_files import load_data
from envcheck.model import (
    Citation,
    Distribution,
    FrameworkRelease,
    canonical_name,
    dataclass,
    field,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.versions import (
    evaluate_marker,
    find_requirement,
    matches,
    name_of,
    read_requirement,
    within,
)
from envcheck.rules.context import Context, once


@once
def marker_holds(context: Context, marker: str, extra: str = "") -> bool:
    """Evaluate a marker for the inspected Python; one that cannot be evaluated does not hold."""
    return evaluate_marker(marker, {**_describe_python(context), "extra": extra})


@once
def _describe_python(context: Context) -> dict[str, str]:
    """Describe the inspected Python as markers do."""
    python, host = context.python, context.host
    version = python.version.value or ""
    implementation = python.implementation.value or "cpython"
    machine = host.architecture.value or "x86_64"
    systems = {"windows": ("win32", "Windows", "nt"), "darwin": ("darwin", "Darwin", "posix")}
    platform, system, name = systems.get(context.os, ("linux", "Linux", "posix"))
    return {
        "python_version": major_minor(version) or "3",
        "python_full_version": version or "3",
        "implementation_name": implementation,
        "platform_python_implementation": (
            {"cpython": "CPython", "pypy": "PyPy"}.get(implementation, implementation)
        ),
        "sys_platform": platform,
        "platform_system": system,
        "os_name": name,
        "platform_machine": machine,
    }


@dataclass
class Need:
    """A requirement of an installed distribution, and the distribution that is to meet it."""

    owner: Distribution
    name: str
    specifier: str
    found: Distribution | None
    by_extra: bool = False  # it is an extra's, which nobody may have asked for

    @property
    def requirement(self) -> str:
        """Return the requirement as pip takes it: numpy<2."""
        return self.name + self.specifier.replace(" ", "")

    @property
    def version(self) -> str:
        """Return the version that is installed; "" for none."""
        return self.found.version if self.found else ""

    @property
    def is_cuda_wheel(self) -> bool:
        """Return whether it is one of NVIDIA's wheels."""
        return is_nvidia(self.name)

    @property
    def is_broken(self) -> bool:
        """Return whether what is installed does not meet it."""
        if self.found is None:
            # conda may bring it under another name; what CUDA wheels need of each other the loader
            # finds or not
            return self.owner.installer != "conda" and not is_nvidia(self.owner.name)
        return bool(self.specifier) and not is_met(self.found.version, self.specifier)


def is_nvidia(name: str) -> bool:
    """Return whether a distribution is one of NVIDIA's wheels."""
    return name.startswith("nvidia-")


@lru_cache(maxsize=4096)
def is_met(version: str, specifier: str) -> bool:
    """Return whether a version lies in a specifier; one that cannot be compared does."""
    try:
        return within(version, specifier)
    except ValueError:  # packaging's errors
        return True


@once
def requirements_on(context: Context, name: str) -> tuple[Need, ...]:
    """List what installed packages require of another one, extras aside."""
    return tuple(
        need
        for owner in context.distributions.values()
        for need in needs_of(context, owner)
        if need.name == name and need.specifier and not need.by_extra
    )


def needs_of(context: Context, owner: Distribution) -> Iterator[Need]:
    """Yield the requirements of a distribution that hold here."""
    row = context.row_of(owner)
    if row is not None and not owner.requires and owner.installer != "conda":
        # Its metadata was not read: the matrix knows the pins that matter.
        for name, specifier, by_extra in _by_row(context, row, owner):
            if name in context.distributions:
                yield Need(owner, name, specifier, context.distributions[name], by_extra)
        return
    extra = row.gpu_extra if row is not None and row.gpu_extra else ""
    required = [found for line in owner.requires if (found := find_requirement(line))]
    plain = {item.name for item in required if "extra" not in item.marker}
    of_extra = [
        item
        for item in required
        if extra and "extra" in item.marker and extra in canonical_name(item.marker)
    ]
    # What only the extra names shows that it was asked for; else its pins bind nothing.
    is_asked = any(
        item.name in context.distributions and item.name not in plain for item in of_extra
    )
    for item in required:
        by_extra = "extra" in item.marker
        if by_extra and (item not in of_extra or item.name not in context.distributions):
            continue
        if by_extra and item.name in plain and not is_asked:
            continue
        if not item.marker or marker_holds(context, item.marker, extra):
            there = context.distributions.get(item.name)
            yield Need(owner, item.name, item.specifier, there, by_extra)


def _by_row(
    context: Context, row: FrameworkRelease, owner: Distribution
) -> Iterator[tuple[str, str, bool]]:
    """Yield the pins a matrix row holds.

    Those on CUDA wheels only where it describes this very build.
    """
    yield from ((name, spec, False) for name, spec in row.requires.items())
    local = owner.version.partition("+")[2]
    if not local or local == f"cu{(row.cuda or '').replace('.', '')}":
        wheels = {item.name: item for item in map(read_requirement, row.cuda_wheels)}
        is_asked = bool((wheels.keys() - row.requires.keys()) & context.distributions.keys())
        for name, wheel in wheels.items():
            if is_asked or name not in row.requires:
                yield name, wheel.specifier, bool(row.gpu_extra)


@dataclass
class KnownBreak:
    """Releases of a package that a framework release was seen to fail with."""

    requirement: str  # ml-dtypes<=0.4.1
    failure: str  # the error: AttributeError: module 'ml_dtypes' has no attribute 'float4_e2m1fn'

    @property
    def name(self) -> str:
        """Return the package's name."""
        return name_of(self.requirement)

    def concerns(self, item: Distribution) -> bool:
        """Return whether an installed package is one of these releases."""
        specifier = self.requirement[len(self.name) :]
        return self.name == item.name and matches(item.version, specifier)


@dataclass
class TriedRelease:
    """What became of a framework release when each of its requirements was removed and moved."""

    framework: str
    version: str
    needs: tuple[str, ...] = ()  # importing it fails where one of these is removed; () not tried
    breaks: tuple[KnownBreak, ...] = ()
    # name -> what it was seen to import and compute with
    works: Mapping[str, str] = field(default_factory=dict)

    def find_break(self, item: Distribution) -> KnownBreak | None:
        """Return what is known to break with an installed package."""
        return next((row for row in self.breaks if row.concerns(item)), None)

    def works_with(self, item: Distribution) -> bool:
        """Return whether an installed package lies in what the release was seen to work with."""
        return item.name in self.works and matches(item.version, self.works[item.name])


@dataclass
class TriedRequirements:
    """The content of data/frameworks/requirements.json."""

    releases: tuple[TriedRelease, ...]  # of a framework the oldest first
    citation: Citation


def tried_citation() -> Citation:
    """Return how the releases were tried."""
    return load_data("frameworks/requirements", TriedRequirements).citation


@lru_cache(maxsize=64)
def tried_release(framework: str, version: str) -> TriedRelease | None:
    """Return what is known of a release: its own minor first, then neighbours.

    What is too old for an older release is too old for this one, and what is too new for a newer
    one is too new.
    """
    rows = [
        row
        for row in load_data("frameworks/requirements", TriedRequirements).releases
        if row.framework == framework
    ]
    same_minor = [row for row in rows if major_minor(row.version) == major_minor(version)]
    own = min(same_minor, key=lambda row: row.version != version, default=None)
    older = [row for row in reversed(rows) if numbers(row.version) < numbers(version)]
    newer = [row for row in rows if numbers(row.version) > numbers(version)]
    if not older and not newer:
        return own
    tried = own or TriedRelease(framework, version)
    inferred = (*_infer_breaks(older, "<", tried), *_infer_breaks(newer, ">", tried))
    breaks = (
        *tried.breaks,
        *(item for item in inferred if not tried.needs or item.name in tried.needs),
    )
    needs = next((row.needs for row in (tried, *older, *newer) if row.needs), ())
    return replace(tried, needs=needs, breaks=breaks)


def _infer_breaks(
    rows: Iterable[TriedRelease], sign: str, tried: TriedRelease
) -> Iterator[KnownBreak]:
    """Infer breaks from other releases, the nearest first.

    The first that tried a package decides.
    """
    known = {*tried.works, *(item.name for item in tried.breaks)}
    for row in rows:
        for item in row.breaks:
            if sign in item.requirement and item.name not in known:
                yield item
        known.update(row.works, (item.name for item in row.breaks))


@dataclass
class TagRow:
    """One kind of manylinux tag."""

    glibc: str  # "" where the tag names it
    pip: str  # the lowest that accepts it
    citation: Citation
    tag: str = ""  # the very tag, where one was asked about


@dataclass
class PipTags:
    """The content of data/program/pip_tags.json."""

    tags: Mapping[str, TagRow]
    glibcxx: Mapping[str, str]  # glibc of a policy -> newest GLIBCXX that it admits
    glibcxx_citation: Citation


def _pip_tags() -> PipTags:
    return load_data("program/pip_tags", PipTags)


@lru_cache(maxsize=128)
def tag_need(tag: str) -> TagRow | None:
    """Read a platform tag such as manylinux2014_x86_64 or manylinux_2_27_x86_64.

    Return None when it is no manylinux tag.
    """
    match = re.match(r"manylinux(\d+|_(\d+)_(\d+))_", tag)
    if match is None:
        return None
    perennial = match.group(2) is not None
    row = _pip_tags().tags.get("manylinux_x_y" if perennial else "manylinux" + match.group(1))
    if row is None:
        return None
    glibc = f"{match.group(2)}.{match.group(3)}" if perennial else row.glibc
    return replace(row, tag=tag, glibc=glibc)


def easiest_for_pip(release: FrameworkRelease) -> TagRow | None:
    """Return the tag of a release that the oldest pip accepts.

    Return None when no pip is too old for it.
    """
    needs = [tag_need(tag) for tag in release.tags]
    tag_needs = [need for need in needs if need is not None]
    if tag_needs and len(tag_needs) == len(needs):
        return min(tag_needs, key=lambda need: Version(need.pip))
    return None


def lowest_glibc(tags: Iterable[str]) -> str:
    """Return the lowest glibc that a wheel's or release's platform tags mean, or ""."""
    return min(
        (need.glibc for need in map(tag_need, tags) if need is not None), key=Version, default=""
    )


def wheel_glibc(release: FrameworkRelease) -> str:
    """Return the lowest glibc a release runs on.

    What it really needs, and no less than its lowest tag; "" unknown.
    """
    floors = (lowest_glibc(release.tags), release.glibc)
    return max(filter(None, floors), key=Version, default="")


def tag_glibcxx(release: FrameworkRelease) -> str:
    """Return the newest GLIBCXX that the lowest manylinux tag of a release admits.

    3.4.24; "" when it has none.
    """
    lowest = lowest_glibc(release.tags)
    for glibc, glibcxx in reversed([*_pip_tags().glibcxx.items()]):
        if lowest and Version(glibc) <= Version(lowest):
            return glibcxx
    return ""


# What extras bring.


@dataclass
class ExtraRow:
    """Extras that some releases have."""

    distributions: tuple[str, ...]
    specifier: str
    extras: tuple[str, ...]
    platforms: tuple[str, ...] = ()  # where what they bring has wheels; () everywhere
    same_as: str = ""  # the extra of the matrix that brings the same: cuda12 for cuda


@dataclass
class ExtraTable:
    """The content of data/frameworks/extras.json."""

    rows: tuple[ExtraRow, ...]
    citation: Citation


def extra_table() -> ExtraTable:
    """Return data/frameworks/extras.json."""
    return load_data("frameworks/extras", ExtraTable)


def list_extras(row: FrameworkRelease) -> tuple[str, ...] | None:
    """List the extras that a release has; None where nothing states them."""
    rows = [item for item in extra_table().rows if row.distribution in item.distributions]
    stated = [*row.extras, *(row.gpu_extra.split(",") if row.gpu_extra else ())]
    matches = (item.extras for item in rows if within(row.version, item.specifier))
    if rows:
        return tuple(sorted({*stated, *(extra for extras in matches for extra in extras)}))
    return None


def has_extras(row: FrameworkRelease, extras: Iterable[str]) -> bool:
    """Return whether a release has extras.

    One of which nothing states them counts as having all.
    """
    known_extras = list_extras(row)
    return known_extras is None or set(extras) <= set(known_extras)


def has_extra_wheels(platform: str, row: FrameworkRelease, extras: Iterable[str]) -> bool:
    """Return whether what extras of a release bring has wheels for a platform."""
    return all(not item.platforms or platform in item.platforms for item in extra_rows(row, extras))


def resolve_extras(row: FrameworkRelease, extras: Iterable[str]) -> tuple[str, ...]:
    """Translate extras to the names that the matrix uses: cuda -> cuda12."""
    same = {
        extra: item.same_as
        for item in extra_rows(row, extras)
        if item.same_as
        for extra in item.extras
    }
    return tuple(sorted({same.get(extra, extra) for extra in extras}))


def extra_rows(row: FrameworkRelease, extras: Iterable[str]) -> list[ExtraRow]:
    """List what is stated of extras of a release."""
    wanted = set(extras)
    rows = (
        item
        for item in extra_table().rows
        if wanted & {*item.extras} and row.distribution in item.distributions
    )
    return [item for item in rows if within(row.version, item.specifier)]
