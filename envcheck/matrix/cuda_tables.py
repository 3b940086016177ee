"""Ask the matrix for what stands beside the releases: toolkits, drivers, architectures, cuDNN, TensorRT, conda."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.matrix.rows import Raw, build_row, join_builds
from envcheck.model.releases import Architecture, CondaBuild, CudnnRelease, DriverBranch, TensorrtRelease, Toolkit


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
