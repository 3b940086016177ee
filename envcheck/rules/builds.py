"""The framework builds to judge: those installed, and those asked for with --for."""

from __future__ import annotations

import re
from typing import TypeVar

from envcheck.model import Citation, Fact, FrameworkBuild, Known, LibraryLookup, Source, Unknown, dataclass, major_minor
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.context import Context

T = TypeVar("T")
_NO_ROW = Unknown("failed", "neither the installed files nor the matrix tell")


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
    def label(self) -> str:
        """Name the build as people do: "tensorflow 2.15.0"."""
        return f"{self.distribution} {self.version}" + (f"+{self.local}" if self.local else "")

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Return what the matrix row rests on."""
        return self.release.citations if self.release else ()


def installed_builds(context: Context) -> tuple[Build, ...]:
    """List the framework builds installed in the inspected environment."""
    found = context.facts.python.frameworks
    builds = found.value if isinstance(found, Known) else ()
    return tuple(_installed(context, item) for item in builds)


def build_of(release: FrameworkRelease, local: str = "") -> Build:
    """Describe a release that is not installed, from its matrix row alone.

    `local` is the label of a build that the matrix has no row of, which states its CUDA.
    """
    nothing = Unknown("failed", f"{release.distribution} is not installed")
    local, row = local or release.local, None if local else release
    return Build(
        framework=release.framework,
        distribution=release.distribution,
        version=release.version,
        local=local,
        installed=False,
        release=release,
        cuda_build=_first(_local_build(local), _row(row, row.cuda_build if row else None)),
        cuda=_first(_local_version(local), _row(row, row.cuda if row else None)),
        cudnn=_row(row, row.cudnn if row else None),
        compute_capabilities=_row(row, (row.compute_capabilities or None) if row else None),
        libraries=nothing,
        row=row,
    )


def _installed(context: Context, item: FrameworkBuild) -> Build:
    public, _, local = item.version.partition("+")
    matrix, key = context.matrix, (context.platform, item.distribution)
    release = matrix.release(item.framework, public, *key)
    # A label (+cu118) that names the CUDA of the default index stands for its build; conda's have no rows.
    same = not local or (release is not None and label_cuda(local) == major_minor(release.cuda or ""))
    row = release if same else matrix.build(item.framework, public, local, *key)
    row = None if is_condas(context, item.distribution) else row
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


def is_condas(context: Context, distribution: str) -> bool:
    """Tell whether conda installed a distribution."""
    found = context.distributions.get(distribution)
    return found is not None and found.installer == "conda"


def _first(*facts: Fact[T]) -> Fact[T]:
    return next((fact for fact in facts if not isinstance(fact, Unknown)), facts[0])


def _row(release: FrameworkRelease | None, value: T | None) -> Fact[T]:
    if release is None or value is None:
        return _NO_ROW
    source = release.citations[0] if release.citations else Citation("data/matrix")
    return Known(value, Source("matrix", f"{release.distribution} {release.version}", source.url_or_artifact))


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
    return Known(cuda, Source("file", "version label", f"+{local}")) if cuda else _NO_ROW


def _local_build(local: str) -> Fact[bool]:
    if local.startswith(("cpu", "cu")):
        return Known(not local.startswith("cpu"), Source("file", "version label", f"+{local}"))
    return _NO_ROW
