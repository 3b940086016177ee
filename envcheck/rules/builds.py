"""The framework builds to judge: those installed, and those that --for asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import Framework as FrameworkTraits
from envcheck.frameworks import framework as known_framework
from envcheck.frameworks import framework_names, identity
from envcheck.matrix.companions import asked_of, companion_row
from envcheck.matrix.query import Matrix
from envcheck.model import (
    Absent,
    Citation,
    Fact,
    FrameworkBuild,
    FrameworkRelease,
    Known,
    LibraryLookup,
    RemovedDistribution,
    RequestError,
    Source,
    Unknown,
    dataclass,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.requirements import Requirement, read_requirement
from envcheck.model.specifiers import within
from envcheck.rules.context import Context, once
from envcheck.rules.extras import has_extra_wheels, has_extras, resolve_extras
from envcheck.rules.requirements import marker_holds, wheel_glibc

T = TypeVar("T")
NO_ROW = Unknown("failed", "neither the installed files nor the matrix state it")


@dataclass(frozen=True)
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
    row: FrameworkRelease | None = None  # the release's row where it describes this very build, not a namesake's

    @property
    def traits(self) -> FrameworkTraits:
        """Return what is known of its framework."""
        return known_framework(self.framework)

    @property
    def full_version(self) -> str:
        """Return its version with the label: 2.7.1+cu118."""
        return f"{self.version}+{self.local}" if self.local else self.version

    @property
    def label(self) -> str:
        """Name the build as people do: "tensorflow 2.15.0"."""
        return f"{self.distribution} {self.full_version}".rstrip()

    @property
    def accelerator(self) -> str:
        """Name what it computes on beside CPU and CUDA: rocm, xpu, mps; "" for nothing, or where that is unknown."""
        return (self.facts.accelerator.value if self.facts else None) or ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Return what the matrix row rests on."""
        return self.release.citations if self.release else ()


def installed_builds(context: Context) -> tuple[Build, ...]:
    """List the framework builds installed in the inspected environment."""
    frameworks = context.facts.python.frameworks
    builds = frameworks.value or ()
    return tuple(_installed(context, item) for item in builds)


def build_of(row: FrameworkRelease) -> Build:
    """Describe a release that is not installed, from its matrix row alone."""
    nothing = Unknown("failed", f"{row.distribution} is not installed")
    return Build(
        framework=row.framework,
        distribution=row.distribution,
        version=row.version,
        local=row.local,
        installed=False,
        release=row,
        cuda_build=_first(_local_build(row.local), _row(row, row.cuda_build)),
        cuda=_first(_local_version(row.local), _row(row, row.cuda)),
        cudnn=_row(row, row.cudnn),
        compute_capabilities=_row(row, row.compute_capabilities or None),
        libraries=nothing,
        row=row,
    )


def _installed(context: Context, item: FrameworkBuild) -> Build:
    public, _, local = item.version.partition("+")
    matrix, key = context.matrix, (context.platform, item.distribution)
    release = matrix.release(item.framework, public, *key)
    # A label (+cu118) that names the CUDA of the default index stands for its build; conda's have no rows.
    is_same_build = not local or (release is not None and label_cuda(local) == major_minor(release.cuda or ""))
    row = release if is_same_build else matrix.build(item.framework, public, local, *key)
    row = None if is_from_conda(context, item.distribution) else row
    return Build(
        framework=item.framework,
        distribution=item.distribution,
        version=public,
        local=local,
        installed=True,
        release=release,
        cuda_build=_first(item.cuda_build, _local_build(local), _row(row, row.cuda_build if row else None)),
        cuda=_first(item.cuda_version, _local_version(local), _row(row, row.cuda if row else None)),
        cudnn=_first(item.cudnn_version, _row(row, row.cudnn if row else None)),
        compute_capabilities=_first(
            item.compute_capabilities, _row(row, (row.compute_capabilities or None) if row else None)
        ),
        libraries=item.libraries,
        facts=item,
        row=row,
    )


def is_from_conda(context: Context, distribution: str) -> bool:
    """Tell whether conda installed a distribution."""
    item = context.distributions.get(distribution)
    return item is not None and item.installer == "conda"


