"""Framework builds that are installed or asked for, and what requirements mean on a machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import Framework as FrameworkTraits
from envcheck.frameworks import framework as known_framework
from envcheck.frameworks import framework_names, identity
from envcheck.host.data_files import load_data
from envcheck.matrix.companions import asked_of, companion_row
from envcheck.matrix.query import Matrix
from envcheck.model import (
    About,
    Absent,
    Citation,
    Distribution,
    Fact,
    FrameworkBuild,
    FrameworkRelease,
    Known,
    LibraryLookup,
    RequestError,
    Source,
    Unknown,
    canonical_name,
    dataclass,
    field,
    from_file,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.versions import (
    Requirement,
    cuda_of_digits,
    evaluate_marker,
    find_requirement,
    matches,
    name_of,
    public_version,
    read_requirement,
    within,
)
from envcheck.rules.context import Context, once

T = TypeVar("T")
NO_ROW = Unknown("failed", "neither the installed files nor the matrix state it")


@dataclass
class Build:
    """One framework build with what its files and its matrix row say; the files come first."""

    framework: str
    distribution: str
    version: str  # public version, without the local part
    local: str  # cu126, cpu, "" ...
    installed: bool
    release: FrameworkRelease | None
    cuda_build: Fact[bool]
    cuda: Fact[str]
    cudnn: Fact[str]
    compute_capabilities: Fact[tuple[str, ...]]
    libraries: Fact[tuple[LibraryLookup, ...]]
    facts: FrameworkBuild | None = None
    # the release's row where it describes this very build, not a namesake's
    row: FrameworkRelease | None = None

    @property
    def traits(self) -> FrameworkTraits:
        """Return what is known of its framework."""
        return known_framework(self.framework)

    @property
    def lookups(self) -> tuple[LibraryLookup, ...]:
        """List the libraries that the build loads; empty where they are unknown."""
        return self.libraries.value or ()

    @property
    def about(self) -> About:
        """Name it as what a finding is about."""
        return About(self.framework, self.distribution)

    @property
    def full_version(self) -> str:
        """Return its version with the label: 2.7.1+cu118."""
        return f"{self.version}+{self.local}" if self.local else self.version

    @property
    def label(self) -> str:
        """Name the build as people do: "tensorflow 2.15.0"; PyTorch where no release is known."""
        return f"{self.distribution} {self.full_version}".strip() or self.traits.title

    @property
    def pin(self) -> str:
        """Pin its release, whatever the label: "torch==2.7.1"."""
        return f"{self.distribution}=={self.version}"

    @property
    def accelerator(self) -> str:
        """Name what it computes on beside CPU and CUDA.

        Rocm, xpu, mps; "" for nothing, or where that is unknown.
        """
        return (self.facts.accelerator.value if self.facts else None) or ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Return what the matrix row rests on."""
        return self.release.citations if self.release else ()


def installed_builds(context: Context) -> tuple[Build, ...]:
    """List the framework builds installed in the inspected environment."""
    builds = context.python.frameworks.value or ()
    return tuple(_build_installed(context, item) for item in builds)


def build_of(row: FrameworkRelease) -> Build:
    """Describe a release that is not installed, from its matrix row alone."""
    nothing = Unknown("failed", f"{row.distribution} is not installed")
    stated = FrameworkBuild(row.framework, row.distribution, row.build_version, libraries=nothing)
    return _make_build(stated, row, row)


def _build_installed(context: Context, item: FrameworkBuild) -> Build:
    public, _, local = item.version.partition("+")
    matrix, key = context.matrix, (context.platform, item.distribution)
    release = matrix.release(item.framework, public, *key)
    # A label (+cu118) that names the CUDA of the default index stands for its build; conda's have
    # no rows.
    is_same_build = not local or (
        release is not None and label_cuda(local) == major_minor(release.cuda)
    )
    row = release if is_same_build else matrix.build(item.framework, public, local, *key)
    row = None if is_from_conda(context, item.distribution) else row
    return _make_build(item, release, row, (item,))


