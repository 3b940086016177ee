"""What is judged: the releases that --for asks for, and the builds that are installed.

A requirement means the release that pip would take, or there is a reason why there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import Framework as FrameworkTraits
from envcheck.frameworks import framework as known_framework
from envcheck.frameworks import framework_names, identity
from envcheck.matrix.companions import asked_of, companion_row
from envcheck.matrix.query import Matrix
from envcheck.model import (
    Fact,
    FrameworkRelease,
    RequestError,
    Unknown,
    dataclass,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.versions import Requirement, public_version, read_requirement, within
from envcheck.rules.builds import (
    Build,
    build_of,
    installed_builds,
    plugin_of,
    rows_by_extra,
    supports_python,
)
from envcheck.rules.context import Context, once
from envcheck.rules.requirements import (
    has_extra_wheels,
    has_extras,
    is_met,
    marker_holds,
    resolve_extras,
    wheel_glibc,
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


def is_for_gpu_alone(matrix: Matrix, name: str, specifier: str = "") -> bool:
    """Return whether a package on top, in the releases that are admitted, computes on no CPU.

    Its wheels hold CUDA code, and none is for a system without CUDA.
    """
    rows = matrix.companion_releases(name, None, specifier) or matrix.companion_releases(name)
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