def _first(*facts: Fact[T]) -> Fact[T]:
    """Return the first fact that is known or absent; one that is known to be open is not filled in by a table."""
    decided = (fact for fact in facts if not isinstance(fact, Unknown) or fact.why == "conflict")
    return next(decided, facts[0])


def _row(release: FrameworkRelease | None, value: T | None) -> Fact[T]:
    if release is None or value is None:
        return NO_ROW
    return Known(value, Source("matrix", f"{release.distribution} {release.version}", "data/compat_matrix.json"))


def label_cuda(local: str) -> str:
    """Read a CUDA version from a local version label: cu126 -> 12.6, cu92 -> 9.2, cuda11.cudnn86 -> 11, cpu -> ""."""
    match = re.match(r"cu(?:da)?(\d{2,3})(?!\d)", local)
    if match is None:
        return ""
    digits = match.group(1)
    # Two digits are a major and a minor version up to 9.2, and a major alone from CUDA 10 on.
    return digits if len(digits) == 2 and digits[0] == "1" else f"{digits[:-1]}.{digits[-1]}"


def _local_version(local: str) -> Fact[str]:
    cuda = label_cuda(local)
    return Known(cuda, Source("file", "version label", f"+{local}")) if cuda else NO_ROW


def _local_build(local: str) -> Fact[bool]:
    if local.startswith(("cpu", "cu")):
        return Known(not local.startswith("cpu"), Source("file", "version label", f"+{local}"))
    return NO_ROW


def rows_by_extra(row: FrameworkRelease, extras: Iterable[str] = ()) -> tuple[FrameworkRelease, ...]:
    """Part a release by the extras, or those asked for, that each bring one CUDA, newest first: numba-cuda[cu13]."""
    if not row.extras:
        return (row,)
    named = sorted((item for item in row.extras if re.fullmatch(r"cu\d\d", item)), reverse=True)
    parts = []
    for extra in [item for item in named if item in extras] or named:
        of_major = re.compile(rf"-{extra}\b|[>=]={extra[2:]}\.")
        wheels = tuple(wheel for wheel in row.cuda_wheels if of_major.search(wheel))
        parts.append(replace(row, cuda_build=True, cuda=extra[2:], gpu_extra=extra, cuda_wheels=wheels))
    return tuple(parts) or (row,)


def plugin_of(context: Context, row: FrameworkRelease, extra: str) -> FrameworkRelease | None:
    """Return the plugin that an extra of a release installs here."""
    return find_plugin(context.matrix, context.platform, row, extra)


def find_plugin(matrix: Matrix, platform: str, row: FrameworkRelease, extra: str) -> FrameworkRelease | None:
    """Return the plugin that an extra of a release installs: its own, or for jax 0.5.2 the newest that it accepts."""
    pattern = known_framework(row.framework).plugin_of_extra
    if not pattern:
        return None
    name = pattern.format(extra=extra)
    release = matrix.release(row.framework, row.version, platform, name)
    requirements = (item for item in map(read_requirement, row.cuda_wheels) if item.name == name)
    bounds = "" if release is not None else next((item.specifier for item in requirements), "")
    if not bounds:
        return release
    rows = matrix.releases(row.framework, platform, admits=lambda version: within(version, bounds))
    return next((item for item in rows if item.distribution == name), None)


def library_of(context: Context, row: FrameworkRelease) -> FrameworkRelease | None:
    """Return the compiled half of a release: the jaxlib of its version, else the newest one that it takes."""
    name = known_framework(row.framework).library
    release = context.matrix.release(row.framework, row.version, context.platform, name) if name else None
    if release is not None or not name:
        return release
    bounds = row.requires.get(name, f"=={row.version}")
    rows = context.matrix.releases(row.framework, context.platform, admits=lambda version: within(version, bounds))
    return next((item for item in rows if item.distribution == name), None)


# Why a requirement means no release here, in the order of the checks.
REMOVED = "removed"  # the distribution was withdrawn
UNLISTED = "unlisted"  # no release in the matrix satisfies the specifier
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


@dataclass(frozen=True)
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
    removed: RemovedDistribution | None = None
    package: FrameworkRelease | None = None  # the release of a package on top of a framework, which is no build
    required_by: str = ""  # the package that brings a framework that nobody asked for: vllm 0.33.0