def _make_build(
    item: FrameworkBuild,
    release: FrameworkRelease | None,
    row: FrameworkRelease | None,
    read: tuple[FrameworkBuild, ...] = (),
) -> Build:
    """Make a build from what states most: its files if read, then its label, then its row."""
    public, _, local = item.version.partition("+")

    def find(name: str, *stated: Fact[Any]) -> Fact[Any]:
        value = getattr(row, name, None)
        fact: Fact[Any] = NO_ROW
        if row is not None and value not in (None, ()):
            fact = Known(value, Source("matrix", row.label, "data/compat_matrix.json"))
        own = _READ_AS.get(name, name)
        return _find_first(*(getattr(each, own) for each in read), *stated, fact)

    return Build(
        framework=item.framework,
        distribution=item.distribution,
        version=public,
        local=local,
        installed=bool(read),
        release=release,
        cuda_build=find("cuda_build", _local_build(local)),
        cuda=find("cuda", _local_version(local)),
        cudnn=find("cudnn"),
        compute_capabilities=find("compute_capabilities"),
        libraries=item.libraries,
        facts=item if read else None,
        row=row,
    )


_READ_AS = {"cuda": "cuda_version", "cudnn": "cudnn_version"}  # cells of the matrix in a build


def is_from_conda(context: Context, distribution: str) -> bool:
    """Return whether conda installed a distribution."""
    item = context.distributions.get(distribution)
    return item is not None and item.installer == "conda"


def _find_first(*facts: Fact[T]) -> Fact[T]:
    """Return the first fact that is known or absent.

    One that is known to be open is not filled in by a table.
    """
    decided = (fact for fact in facts if not isinstance(fact, Unknown) or fact.why == "conflict")
    return next(decided, facts[0])


def label_cuda(local: str) -> str:
    """Read a CUDA version from a local version label.

    cu126 -> 12.6, cu92 -> 9.2, cuda11.cudnn86 -> 11, cpu -> "".
    """
    match = re.match(r"cu(?:da)?(\d{2,3})(?!\d)", local)
    return cuda_of_digits(match.group(1)) if match else ""


def _local_version(local: str) -> Fact[str]:
    cuda = label_cuda(local)
    if cuda:
        return from_file(cuda, "version label", f"+{local}")
    return NO_ROW


def _local_build(local: str) -> Fact[bool]:
    if local.startswith(("cpu", "cu")):
        return from_file(not local.startswith("cpu"), "version label", f"+{local}")
    return NO_ROW


def rows_by_extra(
    row: FrameworkRelease, extras: Iterable[str] = ()
) -> tuple[FrameworkRelease, ...]:
    """Part a release by extras that each bring one CUDA, newest first: numba-cuda[cu13]."""
    if not row.extras:
        return (row,)
    named = sorted((item for item in row.extras if re.fullmatch(r"cu\d\d", item)), reverse=True)
    parts = []
    for extra in [item for item in named if item in extras] or named:
        of_major = re.compile(rf"-{extra}\b|[>=]={extra[2:]}\.")
        wheels = tuple(filter(of_major.search, row.cuda_wheels))
        parts.append(
            replace(row, cuda_build=True, cuda=extra[2:], gpu_extra=extra, cuda_wheels=wheels)
        )
    return tuple(parts) or (row,)


def plugin_of(context: Context, row: FrameworkRelease, extra: str) -> FrameworkRelease | None:
    """Return the plugin that an extra of a release installs here."""
    return find_plugin(context.matrix, context.platform, row, extra)


def find_plugin(
    matrix: Matrix, platform: str, row: FrameworkRelease, extra: str
) -> FrameworkRelease | None:
    """Return the plugin that an extra of a release installs.

    Its own, or for jax 0.5.2 the newest that it accepts.
    """
    pattern = known_framework(row.framework).plugin_of_extra
    if not pattern:
        return None
    name = pattern.format(extra=extra)
    requirements = (item for item in map(read_requirement, row.cuda_wheels) if item.name == name)
    bounds = next((item.specifier for item in requirements), "")
    return _find_part(matrix, platform, row, name, bounds)


def library_of(context: Context, row: FrameworkRelease) -> FrameworkRelease | None:
    """Return the compiled half of a release.

    The jaxlib of its version, else the newest one that it takes.
    """
    name = known_framework(row.framework).library
    bounds = row.requires.get(name, f"=={row.version}")
    return _find_part(context.matrix, context.platform, row, name, bounds) if name else None


def _find_part(
    matrix: Matrix, platform: str, row: FrameworkRelease, name: str, bounds: str
) -> FrameworkRelease | None:
    """Return a part of a release: that of its own version, else the newest within bounds."""
    own = matrix.release(row.framework, row.version, platform, name)
    if own is not None or not bounds:
        return own
    rows = matrix.releases(row.framework, platform, admits=lambda version: within(version, bounds))
    return next((item for item in rows if item.distribution == name), None)


