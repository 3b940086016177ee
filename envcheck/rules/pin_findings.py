"""Findings about broken Requires-Dist pins."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from envcheck.model.facts import Unknown
from envcheck.model.findings import ERROR, INCOMPATIBLE, WARNING, Evidence, Finding, Fix
from envcheck.model.machine import Distribution
from envcheck.rules.context import Context
from envcheck.rules.fixes_python import install_steps
from envcheck.rules.framework_state import judged_frameworks, unfound_libraries
from envcheck.rules.known_problems import constraints_on
from envcheck.rules.pins import OTHER, Violation, violations

# Without these a framework cannot even be imported.
_IMPORTED = frozenset(("jaxlib", "ml-dtypes", "numpy", "protobuf", "scipy", "typing-extensions"))
# Keras and TensorFlow are released in pairs of minors.
_PAIRED_MINORS = ("keras", "tf-keras", "tensorflow-estimator")


def pin_findings(context: Context, finding_id: str, told: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Yield the broken pins of one finding id, but those on names that were `told` before."""
    missing: dict[str, list[Violation]] = {}
    for item in violations(context):
        if item.about != finding_id or item.name in told:
            continue
        if item.found is None:
            missing.setdefault(item.owner.name, []).append(item)
        else:
            yield _finding(context, item, item.found)
    for items in missing.values():
        yield _missing(context, items)


def breaks_framework(context: Context) -> bool:
    """Tell whether a framework that is installed stands on a package that it cannot work with."""
    abouts = ("numpy-abi", "protobuf-conflict", "keras-mismatch", OTHER)
    return any(item.severity == ERROR for about in abouts for item in pin_findings(context, about))


def _finding(context: Context, item: Violation, found: Distribution) -> Finding:
    owner = f"{item.owner.name} {item.owner.version}"
    needed = f"{item.name}{item.specifier}"
    return Finding(
        item.about,
        INCOMPATIBLE,
        _severity(context, item, found),
        f"{owner} requires {needed}, but {item.name} {found.version} is installed.",
        (context.seen("python.distributions", shown=f"{owner}: Requires-Dist {needed}"), *_cited(context, item)),
        _fix(context, item, found),
    )


def _missing(context: Context, items: list[Violation]) -> Finding:
    """Say once what all a distribution lacks; installing it again brings it."""
    owner = items[0].owner
    names = [item.name for item in items]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    grave = context.matrix.framework_of(owner.name) is not None and not _IMPORTED.isdisjoint(names)
    version = owner.version.partition("+")[0]
    public, kept = f"{owner.name}=={version}", constraints_on(context, owner.name, version, names)
    beside = f", with {' and '.join(kept)}" if kept else ""
    return Finding(
        OTHER,
        INCOMPATIBLE,
        ERROR if grave else WARNING,
        f"{owner.name} {owner.version} requires {shown}, which {'is' if len(names) == 1 else 'are'} not installed.",
        (
            context.seen("python.distributions", shown=f"{owner.name} {owner.version}: Requires-Dist {shown}"),
            *_cited(context, items[0]),
        ),
        Fix(f"Install {public} again{beside}: pip then brings what is missing.", install_steps(context, public, *kept)),
    )


def _cited(context: Context, item: Violation) -> tuple[Evidence, ...]:
    framework = context.matrix.framework_of(item.owner.name)
    version, name = item.owner.version, item.owner.name
    row = context.matrix.release(framework, version, context.platform, name) if framework else None
    if row is None or item.name not in row.requires:
        return ()
    return (Evidence(f"{name} {version}", f"{item.name} {row.requires[item.name]}", citation=row.citations[0]),)


def _fix(context: Context, item: Violation, found: Distribution) -> Fix:
    if _within_framework(context, item):
        whole = f"{item.owner.name}{_extra(context, item)}=={item.owner.version.partition('+')[0]}"
        return Fix(f"Install {whole} again: pip then brings the parts that fit.", install_steps(context, whole))
    if context.matrix.framework_of(item.name):  # the framework stays, its dependant moves
        kept = f"{item.name}=={found.version.partition('+')[0]}"
        steps = install_steps(context, kept, item.owner.name)
        return Fix(f"Install the release of {item.owner.name} made for it.", steps)
    specifier = item.specifier.replace(" ", "")
    return Fix(f"Install {item.name}{specifier}.", install_steps(context, f"{item.name}{specifier}"))


def _severity(context: Context, item: Violation, found: Distribution) -> str:
    """Call a framework's own pin an error when what is installed is of another major."""
    if context.matrix.framework_of(item.owner.name) is None:
        return WARNING
    if _within_framework(context, item):  # jax refuses another jaxlib, and ignores another plugin
        return WARNING if item.by_extra and context.goal == "cpu" else ERROR
    if item.by_extra and _finds_libraries(context, item.owner):
        return WARNING
    return ERROR if _is_far(found.version, item.specifier, 2 if item.name in _PAIRED_MINORS else 1) else WARNING


def _within_framework(context: Context, item: Violation) -> bool:
    framework = context.matrix.framework_of(item.owner.name)
    return framework is not None and framework == context.matrix.framework_of(item.name)


def _extra(context: Context, item: Violation) -> str:
    framework = context.matrix.framework_of(item.owner.name) or ""
    row = context.matrix.release(framework, item.owner.version, context.platform, item.owner.name)
    return f"[{row.gpu_extra}]" if item.by_extra and row is not None else ""


def _finds_libraries(context: Context, owner: Distribution) -> bool:
    """Tell whether the builds of a distribution were seen to find all they load."""
    builds = (build for framework in judged_frameworks(context) for build in framework.builds)
    own = [build for build in builds if build.distribution == owner.name]
    return not any(isinstance(build.libraries, Unknown) or unfound_libraries(build) for build in own)


def _is_far(version: str, specifier: str, parts: int) -> bool:
    """Tell whether no version with the same first `parts` numbers can meet the clauses that are not met."""
    from packaging.specifiers import SpecifierSet

    line = Version(version).release[:parts]
    first = Version(".".join(map(str, line)))
    for clause in SpecifierSet(specifier):
        if clause.contains(Version(version), prereleases=True):
            continue
        bound = Version(clause.version.removesuffix(".*"))
        same = bound.release[:parts] == line
        if (clause.operator in ("<", "<=") and bound <= first) or (
            clause.operator not in ("<", "<=", "!=") and not same
        ):
            return True
    return False