def target_builds(context: Context) -> tuple[Build, ...]:
    """List the builds that the requirements of --for mean on this machine."""
    builds: list[Build] = []
    for wanted in wanted_releases(context):
        if wanted.build is not None:
            builds += [wanted.build, *_plugins(context, wanted)]
    return tuple(builds)


def _plugins(context: Context, wanted: WantedRelease) -> tuple[Build, ...]:
    """List the distributions of the framework that an extra brings: jax[cuda12] comes with jax-cuda12-plugin."""
    row = wanted.build.release if wanted.build and not wanted.build.installed else None
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
        wanted.framework for wanted in wanted_releases(context) if not (wanted.build and wanted.build.installed)
    }
    installed = tuple(build for build in installed_builds(context) if build.framework not in requested)
    return installed + targets


@once
def package_builds(context: Context) -> tuple[Build, ...]:
    """List the CUDA packages on top of a framework that are installed or asked for, as far as the matrix holds them."""
    builds = []
    for item in context.distributions.values():
        section = context.matrix.companion_of(item.name) if item.installer != "conda" else None
        row = context.matrix.release(section, item.version, context.platform, item.name) if section else None
        if row is not None and _has_cuda(row):
            builds.append(replace(build_of(row), installed=True))
    wanted = (item.package for item in wanted_releases(context))
    return (*builds, *(build_of(row) for row in wanted if row is not None and _has_cuda(row)))


def _has_cuda(row: FrameworkRelease) -> bool:
    return row.cuda_build or bool(row.compute_capabilities)


@once
def wanted_releases(context: Context) -> tuple[WantedRelease, ...]:
    """Resolve the requirements of --for as pip does, with the frameworks that packages bring; raises RequestError."""
    parsed = (_parse(text, context.matrix) for text in context.target.requirements)
    requests = [item for item in parsed if not item[0].marker or marker_holds(context, item[0].marker)]
    bounds = {framework: requirement.specifier for requirement, framework in requests if framework}
    packages = _resolve_packages(context, [item for item, framework in requests if not framework], bounds)
    named = [framework for _, framework in requests if framework]  # two of one: what is wanted, and what a log lacks
    frameworks = [
        _resolve(context, replace(item, specifier=bounds[name]) if named.count(name) == 1 else item, name)
        for item, name in requests
        if name
    ]
    asked = {item.framework for item in frameworks}
    return (*frameworks, *packages, *_list_brought(context, packages, bounds, asked))


def _resolve_packages(
    context: Context, requests: Iterable[Requirement], bounds: dict[str, str]
) -> tuple[WantedRelease, ...]:
    """Choose the newest releases of packages that go with each other, and narrow what is asked of the frameworks."""
    wanted = [_resolve_package(context, requirement) for requirement in requests]
    open_places = [place for place, item in enumerate(wanted) if item.rejected and not item.obstacle]
    for count in range(len(open_places), -1, -1):
        found = _choose_together(context, [wanted[place].rejected for place in open_places[:count]], bounds)
        if found is not None:
            break
    if count < len(open_places):
        wanted[open_places[count]] = replace(wanted[open_places[count]], obstacle=PEER)
    for place, row in zip(open_places, found[0] if found else (), strict=False):
        wanted[place] = replace(wanted[place], package=row, rejected=())
    bounds.update(found[1] if found else {})
    return tuple(wanted)


def _resolve_package(context: Context, requirement: Requirement) -> WantedRelease:
    """List the releases of a package that can be installed here, as `rejected`, or say why there are none."""
    name = requirement.name
    section = context.matrix.companion_of(name) or ""
    wanted = WantedRelease(name + requirement.specifier, name, section, requirement.specifier, (), None)
    installed = context.distributions.get(name)
    if installed is not None and requirement.admits(installed.version, prereleases=True):
        return wanted
    rows = _matching_rows(context, section, name, requirement)
    obstacle, installable = _filter_installable(context, rows, ())
    newer_too = tuple(row for row in installable if obstacle == PYTHON and _is_for_newer_pythons(context, row))
    return replace(wanted, obstacle="" if newer_too else obstacle, rejected=newer_too or installable)


