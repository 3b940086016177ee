"""Ask the matrix; rows are decoded and built only when asked for, and a version it lacks is None, never a neighbour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envcheck.matrix.cuda_tables import CudaTables
from envcheck.matrix.rows import Raw, build_row
from envcheck.model.releases import FrameworkRelease, KnownProblem, RemovedDistribution


class Matrix(CudaTables):
    """A loaded matrix document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Wrap a decoded document of schema envcheck/matrix/1."""
        super().__init__(document)
        self._built: dict[int, FrameworkRelease] = {}  # by the identity of the raw row, which the document holds

    @property
    def checked(self) -> str:
        """Return the day the newest row was checked: 2026-11-21."""
        return str(self._document["checked"])

    # -- frameworks --

    def frameworks(self) -> tuple[str, ...]:
        """List the frameworks by their import names."""
        return tuple(self._document["frameworks"])

    def distributions(self, framework: str) -> tuple[str, ...]:
        """List the distributions a framework comes in, the usual one first."""
        known = self._document["frameworks"].get(framework)
        return tuple(item["name"] for item in known["distributions"]) if known else ()

    def framework_of(self, distribution: str) -> str | None:
        """Return the framework a distribution (normalised name) belongs to."""
        return next((name for name in self.frameworks() if distribution in self.distributions(name)), None)

    def module_of(self, distribution: str) -> str | None:
        """Return the top-level module a framework distribution owns."""
        for known in self._document["frameworks"].values():
            for item in known["distributions"]:
                if item["name"] == distribution:
                    return str(item["module"])
        return None

    def release(
        self, framework: str, version: str, platform: str, distribution: str | None = None
    ) -> FrameworkRelease | None:
        """Return one release's row; without `distribution`, of the first one that has this release here."""
        versions = self._document["releases"].get(framework, {})
        exact = _spelling(version, versions)
        if exact is None:
            return None
        for name in (distribution,) if distribution else self.distributions(framework):
            for raw in versions[exact]:
                if raw["distribution"] == name and raw["platform"] in (platform, "any"):
                    return self._framework_release(framework, exact, raw)
        return None

    def versions(self, framework: str) -> tuple[str, ...]:
        """List the versions of a framework's releases, newest first."""
        return tuple(reversed([*self._document["releases"].get(framework, {})]))

    def releases(
        self, framework: str, platform: str | None = None, admits: Callable[[str], bool] | None = None
    ) -> tuple[FrameworkRelease, ...]:
        """List a framework's releases, newest first, of every distribution; `admits` is asked about each version."""
        held = self._document["releases"].get(framework, {})
        return tuple(
            self._framework_release(framework, version, raw)
            for version in self.versions(framework)
            if admits is None or admits(version)
            for raw in held[version]
            if platform is None or raw["platform"] in (platform, "any")
        )

    def cudas(self, framework: str, version: str, platform: str) -> tuple[str, ...]:
        """List the CUDA lines of a release's builds for a platform, by its exact version, without making their rows."""
        rows = self._document["releases"].get(framework, {}).get(version, ())
        return tuple(raw["cuda"] for raw in rows if raw["platform"] in (platform, "any") and raw.get("cuda"))

    def companion_of(self, distribution: str) -> str | None:
        """Return the companion a distribution belongs to: tf-keras to keras; its releases are asked for like others."""
        known = self._document["companions"].items()
        found = (name for name, body in known if any(item["name"] == distribution for item in body["distributions"]))
        return next(found, None)

    def companions_of(self, tensorflow: str, platform: str) -> tuple[FrameworkRelease, ...]:
        """List the companions' releases that go with a TensorFlow release on a platform, newest first."""
        rows = (row for name in self._document["companions"] for row in self.releases(name, platform))
        return tuple(row for row in rows if row.tensorflow and _matches(row.tensorflow, tensorflow))

    def _framework_release(self, framework: str, version: str, raw: Raw) -> FrameworkRelease:
        if id(raw) not in self._built:
            self._built[id(raw)] = build_row(
                FrameworkRelease, raw, self._citations, framework=framework, version=version
            )
        return self._built[id(raw)]

    def removed_distribution(self, name: str) -> RemovedDistribution | None:
        """Return why a distribution name no longer brings its framework; None for a living one."""
        raw = self._document["removed"].get(name)
        return build_row(RemovedDistribution, raw, self._citations, name=name) if raw else None

    def problems(self, distribution: str, version: str, stage: str = "run") -> tuple[KnownProblem, ...]:
        """List the known problems of a release; platform, Python and conditions are the caller's to check.

        `stage`: "run" for installed releases, "install" for what does not resolve, "advice" for the rest.
        """
        return tuple(
            build_row(KnownProblem, _without(raw, "distributions"), self._citations, distribution=distribution)
            for raw in self._document["problems"]
            if distribution in raw["distributions"]
            and raw.get("stage", "run") == stage
            and _matches(raw["specifier"], version)
        )


def _spelling(version: str, known: Mapping[str, Any]) -> str | None:
    """Find how the matrix spells a version, trailing zeros aside: 2.15 -> 2.15.0."""
    for candidate in _spellings(version):
        if candidate in known:
            return candidate
    return None


def _spellings(version: str) -> Iterator[str]:
    yield version
    if version.count(".") == 1:
        yield version + ".0"
    elif version.endswith(".0"):
        yield version[: -len(".0")]


def _without(raw: Raw, name: str) -> Raw:
    return {key: value for key, value in raw.items() if key != name}


def _matches(specifier: str, version: str) -> bool:
    """Tell whether a version lies in a specifier set; a malformed version lies in none."""
    from packaging.version import InvalidVersion

    from envcheck.matrix.clauses import within

    try:
        return within(version, specifier)
    except InvalidVersion:
        return False
