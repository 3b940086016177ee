"""Ask the matrix for releases, toolkits, drivers, architectures, cuDNN, TensorRT and conda builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envcheck.matrix.rows import Raw, build_row, join_builds
from envcheck.model.releases import (
    Architecture,
    CondaBuild,
    CudnnRelease,
    DriverBranch,
    FrameworkRelease,
    KnownProblem,
    RemovedDistribution,
    TensorrtRelease,
    Toolkit,
)


class CudaTables:
    """The tables of a matrix document beside its releases."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Wrap a decoded document of schema envcheck/matrix/1."""
        self._document = document
        self._citations: Raw = document["citations"]
        self._lines_of_toolkit: tuple[Toolkit, ...] | None = None

    def toolkit(self, version: str) -> Toolkit | None:
        """Return the CUDA Toolkit line of a version such as 12.6 or 12.6.77."""
        return self._toolkit(_line(version))

    def toolkits(self) -> tuple[Toolkit, ...]:
        """List the CUDA Toolkit lines, newest first."""
        if self._lines_of_toolkit is None:
            rows = map(self._toolkit, reversed([*self._document["toolkits"]]))
            self._lines_of_toolkit = tuple(row for row in rows if row)
        return self._lines_of_toolkit

    def newest_toolkit(self) -> Toolkit | None:
        """Return the newest CUDA Toolkit line; None when the matrix has none."""
        return next(iter(self.toolkits()), None)

    def _toolkit(self, line: str) -> Toolkit | None:
        raw = self._document["toolkits"].get(line)
        return build_row(Toolkit, raw, self._citations, version=line) if raw else None

    def cuda_sonames(self, cuda_version: str) -> Mapping[str, str]:
        """Map each CUDA library to its soname in that toolkit: cudart to libcudart.so.12; empty when unknown."""
        found = self.toolkit(cuda_version)
        return found.sonames if found else {}

    def toolkits_with(self, library: str, soname: str) -> tuple[str, ...]:
        """List the toolkit lines, newest first, whose `library`, such as cublas, has this soname."""
        rows = self._document["toolkits"]
        return tuple(line for line in reversed([*rows]) if rows[line]["sonames"].get(library) == soname)

    def driver_branch(self, release: str) -> DriverBranch | None:
        """Return the branch of a Linux driver release such as 550.163.01, or of 550."""
        branch = release.split(".", maxsplit=1)[0]
        raw = self._document["drivers"].get(branch)
        return build_row(DriverBranch, raw, self._citations, branch=branch) if raw else None

    def driver_branches(self) -> tuple[DriverBranch, ...]:
        """List the driver branches, newest first."""
        found = map(self.driver_branch, reversed([*self._document["drivers"]]))
        return tuple(row for row in found if row)

    def architecture(self, compute_capability: str) -> Architecture | None:
        """Return the GPU architecture of a compute capability such as 8.9."""
        raw = self._document["architectures"].get(compute_capability)
        known = {"compute_capability": compute_capability}
        return build_row(Architecture, raw, self._citations, **known) if raw else None

    def architectures(self) -> tuple[Architecture, ...]:
        """List the GPU architectures, oldest first."""
        return tuple(row for row in map(self.architecture, self._document["architectures"]) if row)

    # -- cuDNN --

    def cudnn(self, version: str, cuda_major: str | None = None) -> CudnnRelease | None:
        """Return the cuDNN line of a version such as 9.1.0.70, built for one CUDA major if that is given.

        Without `cuda_major` the row joins all builds: every CUDA version, the lowest floors.
        """
        line = _line(version)
        rows = [
            build_row(CudnnRelease, raw, self._citations, version=line)
            for raw in self._document["cudnn"].get(line, ())
            if cuda_major is None or raw["cuda_major"] == cuda_major
        ]
        return join_builds(rows) if rows else None

    def cudnn_builds(self, version: str = "") -> tuple[CudnnRelease, ...]:
        """List the builds of a cuDNN line, a row per CUDA major, or those of all lines, oldest first."""
        return tuple(
            build_row(CudnnRelease, raw, self._citations, version=line)
            for line, raws in self._lines("cudnn", version)
            for raw in raws
        )

    def cudnn_soname(self, version: str) -> str | None:
        """Return the soname of a cuDNN version: libcudnn.so.9."""
        found = self.cudnn(version)
        return found.soname if found else None

    # -- TensorRT --

    def tensorrt(self, version: str = "") -> tuple[TensorrtRelease, ...]:
        """List the builds of the TensorRT line of a version such as 8.6.1, a row per CUDA major, or of all lines."""
        return tuple(
            build_row(TensorrtRelease, raw, self._citations, version=line)
            for line, raws in self._lines("tensorrt", version)
            for raw in raws
        )

    def _lines(self, section: str, version: str) -> list[tuple[str, list[Raw]]]:
        table = self._document[section]
        lines = (_line(version),) if version else tuple(table)
        return [(line, table.get(line, ())) for line in lines]

    # -- conda --

    def conda_packages(self) -> tuple[str, ...]:
        """List the packages of which conda builds are documented."""
        return tuple(self._document["conda"])

    def conda_builds(self, package: str) -> tuple[CondaBuild, ...]:
        """List what is documented of a package's builds on the conda channels; () where nothing is."""
        raws = self._document["conda"].get(package, ())
        return tuple(build_row(CondaBuild, raw, self._citations, package=package) for raw in raws)


def _line(version: str) -> str:
    """Cut a version to major.minor: 12.6.77 -> 12.6."""
    return ".".join(version.split(".")[:2])


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

    from envcheck.matrix.versions import within

    try:
        return within(version, specifier)
    except InvalidVersion:
        return False