def _is_for_newer_pythons(context: Context, row: FrameworkRelease) -> bool:
    """Tell whether a wheel without binaries installs on this Python, newer than those that its metadata names."""
    minor = major_minor(context.facts.python.version.value or "")
    return row.platform == "any" and bool(row.pythons) and numbers(minor) >= min(map(numbers, row.pythons))


_Packages = tuple[FrameworkRelease, ...]


def _choose_together(
    context: Context, options: list[_Packages], bounds: dict[str, str]
) -> tuple[_Packages, dict[str, str]] | None:
    """Choose one release of each package, the newest first, and the releases of frameworks that they leave."""
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


def _narrow(context: Context, row: FrameworkRelease, bounds: dict[str, str]) -> dict[str, str] | None:
    """Add what a package requires of frameworks to what is asked of them; None where no release meets both."""
    narrowed = dict(bounds)
    for framework, pin in required_frameworks(row, bounds).items():
        parts = f"{bounds.get(framework, '')},{pin}".split(",")
        narrowed[framework] = ",".join(dict.fromkeys(filter(None, parts)))
        public = re.sub(r"\+[\w.]+", "", narrowed[framework])
        if not any(within(version, public) for version in _installable_versions(context, framework)):
            return None
    return narrowed


def required_frameworks(row: FrameworkRelease, bounds: Iterable[str] = ()) -> dict[str, str]:
    """Map the frameworks that a release of a package brings, or goes with of those given, to their releases."""
    pins = {name: asked_of(row, name) for name in companion_row(row.distribution).frameworks}
    brought = {name for name in pins if any(item in row.requires for item in identity(name).distributions)}
    return {name: pin for name, pin in pins.items() if pin is not None and (name in brought or name in bounds)}


@once
def _installable_versions(context: Context, framework: str) -> tuple[str, ...]:
    """List the versions of a framework that have a wheel here, newest first."""
    rows = context.matrix.releases(framework)
    versions = context.matrix.versions(framework)
    usable = {row.version for row in rows if not row.yanked and not _filter_installable(context, (row,), ())[0]}
    return tuple(version for version in versions if version in usable)


def _list_brought(
    context: Context, packages: Iterable[WantedRelease], bounds: Mapping[str, str], asked: Iterable[str]
) -> Iterator[WantedRelease]:
    """List the frameworks that come with packages, each with the first package that requires it."""
    seen = set(asked)
    for row in (item.package for item in packages if item.package is not None):
        for name in required_frameworks(row):
            if name not in seen:
                seen.add(name)
                known = identity(name).distributions
                distribution = next((item for item in known if item in row.requires), name)
                brought = _resolve(context, Requirement("", distribution, specifier=bounds[name]), name)
                yield replace(brought, required_by=f"{row.distribution} {row.version}")


def check_requirements(requirements: Iterable[str], matrix: Matrix, *, is_judged: bool = True) -> None:
    """Raise RequestError for the first requirement that cannot be read or, with `is_judged`, cannot be judged."""
    for text in requirements:
        _parse(text, matrix, is_judged=is_judged)


def _parse(text: str, matrix: Matrix, *, is_judged: bool = True) -> tuple[Requirement, str]:
    """Read a requirement; return it with its framework, "" for a package on top of one."""
    requirement = read_requirement(text)
    if requirement.url:
        raise RequestError(f"{text!r} names a URL; name a release instead, such as {requirement.name}==VERSION.")
    name = requirement.name
    removal = matrix.removed_distribution(name)
    framework = matrix.framework_of(name) or (removal.framework if removal else None)
    if framework is None and is_judged and matrix.companion_of(name):
        return requirement, ""  # a package on top of a framework
    if framework is None:
        raise UnknownNameError(_unknown_name(name, matrix))
    if is_judged and framework not in framework_names():  # a user's matrix may hold a framework of its own
        known = ", ".join(framework_names())
        raise RequestError(f"{framework!r} is a framework of this matrix alone; envcheck judges {known}.")
    return requirement, framework


def _unknown_name(name: str, matrix: Matrix) -> str:
    from difflib import get_close_matches

    names = [item for framework in matrix.judged() for item in matrix.distributions(framework)]
    matches = get_close_matches(name, names, n=1, cutoff=0.7)
    hint = f" Did you mean {matches[0]}?" if matches else ""
    return f"{name!r} is no framework that envcheck knows; it knows {', '.join(matrix.judged())}.{hint}"