def supports_python(context: Context, row: FrameworkRelease) -> bool:
    """Return whether a release has a wheel for the inspected Python.

    An unknown Python counts as supported.
    """
    version = context.python.version.value
    if not version:
        return True
    implementation = context.python.implementation.value
    if implementation and implementation.lower() != "cpython":
        return False  # every framework wheel is made for CPython
    minor = major_minor(version)
    return minor in (row.free_threaded_pythons if is_free_threaded(context) else row.pythons)


def is_free_threaded(context: Context) -> bool:
    """Return whether the inspected Python is known to lack the global interpreter lock."""
    abi = context.python.abi_tag.value
    return bool(abi and abi.startswith("cp") and abi.endswith("t"))


def is_conda_build(context: Context, build: Build) -> bool:
    """Return whether conda installed a build: the wheels' rows then say little about it."""
    return build.installed and is_from_conda(context, build.distribution)


def unfound_libraries(build: Build) -> list[LibraryLookup]:
    """List the needed libraries that the loader does not find."""
    return [item for item in build.lookups if item.mandatory and isinstance(item.found, Absent)]


def built_with(build: Build) -> str | None:
    """Return the cuDNN that a build was made with.

    Its files often name only the major, its matrix row the minor.
    """
    cudnn = build.cudnn.value
    row = build.row.cudnn if build.row else None
    if row and (not cudnn or (len(numbers(cudnn)) == 1 and numbers(row)[:1] == numbers(cudnn))):
        return row
    return cudnn


def brings_cuda(build: Build) -> bool:
    """Return whether a build's CUDA libraries come with it, so that it needs no toolkit."""
    # A plugin names its libraries in an extra of the framework's other half.
    if build.traits.cuda.brings_libraries or build.traits.is_plugin(build.distribution):
        return True
    release = build.release
    return release is not None and bool(
        release.gpu_extra or release.cuda_wheels or release.finds_cuda_wheels
    )


# What the requirements of --for mean on this machine.


# Why a requirement means no release here, in the order of the checks.
REMOVED = "removed"  # the distribution was withdrawn
UNLISTED = "unlisted"  # no release in the matrix satisfies the specifier
OLDER = "older"  # pip takes a release from before those that the matrix holds
LABEL = "label"  # the release has no known build with this local version
EXTRA = "extra"  # the release does not have one of the extras
EXTRA_PLATFORM = "extra-platform"  # what the extra brings has no wheel for this platform
BITS = "bits"  # 32-bit interpreter
PLATFORM = "platform"
PYTHON = "python"
LIBC = "libc"  # musl
GLIBC = "glibc"
PEER = "peer"  # no release of a package goes with the framework that is asked for


class UnknownNameError(RequestError):
    """A distribution that the matrix does not judge."""


@dataclass
class WantedRelease:
    """One requirement with the release it means; `obstacle` says why there is none."""

    text: str  # canonical: "tensorflow[and-cuda]==2.15.*"
    distribution: str
    framework: str
    specifier: str
    extras: tuple[str, ...]
    build: Build | None
    obstacle: str = ""
    rejected: tuple[FrameworkRelease, ...] = ()  # what the obstacle alone left out, newest first
    # the release of a package on top of a framework, which is no build
    package: FrameworkRelease | None = None
    required_by: str = ""  # the package that brings a framework that nobody asked for: vllm 0.33.0


@once
def wanted_releases(context: Context) -> tuple[WantedRelease, ...]:
    """Resolve the requirements of --for as pip does, with the frameworks they bring.

    Raises RequestError.
    """
    parsed = (_parse(text, context.matrix) for text in context.target.requirements)
    requests = [
        item for item in parsed if not item[0].marker or marker_holds(context, item[0].marker)
    ]
    bounds = {framework: requirement.specifier for requirement, framework in requests if framework}
    packages = _resolve_packages(
        context, [item for item, framework in requests if not framework], bounds
    )
    # two of one: what is wanted, and what a log lacks
    named = [framework for _, framework in requests if framework]
    frameworks = [
        _resolve(
            context, replace(item, specifier=bounds[name]) if named.count(name) == 1 else item, name
        )
        for item, name in requests
        if name
    ]
    asked = {item.framework for item in frameworks}
    if not context.target.brings:
        return (*frameworks, *packages)
    return (*frameworks, *packages, *_list_brought(context, packages, bounds, asked))


