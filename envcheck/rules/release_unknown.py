"""Rule about releases that the matrix does not hold."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from envcheck.model import ERROR, NOTE, UNDETERMINED, Evidence, Finding, Known, Problem
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.dependencies import requirements_of
from envcheck.rules.registry import rule
from envcheck.rules.targets import UNLISTED, judged_builds, wanted_releases

_ID = "release-unknown"


@rule(_ID, goal="any")
def release_unknown(context: Context) -> Iterator[Finding]:
    """Find releases that the matrix does not hold, which cannot be judged, or by their own files only."""
    for wanted in wanted_releases(context):
        if wanted.obstacle == UNLISTED:
            yield _unknown_release(context, wanted.text, wanted.framework, "python.version")
    for build in judged_builds(context):
        if build.release is None and build.version:
            owner = _brought_by(context, build)
            if is_variant(context, build):
                yield _variant(context, build)
            elif owner:
                yield _brought(context, build, owner)
            else:
                yield _unknown_release(context, build.label, build.framework, "python.frameworks")


def is_variant(context: Context, build: Build) -> bool:
    """Tell whether a build that was read is a nightly, a vendor's or a self-made one of a release the matrix holds.

    Its own files tell its CUDA and where its libraries are; one ahead of the matrix may need what nobody knows yet.
    """
    try:
        version = Version(build.version)
    except InvalidVersion:
        return False
    rows = context.matrix.releases(build.framework)
    made_elsewhere = (
        version.is_prerelease or bool(build.local) or all(row.distribution != build.distribution for row in rows)
    )
    base = Version(".".join(map(str, version.release[:3])))
    return (
        build.installed
        and isinstance(build.cuda_build, Known)
        and made_elsewhere
        and any(Version(row.version) == base for row in rows)
    )


def _variant(context: Context, build: Build) -> Finding:
    return Finding(
        _ID,
        UNDETERMINED,
        NOTE,
        f"{build.label} is not a release the matrix knows but a nightly, a vendor's build or one made from source: it "
        f"was judged by its own files alone.",
        (context.seen("python.frameworks", shown=build.label),),
    )


def _brought_by(context: Context, build: Build) -> str:
    """Name the framework of the matrix that requires a build, as TensorFlow 2.12 does JAX; "" where somebody asked.

    What its release needs was known to those who made that one: its pins hold, or another finding says so.
    """
    if not build.installed or any(wanted.framework == build.framework for wanted in wanted_releases(context)):
        return ""
    others = (item for item in judged_builds(context) if item.release is not None and item.framework != build.framework)
    return next((other.label for other in others if _requires(context, other, build.distribution)), "")


def _requires(context: Context, build: Build, name: str) -> bool:
    owner = context.distributions.get(build.distribution)
    return owner is not None and any(name == needed for needed, *_ in requirements_of(context, owner))


def _brought(context: Context, build: Build, owner: str) -> Finding:
    return Finding(
        _ID,
        UNDETERMINED,
        NOTE,
        f"{build.label}, which {owner} requires, is not in the compatibility matrix for {context.platform}: it was not "
        f"judged by itself.",
        (context.seen("python.frameworks", shown=build.label),),
    )


def _unknown_release(context: Context, label: str, framework: str, fact: str) -> Finding:
    newest = next(iter(context.matrix.releases(framework, context.platform)), None)
    known = f" The newest {framework} release it holds for {context.platform} is {newest.version}." if newest else ""
    seen = context.seen(fact, shown=label)
    cited = (Evidence(f"releases {framework}", newest.version, citation=newest.citations[0]),) if newest else ()
    return Finding(
        "release-unknown",
        UNDETERMINED,
        ERROR,
        f"The compatibility matrix does not hold {label} for {context.platform}, so it cannot be judged.{known}",
        (seen, *cited),
        problem=Problem(
            framework=framework, advice="Refresh the matrix from the published wheels, or ask about a release it holds."
        ),
    )