def _resolve(context: Context, requirement: Requirement, framework: str) -> WantedRelease:
    name, specifier, extras = requirement.name, requirement.specifier, requirement.extras

    def wanted(build: Build | None, obstacle: str = "", near: tuple[FrameworkRelease, ...] = ()) -> WantedRelease:
        removed = context.matrix.removed_distribution(name) if obstacle == REMOVED else None
        resolved = resolve_extras(build.release, extras) if build and build.release and extras else extras
        return WantedRelease(requirement.plain, name, framework, specifier, resolved, build, obstacle, near, removed)

    installed = next((item for item in installed_builds(context) if _satisfies(item, name, requirement)), None)
    if installed is not None:
        return wanted(installed)
    if _is_removed(context, name, requirement):
        return wanted(None, REMOVED)
    local = requirement.label
    rows = _matching_rows(context, framework, name, requirement, local)
    if local and not rows:
        public = replace(requirement, specifier=requirement.specifier.replace(f"+{local}", ""))
        others = _matching_rows(context, framework, name, public)
        return wanted(None, LABEL if others else UNLISTED, others)
    obstacle, installable = _filter_installable(context, rows, extras)
    if obstacle:
        return wanted(None, obstacle, installable)
    return wanted(build_of(rows_by_extra(installable[0], extras)[0]))


def _satisfies(build: Build, name: str, requirement: Requirement) -> bool:
    return build.distribution == name and requirement.admits(build.full_version, prereleases=True)


def _is_removed(context: Context, name: str, requirement: Requirement) -> bool:
    """Tell whether the requirement leads to a withdrawn distribution: pip takes the newest it admits."""
    row = context.matrix.removed_distribution(name)
    if row is None:
        return False
    last_version = row.last_versions.get(context.platform)
    if last_version is None or requirement.admits(_after(last_version), prereleases=True):
        return True
    real = _matching_rows(context, row.framework, name, requirement)
    return not any(Version(release.version) <= Version(last_version) for release in real)


def _after(version: str) -> str:
    """Return the next minor release: 2.11.0 -> 2.12.0."""
    release = Version(version).release
    return ".".join(str(part) for part in (release[0], release[1] + 1, *(0 for _ in release[2:])))


def _matching_rows(
    context: Context, framework: str, name: str, requirement: Requirement, local: str = ""
) -> tuple[FrameworkRelease, ...]:
    """List a distribution's releases within a specifier; yanked ones only if pinned exactly.

    Those of other platforms are listed only where this one has none, or where no wheel can be installed at all.
    """

    def admits(version: str) -> bool:
        return requirement.admits(f"{version}+{local}" if local else version, prereleases=False)

    def list_rows(platform: str | None) -> tuple[FrameworkRelease, ...]:
        rows = (row for row in context.matrix.builds(framework, platform, admits, pin) if row.local == local)
        return tuple(row for row in rows if row.distribution == name and (requirement.pin or not row.yanked))

    public = requirement.pin.partition("+")[0]
    pin = public if re.fullmatch(r"[\d.]+", public) else ""
    return (() if _is_32bit(context) else list_rows(context.platform)) or list_rows(None)


def _filter_installable(
    context: Context, rows: tuple[FrameworkRelease, ...], extras: tuple[str, ...]
) -> tuple[str, tuple[FrameworkRelease, ...]]:
    """Drop what cannot be installed here, check by check; return the obstacle that left nothing and what it dropped."""
    if not rows:
        return UNLISTED, ()
    libc = context.facts.host.libc_kind
    checks: tuple[tuple[str, Callable[[FrameworkRelease], bool]], ...] = (
        (BITS, lambda _: not _is_32bit(context)),
        (PLATFORM, lambda row: row.platform in (context.platform, "any")),
        (PYTHON, lambda row: supports_python(context, row)),
        (LIBC, lambda row: not (libc.value == "musl" and row.platform.startswith("linux"))),
        (GLIBC, lambda row: _has_glibc(context, row)),
        (EXTRA, lambda row: has_extras(row, extras)),
        (EXTRA_PLATFORM, lambda row: has_extra_wheels(context.platform, row, extras)),
    )
    for obstacle, passes in checks:
        remaining = tuple(row for row in rows if passes(row))
        if not remaining:
            return obstacle, rows
        rows = remaining
    return "", rows