def _resolve_packages(
    context: Context, requests: Iterable[Requirement], bounds: dict[str, str]
) -> tuple[WantedRelease, ...]:
    """Choose the newest packages that go together, and narrow the frameworks' range."""
    wanted = [_resolve_package(context, requirement) for requirement in requests]
    open_places = [
        place for place, item in enumerate(wanted) if item.rejected and not item.obstacle
    ]
    for count in range(len(open_places), -1, -1):
        found = _choose_together(
            context, [wanted[place].rejected for place in open_places[:count]], bounds
        )
        if found is not None:
            break
    if count < len(open_places):
        wanted[open_places[count]] = replace(wanted[open_places[count]], obstacle=PEER)
    for place, row in zip(open_places, found[0] if found else (), strict=False):
        wanted[place] = replace(wanted[place], package=row, rejected=())
    bounds.update(found[1] if found else {})
    return tuple(wanted)


def _resolve_package(context: Context, requirement: Requirement) -> WantedRelease:
    """List a package's installable releases, as `rejected`, or say why there are none."""
    name = requirement.name
    section = context.matrix.companion_of(name)
    wanted = WantedRelease(
        name + requirement.specifier, name, section, requirement.specifier, (), None
    )
    installed = context.distributions.get(name)
    if installed is not None and requirement.admits(installed.version, prereleases=True):
        return wanted
    rows = _matching_rows(context, section, name, requirement)
    obstacle, installable = _filter_installable(context, rows, ())
    newer_too = tuple(
        row for row in installable if obstacle == PYTHON and _is_for_newer_pythons(context, row)
    )
    is_unlisted = obstacle in {PYTHON, UNLISTED} and not newer_too
    if is_unlisted and _means_older(context, section, name, requirement):
        return replace(wanted, obstacle=OLDER)
    return replace(
        wanted, obstacle="" if newer_too else obstacle, rejected=newer_too or installable
    )


def _is_for_newer_pythons(context: Context, row: FrameworkRelease) -> bool:
    """Return whether a wheel without binaries installs on this newer Python."""
    minor = major_minor(context.python.version.value)
    return (
        row.platform == "any"
        and bool(row.pythons)
        and numbers(minor) >= min(map(numbers, row.pythons))
    )


_Packages = tuple[FrameworkRelease, ...]


def _choose_together(
    context: Context, options: list[_Packages], bounds: dict[str, str]
) -> tuple[_Packages, dict[str, str]] | None:
    """Choose each package's newest release, and the framework releases they leave."""
    if not options:
        return (), bounds
    tried: list[dict[str, str]] = []
    for row in options[0]:
        narrowed = _narrow(context, row, bounds)
        if narrowed is None or narrowed in tried:
            continue
        tried.append(narrowed)
        rest = _choose_together(context, options[1:], narrowed)
        if rest is not None:
            return (row, *rest[0]), rest[1]
    return None


def _narrow(
    context: Context, row: FrameworkRelease, bounds: dict[str, str]
) -> dict[str, str] | None:
    """Add what a package requires of frameworks to what is asked of them.

    Return None where no release meets both.
    """
    narrowed = dict(bounds)
    for framework, pin in required_frameworks(row, bounds).items() if context.target.brings else ():
        parts = f"{bounds.get(framework, '')},{pin}".split(",")
        narrowed[framework] = ",".join(dict.fromkeys(filter(None, parts)))
        public = re.sub(r"\+[\w.]+", "", narrowed[framework])
        if not any(
            within(version, public) for version in _installable_versions(context, framework)
        ):
            return None
    return narrowed


def required_frameworks(row: FrameworkRelease, bounds: Iterable[str] = ()) -> dict[str, str]:
    """Map the frameworks that a package release brings, or goes with, to releases."""
    pins = {name: asked_of(row, name) for name in companion_row(row.distribution).frameworks}
    brought = {
        name for name in pins if any(item in row.requires for item in identity(name).distributions)
    }
    return {
        name: pin
        for name, pin in pins.items()
        if pin is not None and (name in brought or name in bounds)
    }


@once
def _installable_versions(context: Context, framework: str) -> tuple[str, ...]:
    """List the versions of a framework that have a wheel here, newest first."""
    rows = context.matrix.releases(framework)
    versions = context.matrix.versions(framework)
    usable = {
        row.version
        for row in rows
        if not row.yanked and not _filter_installable(context, (row,), ())[0]
    }
    return tuple(version for version in versions if version in usable)


