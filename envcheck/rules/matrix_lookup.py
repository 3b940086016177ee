"""The rows of the matrix that a requirement names."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.matrix.query import Matrix
from envcheck.model.findings import COMPATIBLE
from envcheck.model.releases import FrameworkRelease, KnownProblem, RemovedDistribution
from envcheck.rules.matrix_question import Answer
from envcheck.rules.targets import check_requirements


def look_up(matrix: Matrix, text: str) -> tuple[Answer, ...]:
    """List the rows a requirement admits, newest first, each with its known problems; raises TargetError."""
    from packaging.requirements import Requirement

    check_requirements((text,), matrix)
    specifier = Requirement(text).specifier
    admitted = (row for row in _held(matrix, text) if specifier.contains(row.version, prereleases=True))
    return tuple(Answer(row, COMPATIBLE, problems=_problems(matrix, row)) for row in admitted)


def removed(matrix: Matrix, text: str) -> RemovedDistribution | None:
    """Return why the distribution of a requirement brings nothing any more; None where it still does."""
    return matrix.removed_distribution(_name(text))


def newest(matrix: Matrix, text: str) -> FrameworkRelease | None:
    """Return the newest release the matrix holds of a requirement's distribution."""
    return next(_held(matrix, text), None)


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