def _is_32bit(context: Context) -> bool:
    bits = context.facts.python.bits
    return bits.value == 32


def supports_python(context: Context, row: FrameworkRelease) -> bool:
    """Tell whether a release has a wheel for the inspected Python; an unknown Python counts as supported."""
    version = context.facts.python.version
    if version.value is None:
        return True
    implementation = context.facts.python.implementation
    if implementation.value and implementation.value.lower() != "cpython":
        return False  # every framework wheel is made for CPython
    minor = major_minor(version.value)
    return minor in (row.free_threaded_pythons if is_free_threaded(context) else row.pythons)


def is_free_threaded(context: Context) -> bool:
    """Tell whether the inspected Python is known to be a build without the global interpreter lock."""
    abi = context.facts.python.abi_tag
    return bool(abi.value and abi.value.startswith("cp") and abi.value.endswith("t"))


def _has_glibc(context: Context, row: FrameworkRelease) -> bool:
    floor, libc = wheel_glibc(row), context.facts.host.libc_version
    if not floor or libc.value is None:
        return True
    try:
        return Version(libc.value) >= Version(floor)
    except InvalidVersion:
        return True


@dataclass(frozen=True)
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
        """Return the build that names the framework's version: a stub or plugin only when there is no other."""
        matches = [build for build in self.builds if build.distribution == self.name]
        return (matches or list(self.builds))[0]

    @property
    def cuda_build(self) -> Fact[bool]:
        """Say whether any of its builds is a CUDA build."""
        facts = [build.cuda_build for build in self.builds]
        known_facts = [fact for fact in facts if isinstance(fact, Known)]
        unknown = [fact for fact in facts if isinstance(fact, Unknown)]
        return next((fact for fact in known_facts if fact.value), (unknown + known_facts + facts)[0])


@once
def judged_frameworks(context: Context) -> tuple[JudgedFramework, ...]:
    """List the judged frameworks in the order of their builds."""
    groups: dict[str, list[Build]] = {}
    for build in judged_builds(context):
        groups.setdefault(build.framework, []).append(build)
    extras: dict[str, tuple[str, ...]] = {}
    for wanted in wanted_releases(context):
        extras[wanted.framework] = extras.get(wanted.framework, ()) + wanted.extras
    return tuple(JudgedFramework(name, tuple(builds), extras.get(name, ())) for name, builds in groups.items())


def is_conda_build(context: Context, build: Build) -> bool:
    """Tell whether conda installed a build: the wheels' rows then say little about it."""
    return build.installed and is_from_conda(context, build.distribution)


def has_no_gpu(context: Context) -> bool:
    """Tell whether this machine is known to have no NVIDIA GPU."""
    return isinstance(context.facts.gpus, Absent)


def unfound_libraries(build: Build) -> list[LibraryLookup]:
    """List the needed libraries that the loader does not find."""
    lookups = build.libraries.value or ()
    return [item for item in lookups if item.mandatory and isinstance(item.found, Absent)]


def built_with(build: Build) -> str | None:
    """Return the cuDNN that a build was made with; its files often name only the major, its matrix row the minor."""
    cudnn, row = build.cudnn.value, build.row.cudnn if build.row else None
    if row and (cudnn is None or (len(numbers(cudnn)) == 1 and numbers(row)[:1] == numbers(cudnn))):
        return row
    return cudnn


def cuda_builds(context: Context) -> Iterator[Build]:
    """Yield the judged builds that are meant to use CUDA."""
    for build in judged_builds(context):
        if build.cuda_build.value is True:
            yield build


def brings_cuda(build: Build) -> bool:
    """Tell whether a build's CUDA libraries come with it or as wheels, so that it needs no toolkit."""
    # A plugin names its libraries in an extra of the framework's other half.
    if build.traits.brings_cuda or build.traits.is_plugin(build.distribution):
        return True
    release = build.release
    return release is not None and bool(release.gpu_extra or release.cuda_wheels or release.finds_cuda_wheels)