def _list_brought(
    context: Context,
    packages: Iterable[WantedRelease],
    bounds: Mapping[str, str],
    asked: Iterable[str],
) -> Iterator[WantedRelease]:
    """List the frameworks that come with packages, each with the first package that requires it."""
    seen = set(asked)
    for row in (item.package for item in packages if item.package is not None):
        for name in required_frameworks(row):
            if name not in seen:
                seen.add(name)
                known = identity(name).distributions
                distribution = next((item for item in known if item in row.requires), name)
                brought = _resolve(
                    context, Requirement("", distribution, specifier=bounds[name]), name
                )
                yield replace(brought, required_by=row.label)


def check_requirements(
    requirements: Iterable[str], matrix: Matrix, *, is_judged: bool = True
) -> None:
    """Raise RequestError for the first requirement that cannot be read.

    With `is_judged`, also for one that cannot be judged.
    """
    for text in requirements:
        _parse(text, matrix, is_judged=is_judged)


def _parse(text: str, matrix: Matrix, *, is_judged: bool = True) -> tuple[Requirement, str]:
    """Read a requirement; return it with its framework, "" for a package on top of one."""
    requirement = read_requirement(text)
    if requirement.url:
        raise RequestError(
            f"{text!r} names a URL; name a release instead, such as {requirement.name}==VERSION."
        )
    name = requirement.name
    removal = matrix.removed_distribution(name)
    framework = matrix.framework_of(name) or (removal.framework if removal else "")
    if not framework and is_judged and matrix.companion_of(name):
        return requirement, ""  # a package on top of a framework
    if not framework:
        raise UnknownNameError(_unknown_name(name, matrix))
    # a user's matrix may hold a framework of its own
    if is_judged and framework not in framework_names():
        known = ", ".join(framework_names())
        raise RequestError(
            f"{framework!r} is a framework of this matrix alone; envcheck judges {known}."
        )
    return requirement, framework


def _unknown_name(name: str, matrix: Matrix) -> str:
    from difflib import get_close_matches

    names = [item for framework in matrix.judged() for item in matrix.distributions(framework)]
    matches = get_close_matches(name, names, n=1, cutoff=0.7)
    hint = f" Did you mean {matches[0]}?" if matches else ""
    return (
        f"{name!r} is no framework that envcheck knows; it knows"
        f" {', '.join(matrix.judged())}.{hint}"
    )


def _resolve(context: Context, requirement: Requirement, framework: str) -> WantedRelease:
    name, extras = requirement.name, requirement.extras
    wanted = WantedRelease(requirement.plain, name, framework, requirement.specifier, extras, None)
    for build in installed_builds(context):
        if _satisfies(build, name, requirement):
            return _with_build(wanted, build)
    if _is_removed(context, name, requirement):
        return replace(wanted, obstacle=REMOVED)
    local = requirement.label
    rows = _matching_rows(context, framework, name, requirement, local)
    if local and not rows:
        public = replace(requirement, specifier=requirement.specifier.replace(f"+{local}", ""))
        others = _matching_rows(context, framework, name, public)
        return replace(wanted, obstacle=LABEL if others else UNLISTED, rejected=others)
    obstacle, installable = _filter_installable(context, rows, extras)
    if obstacle in {PYTHON, UNLISTED} and _means_older(context, framework, name, requirement):
        return replace(wanted, obstacle=OLDER)
    if obstacle:
        return replace(wanted, obstacle=obstacle, rejected=installable)
    return _with_build(wanted, build_of(rows_by_extra(installable[0], extras)[0]))


def _with_build(wanted: WantedRelease, build: Build) -> WantedRelease:
    """Give a requirement the build that it means, and its extras the names of the matrix."""
    if build.release and wanted.extras:
        wanted = replace(wanted, extras=resolve_extras(build.release, wanted.extras))
    return replace(wanted, build=build)


def _satisfies(build: Build, name: str, requirement: Requirement) -> bool:
    if build.distribution != name:
        return False
    if not build.version:  # of an image whose name does not say it: what has no pin is there
        return not requirement.pin
    return requirement.admits(build.full_version, prereleases=True)


