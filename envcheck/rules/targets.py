"""What --for asks about: which release a requirement means on this machine, or what keeps it from being one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from packaging.version import InvalidVersion, Version

from envcheck.matrix.package_index import is_index_label
from envcheck.matrix.query import Matrix
from envcheck.model import Fact, Known, dataclass, major_minor
from envcheck.model.releases import FrameworkRelease, RemovedDistribution
from envcheck.rules.builds import Build, build_of, installed_builds
from envcheck.rules.context import Context
from envcheck.rules.cuda_plugins import plugin_of
from envcheck.rules.requirements import Requirement, canonical_name, marker_holds, read_requirement
from envcheck.rules.wheel_tags import wheel_glibc

# What keeps a requirement from meaning a release here, in the order it is looked for.
REMOVED = "removed"  # the distribution was withdrawn
UNLISTED = "unlisted"  # no release in the matrix satisfies the specifier
BITS = "bits"  # 32-bit interpreter
PLATFORM = "platform"
PYTHON = "python"
LIBC = "libc"  # musl
GLIBC = "glibc"


class TargetError(ValueError):
    """A requirement that cannot be judged: malformed, with a URL, or of no framework in the matrix."""


@dataclass(frozen=True)
class Wanted:
    """One requirement with the release it means; `obstacle` says why there is none."""

    text: str  # canonical: "tensorflow[and-cuda]==2.15.*"
    distribution: str
    framework: str
    specifier: str
    extras: tuple[str, ...]
    build: Build | None
    obstacle: str = ""
    near: tuple[FrameworkRelease, ...] = ()  # releases that pass all looks but the one that failed, newest first
    removed: RemovedDistribution | None = None


def target_builds(context: Context) -> tuple[Build, ...]:
    """List the builds that the requirements asked with --for mean on this machine."""
    found: list[Build] = []
    for wanted in wanted_releases(context):
        if wanted.build is not None:
            found += [wanted.build, *_plugins(context, wanted)]
    return tuple(found)


def _plugins(context: Context, wanted: Wanted) -> tuple[Build, ...]:
    """List the distributions of the framework that an extra brings: jax[cuda12] comes with jax-cuda12-plugin."""
    row = wanted.build.release if wanted.build and not wanted.build.installed else None
    if row is None or row.gpu_extra is None or row.cuda_build:
        return ()
    asked = next((extra for extra in wanted.extras if extra in row.extras), None)
    extra = asked or (row.gpu_extra if context.goal == "gpu" else None)
    found = plugin_of(context, row, extra) if extra else None
    return (build_of(found),) if found is not None else ()


def judged_builds(context: Context) -> tuple[Build, ...]:
    """List every build to judge: the installed ones, then those asked with --for that are not installed.

    An installed build gives way to what --for asks of the same framework: that will replace it.
    """
    if "judged_builds" not in context.memo:
        targets = tuple(build for build in target_builds(context) if not build.installed)
        asked = {
            wanted.framework for wanted in wanted_releases(context) if not (wanted.build and wanted.build.installed)
        }
        kept = tuple(build for build in installed_builds(context) if build.framework not in asked)
        context.memo["judged_builds"] = kept + targets
    return tuple(context.memo["judged_builds"])


def wanted_releases(context: Context) -> tuple[Wanted, ...]:
    """Resolve every requirement asked with --for; raises TargetError."""
    if "wanted_releases" not in context.memo:
        asked = (_parse(text, context.matrix) for text in context.target.requirements)
        context.memo["wanted_releases"] = tuple(
            _resolve(context, requirement, framework)
            for requirement, framework in asked
            if not requirement.marker or marker_holds(context, requirement.marker)
        )
    return tuple(context.memo["wanted_releases"])


def check_requirements(requirements: Iterable[str], matrix: Matrix) -> None:
    """Raise TargetError for the first requirement that cannot be judged."""
    for text in requirements:
        _parse(text, matrix)


def _parse(text: str, matrix: Matrix) -> tuple[Requirement, str]:
    """Read a PEP 508 requirement; return it with its framework."""
    try:
        requirement = read_requirement(text)
    except ValueError as error:
        raise TargetError(_unreadable(text, str(error).splitlines()[0])) from error
    if requirement.url:
        raise TargetError(f"{text!r} names a URL; name a release instead, such as {requirement.name}==VERSION.")
    name = canonical_name(requirement.name)
    removed = matrix.removed_distribution(name)
    framework = matrix.framework_of(name) or (removed.framework if removed else None)
    if framework is None:
        raise TargetError(_unknown_name(requirement.name, matrix))
    return requirement, framework


def _unreadable(text: str, reason: str) -> str:
    """Say why a text is no requirement; a single = is how conda and shells write it."""
    name, _, version = text.partition("=")
    if name and version and not set(text) & set("<>!~") and not version.startswith("="):
        return f"{text!r} is not a requirement. Did you mean {name.strip()}=={version.strip()}?"
    return f"{text!r} is not a requirement such as tensorflow==2.15.* ({reason})."


def _unknown_name(name: str, matrix: Matrix) -> str:
    from difflib import get_close_matches

    known = [item for framework in matrix.frameworks() for item in matrix.distributions(framework)]
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"{name!r} is no framework that envcheck knows; it knows {', '.join(matrix.frameworks())}.{hint}"


def _resolve(context: Context, requirement: Requirement, framework: str) -> Wanted:
    name, extras, specifier = canonical_name(requirement.name), requirement.extras, requirement.specifier
    shown = name + (f"[{','.join(extras)}]" if extras else "") + specifier

    def wanted(build: Build | None, obstacle: str = "", near: tuple[FrameworkRelease, ...] = ()) -> Wanted:
        removed = context.matrix.removed_distribution(name) if obstacle == REMOVED else None
        return Wanted(shown, name, framework, specifier, extras, build, obstacle, near, removed)

    installed = next((item for item in installed_builds(context) if _satisfies(item, name, requirement)), None)
    if installed is not None:
        return wanted(installed)
    if _is_removed(context, name, requirement):
        return wanted(None, REMOVED)
    local = _local_label(requirement)
    has_row = is_index_label(framework, local)
    rows = _admitted(context, framework, name, requirement, local if has_row else "")
    obstacle, left = _sieve(context, rows)
    return wanted(None, obstacle, left) if obstacle else wanted(build_of(left[0], "" if has_row else local))


def _local_label(requirement: Requirement) -> str:
    """Return the label of a pinned build: torch==2.7.1+cu118 -> cu118; "" when none is pinned."""
    return next((part.version.partition("+")[2] for part in requirement.clauses if part.operator == "=="), "")


def _satisfies(build: Build, name: str, requirement: Requirement) -> bool:
    return build.distribution == name and requirement.admits(build.version, prereleases=True)


def _is_removed(context: Context, name: str, requirement: Requirement) -> bool:
    """Tell whether the requirement leads to a withdrawn distribution: pip takes the newest it admits."""
    row = context.matrix.removed_distribution(name)
    if row is None:
        return False
    last = row.last_versions.get(context.platform)
    if last is None or requirement.admits(_after(last), prereleases=True):
        return True
    real = _admitted(context, row.framework, name, requirement)
    return not any(Version(release.version) <= Version(last) for release in real)


def _after(version: str) -> str:
    """Return the next minor release: 2.11.0 -> 2.12.0."""
    release = Version(version).release
    return ".".join(str(part) for part in (release[0], release[1] + 1, *(0 for _ in release[2:])))


def _admitted(
    context: Context, framework: str, name: str, requirement: Requirement, local: str = ""
) -> tuple[FrameworkRelease, ...]:
    """List the releases of a distribution that the specifier admits, on every platform; yanked ones when pinned."""
    pinned = any(part.operator in ("==", "===") and not part.version.endswith(".*") for part in requirement.clauses)
    label = local or _local_label(requirement)

    def admits(version: str) -> bool:
        return requirement.admits(f"{version}+{label}" if label else version, prereleases=False)

    rows = (row for row in context.matrix.builds(framework, admits=admits) if row.local == local)
    return tuple(row for row in rows if row.distribution == name and (pinned or not row.yanked))


def _sieve(context: Context, rows: tuple[FrameworkRelease, ...]) -> tuple[str, tuple[FrameworkRelease, ...]]:
    """Drop what cannot be installed here, look by look; return the obstacle that left nothing, and what it dropped."""
    if not rows:
        return UNLISTED, ()
    python, libc = context.facts.python, context.facts.host.libc_kind
    looks: tuple[tuple[str, Callable[[FrameworkRelease], bool]], ...] = (
        (BITS, lambda _: not (isinstance(python.bits, Known) and python.bits.value == 32)),
        (PLATFORM, lambda row: row.platform in (context.platform, "any")),
        (PYTHON, lambda row: supports_python(context, row)),
        (LIBC, lambda row: not (_is(libc, "musl") and row.platform.startswith("linux"))),
        (GLIBC, lambda row: _has_glibc(context, row)),
    )
    for obstacle, passes in looks:
        left = tuple(row for row in rows if passes(row))
        if not left:
            return obstacle, rows
        rows = left
    return "", rows


def _is(fact: Fact[str], value: str) -> bool:
    return isinstance(fact, Known) and fact.value == value


def supports_python(context: Context, row: FrameworkRelease) -> bool:
    """Tell whether a release has a wheel for the inspected Python; an unknown Python is not held against it."""
    version = context.facts.python.version
    if not isinstance(version, Known):
        return True
    implementation = context.facts.python.implementation
    if isinstance(implementation, Known) and implementation.value.lower() != "cpython":
        return False  # every framework wheel is made for CPython
    minor = major_minor(version.value)
    return minor in (row.free_threaded_pythons if is_free_threaded(context) else row.pythons)


def is_free_threaded(context: Context) -> bool:
    """Tell whether the inspected Python is known to be a build without the global interpreter lock."""
    abi = context.facts.python.abi_tag
    return isinstance(abi, Known) and abi.value.startswith("cp") and abi.value.endswith("t")


def _has_glibc(context: Context, row: FrameworkRelease) -> bool:
    floor, found = wheel_glibc(row), context.facts.host.libc_version
    if not floor or not isinstance(found, Known):
        return True
    try:
        return Version(found.value) >= Version(floor)
    except InvalidVersion:
        return True
