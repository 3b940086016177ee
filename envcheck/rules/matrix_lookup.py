"""The rows of the matrix that a requirement names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envcheck.matrix.query import Matrix
from envcheck.model.findings import COMPATIBLE
from envcheck.model.releases import FrameworkRelease, KnownProblem, RemovedDistribution
from envcheck.rules.matrix_question import Answer
from envcheck.rules.pytorch_index import variants_of
from envcheck.rules.targets import check_requirements

if TYPE_CHECKING:
    from packaging.version import Version


def look_up(matrix: Matrix, text: str) -> tuple[Answer, ...]:
    """List the rows a requirement admits, newest first, each with its known problems; raises TargetError.

    A build of PyTorch's own index, torch==2.6.0+cu118, is found with the release it is a build of.
    """
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    check_requirements((text,), matrix)
    public, _, local = str(Requirement(text).specifier).partition("+")
    specifier = SpecifierSet(public if _is_index_build(local) else str(Requirement(text).specifier))
    admitted = (
        row
        for row in _held(matrix, text)
        if specifier.contains(row.version, prereleases=True) and (not local or _has_variant(row, local))
    )
    return tuple(
        Answer(
            row,
            COMPATIBLE,
            problems=_problems(matrix, row),
            variants=variants_of(row),
            companions=_companions(matrix, row),
        )
        for row in admitted
    )


def _is_index_build(local: str) -> bool:
    return re.fullmatch(r"cu\d{2,3}", local) is not None


def _has_variant(row: FrameworkRelease, local: str) -> bool:
    return any(variant.index_url.endswith(f"/{local}") for variant in variants_of(row))


def _companions(matrix: Matrix, row: FrameworkRelease) -> tuple[str, ...]:
    """Name the newest release of each distribution that goes with a TensorFlow: Keras, tf-keras, tensorflow-metal."""
    if row.framework != "tensorflow":
        return ()
    newest: dict[str, str] = {}
    for found in matrix.companions_of(row.version, row.platform):
        if not found.yanked:
            newest.setdefault(found.distribution, found.version)
    return tuple(f"{name}=={version}" for name, version in newest.items())


def removed(matrix: Matrix, text: str) -> RemovedDistribution | None:
    """Return why the distribution of a requirement brings nothing any more; None where it still does."""
    return matrix.removed_distribution(_name(text))


def required_by(matrix: Matrix, text: str) -> str:
    """Name who asks for a distribution without rows of its own, as jax-cuda12-plugin for its pjrt; "" for nobody."""
    name = _name(text)
    framework = matrix.framework_of(name)
    rows = matrix.releases(framework) if framework and not any(_held(matrix, text)) else ()
    return next((row.distribution for row in rows if name in row.requires), "")


def nearest(matrix: Matrix, text: str) -> tuple[str, tuple[str, ...], str]:
    """Return the distribution a requirement names, the releases held around the one it pins, and the newest held."""
    from packaging.version import Version

    versions = list(dict.fromkeys(row.version for row in _held(matrix, text)))
    asked = _pinned(text)
    newest = versions[0] if versions else ""
    if asked is None or not versions or asked > Version(newest):
        return _name(text), (), newest
    below = [version for version in versions if Version(version) < asked][:1]
    above = [version for version in versions if Version(version) > asked][-1:]
    return _name(text), (*below, *above), newest


def _pinned(text: str) -> Version | None:
    """Return the release that a requirement such as torch==2.6.9 pins."""
    from packaging.requirements import Requirement
    from packaging.version import InvalidVersion, Version

    pins = [item.version for item in Requirement(text).specifier if item.operator in {"==", "~=", "==="}]
    try:
        return Version(pins[0].removesuffix(".*")) if len(pins) == 1 else None
    except InvalidVersion:
        return None


def _held(matrix: Matrix, text: str) -> Iterator[FrameworkRelease]:
    name = _name(text)
    framework = matrix.framework_of(name)
    rows = matrix.releases(framework) if framework else ()
    return (row for row in rows if row.distribution == name)


def _name(text: str) -> str:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return canonicalize_name(Requirement(text).name)


def _problems(matrix: Matrix, row: FrameworkRelease) -> tuple[KnownProblem, ...]:
    stages = ("install", "run", "advice")
    found = (item for stage in stages for item in matrix.problems(row.distribution, row.version, stage))
    return tuple(item for item in found if not item.platforms or row.platform in (*item.platforms, "any"))