def _means_older(context: Context, section: str, name: str, requirement: Requirement) -> bool:
    """Return whether pip takes a release from before all that the matrix holds.

    That is pinned, or it is for an older Python than all of those.
    """
    rows = context.matrix.releases(section, context.platform)
    known = [
        row
        for row in rows or context.matrix.companion_releases(section)
        if row.distribution == name
    ]
    if not known:
        return False
    first = numbers(known[-1].version)
    if requirement.pin:
        with suppress(InvalidVersion):  # === takes any text
            return Version(requirement.pin) < Version(known[-1].version)
    python = context.python.version.value
    pythons = [numbers(minor) for row in known for minor in row.pythons]
    is_older = bool(python and pythons) and numbers(python)[:2] < min(pythons)
    lower = re.findall(r"(?:>=|~=|>|==)\s*(\d[\d.]*)", requirement.specifier)
    return is_older and all(numbers(bound) < first for bound in lower)


def _is_removed(context: Context, name: str, requirement: Requirement) -> bool:
    """Return whether the requirement leads to a withdrawn distribution.

    pip takes the newest it admits.
    """
    row = context.matrix.removed_distribution(name)
    if row is None:
        return False
    last_version = row.last_versions.get(context.platform)
    if last_version is None or requirement.admits(_next_minor(last_version), prereleases=True):
        return True
    real = _matching_rows(context, row.framework, name, requirement)
    return not any(Version(release.version) <= Version(last_version) for release in real)


def _next_minor(version: str) -> str:
    """Return the next minor release: 2.11.0 -> 2.12.0."""
    release = Version(version).release
    return ".".join(map(str, (release[0], release[1] + 1, *(0 for _ in release[2:]))))


def _matching_rows(
    context: Context, framework: str, name: str, requirement: Requirement, local: str = ""
) -> tuple[FrameworkRelease, ...]:
    """List a distribution's releases within a specifier; yanked ones only if pinned exactly.

    Those of other platforms are listed only where this one has none, or where no wheel can be
    installed at all.
    """

    def admits(version: str) -> bool:
        return requirement.admits(f"{version}+{local}" if local else version, prereleases=False)

    def list_rows(platform: str | None) -> tuple[FrameworkRelease, ...]:
        rows = (
            row
            for row in context.matrix.builds(framework, platform, admits, pin)
            if row.local == local
        )
        return tuple(
            row for row in rows if row.distribution == name and (requirement.pin or not row.yanked)
        )

    public = public_version(requirement.pin)
    pin = public if re.fullmatch(r"[\d.]+", public) else ""
    return (() if _is_32bit(context) else list_rows(context.platform)) or list_rows(None)


def _filter_installable(
    context: Context, rows: tuple[FrameworkRelease, ...], extras: tuple[str, ...]
) -> tuple[str, tuple[FrameworkRelease, ...]]:
    """Drop what cannot be installed here, check by check.

    Return the obstacle that left nothing and what it dropped.
    """
    if not rows:
        return UNLISTED, ()
    libc = context.host.libc_kind.value
    checks: tuple[tuple[str, Callable[[FrameworkRelease], bool]], ...] = (
        (BITS, lambda _: not _is_32bit(context)),
        (PLATFORM, lambda row: row.platform in (context.platform, "any")),
        (PYTHON, lambda row: supports_python(context, row)),
        (LIBC, lambda row: not (libc == "musl" and row.platform.startswith("linux"))),
        (GLIBC, lambda row: _has_glibc(context, row)),
        (EXTRA, lambda row: has_extras(row, extras)),
        (EXTRA_PLATFORM, lambda row: has_extra_wheels(context.platform, row, extras)),
    )
    for obstacle, passes in checks:
        remaining = tuple(filter(passes, rows))
        if not remaining:
            return obstacle, rows
        rows = remaining
    return "", rows


def _is_32bit(context: Context) -> bool:
    return context.python.bits.value == 32


def _has_glibc(context: Context, row: FrameworkRelease) -> bool:
    return is_met(context.host.libc_version.value or "", f">={wheel_glibc(row) or 0}")


# The builds to judge: installed, asked for, and the packages on top of them.


def target_builds(context: Context) -> tuple[Build, ...]:
    """List the builds that the requirements of --for mean on this machine."""
    builds: list[Build] = []
    for wanted in wanted_releases(context):
        if wanted.build is not None:
            builds += [wanted.build, *_list_plugins(context, wanted)]
    return tuple(builds)


def _list_plugins(context: Context, wanted: WantedRelease) -> tuple[Build, ...]:
    """List the distributions that an extra brings: jax[cuda12] -> jax-cuda12-plugin."""
    row = None
    if wanted.build and not wanted.build.installed:
        row = wanted.build.release
    if row is None or row.gpu_extra is None or row.cuda_build:
        return ()
    requested_extra = next((extra for extra in wanted.extras if extra in row.extras), None)
    extra = requested_extra or (row.gpu_extra if context.goal == "gpu" else None)
    plugin = plugin_of(context, row, extra) if extra else None
    return (build_of(plugin),) if plugin is not None else ()


@once
def judged_builds(context: Context) -> tuple[Build, ...]:
    """List every build to judge: the installed ones, then those of --for that are not installed.

    What --for asks of a framework replaces its installed build.
    """
    targets = tuple(build for build in target_builds(context) if not build.installed)
    requested = {
        wanted.framework
        for wanted in wanted_releases(context)
        if not (wanted.build and wanted.build.installed)
    }
    installed = tuple(
        build for build in installed_builds(context) if build.framework not in requested
    )
    return installed + targets


@once
def package_builds(context: Context) -> tuple[Build, ...]:
    """List the CUDA packages on top of a framework that the matrix holds.

    They are installed or asked for.
    """
    builds = []
    for item in context.distributions.values():
        section = context.matrix.companion_of(item.name)
        if section and item.installer != "conda":
            row = context.matrix.release(section, item.version, context.platform, item.name)
            if row is not None and _has_cuda(row):
                builds.append(replace(build_of(row), installed=True))
    wanted = (item.package for item in wanted_releases(context))
    return (*builds, *(build_of(row) for row in wanted if row is not None and _has_cuda(row)))


def is_for_gpu_alone(matrix: Matrix, name: str) -> bool:
    """Return whether a package on top computes on no CPU.

    Its wheels hold CUDA code, and none is for a system without CUDA.
    """
    rows = matrix.companion_releases(name)
    return any(row.cuda_build for row in rows) and not any(
        row.platform.startswith("macosx") for row in rows
    )


def _has_cuda(row: FrameworkRelease) -> bool:
    return row.cuda_build or bool(row.compute_capabilities)


@dataclass
class JudgedFramework:
    """One framework with all its judged builds."""

    name: str
    builds: tuple[Build, ...]
    extras: tuple[str, ...]  # asked for with --for

    @property
    def traits(self) -> FrameworkTraits:
        """Return what is known of the framework."""
        return known_framework(self.name)

    @property
    def main(self) -> Build:
        """Return the build that names the framework's version.

        A stub or plugin only when there is no other.
        """
        matches = [build for build in self.builds if build.distribution == self.name]
        return (matches or list(self.builds))[0]

    @property
    def cuda_build(self) -> Fact[bool]:
        """Say whether any of its builds is a CUDA build."""
        facts = [build.cuda_build for build in self.builds]
        # one that is, then what is not known, then one that is not
        return min(
            facts,
            key=lambda fact: (not fact.value, not isinstance(fact, Unknown), fact.value is None),
        )


@once
def judged_frameworks(context: Context) -> tuple[JudgedFramework, ...]:
    """List the judged frameworks in the order of their builds."""
    groups: dict[str, list[Build]] = {}
    for build in judged_builds(context):
        groups.setdefault(build.framework, []).append(build)
    extras: dict[str, tuple[str, ...]] = {}
    for wanted in wanted_releases(context):
        extras[wanted.framework] = extras.get(wanted.framework, ()) + wanted.extras
    return tuple(
        JudgedFramework(name, tuple(builds), extras.get(name, ()))
        for name, builds in groups.items()
    )


def cuda_builds(context: Context) -> Iterator[Build]:
    """Yield the judged builds that are meant to use CUDA."""
    for build in judged_builds(context):
        if build.cuda_build.value is True:
            yield build


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
        for name, specifier, by_extra in _by_row(row, owner):
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


def _by_row(row: FrameworkRelease, owner: Distribution) -> Iterator[tuple[str, str, bool]]:
    """Yield the pins a matrix row holds.

    Those on CUDA wheels only where it describes this very build.
    """
    yield from ((name, spec, False) for name, spec in row.requires.items())
    local = owner.version.partition("+")[2]
    if not local or local == f"cu{(row.cuda or '').replace('.', '')}":
        for wheel in row.cuda_wheels:
            name = name_of(wheel)
            yield name, wheel[len(name) :], bool(row.gpu_extra)


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
