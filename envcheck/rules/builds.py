"""The framework builds that are installed, and those that a release of the matrix stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from envcheck.frameworks import Framework as FrameworkTraits
from envcheck.frameworks import framework as known_framework
from envcheck.matrix.query import Matrix
from envcheck.model import (
    About,
    Absent,
    Citation,
    CondaBuild,
    Fact,
    FrameworkBuild,
    FrameworkRelease,
    Known,
    LibraryLookup,
    Source,
    Unknown,
    dataclass,
    from_file,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.versions import cuda_of_digits, read_requirement, within
from envcheck.rules.context import Context

T = TypeVar("T")
NO_ROW = Unknown("failed", "neither the installed files nor the matrix state it")


@dataclass
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
    # the release's row where it describes this very build, not a namesake's
    row: FrameworkRelease | None = None

    @property
    def traits(self) -> FrameworkTraits:
        """Return what is known of its framework."""
        return known_framework(self.framework)

    @property
    def lookups(self) -> tuple[LibraryLookup, ...]:
        """List the libraries that the build loads; empty where they are unknown."""
        return self.libraries.value or ()

    @property
    def about(self) -> About:
        """Name it as what a finding is about."""
        return About(self.framework, self.distribution)

    @property
    def full_version(self) -> str:
        """Return its version with the label: 2.7.1+cu118."""
        return f"{self.version}+{self.local}" if self.local else self.version

    @property
    def label(self) -> str:
        """Name the build as people do: "tensorflow 2.15.0"; PyTorch where no release is known."""
        return f"{self.distribution} {self.full_version}".strip() or self.traits.title

    @property
    def pin(self) -> str:
        """Pin its release, whatever the label: "torch==2.7.1"."""
        return f"{self.distribution}=={self.version}"

    @property
    def accelerator(self) -> str:
        """Name what it computes on beside CPU and CUDA.

        Rocm, xpu, mps; "" for nothing, or where that is unknown.
        """
        return (self.facts.accelerator.value if self.facts else None) or ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Return what the matrix row rests on."""
        return self.release.citations if self.release else ()


def installed_builds(context: Context) -> tuple[Build, ...]:
    """List the framework builds installed in the inspected environment."""
    builds = context.python.frameworks.value or ()
    return tuple(_build_installed(context, item) for item in builds)


def build_of(row: FrameworkRelease) -> Build:
    """Describe a release that is not installed, from its matrix row alone."""
    nothing = Unknown("failed", f"{row.distribution} is not installed")
    stated = FrameworkBuild(row.framework, row.distribution, row.build_version, libraries=nothing)
    return _make_build(stated, row, row)


def _build_installed(context: Context, item: FrameworkBuild) -> Build:
    public, _, local = item.version.partition("+")
    matrix, key = context.matrix, (context.platform, item.distribution)
    release = matrix.release(item.framework, public, *key)
    # A label (+cu118) that names the CUDA of the default index stands for its build; conda's have
    # no rows.
    is_same_build = not local or (
        release is not None and label_cuda(local) == major_minor(release.cuda)
    )
    row = release if is_same_build else matrix.build(item.framework, public, local, *key)
    row = None if is_from_conda(context, item.distribution) else row
    return _make_build(item, release, row, (item,))


def _make_build(
    item: FrameworkBuild,
    release: FrameworkRelease | None,
    row: FrameworkRelease | None,
    read: tuple[FrameworkBuild, ...] = (),
) -> Build:
    """Make a build from what states most: its files if read, then its label, then its row."""
    public, _, local = item.version.partition("+")

    def find(name: str, *stated: Fact[Any]) -> Fact[Any]:
        value = getattr(row, name, None)
        fact: Fact[Any] = NO_ROW
        if row is not None and value not in (None, ()):
            fact = Known(value, Source("matrix", row.label, "data/compat_matrix.json"))
        own = _READ_AS.get(name, name)
        return _find_first(*(getattr(each, own) for each in read), *stated, fact)

    return Build(
        framework=item.framework,
        distribution=item.distribution,
        version=public,
        local=local,
        installed=bool(read),
        release=release,
        cuda_build=find("cuda_build", _local_build(local)),
        cuda=find("cuda", _local_version(local)),
        cudnn=find("cudnn"),
        compute_capabilities=find("compute_capabilities"),
        libraries=item.libraries,
        facts=item if read else None,
        row=row,
    )


_READ_AS = {"cuda": "cuda_version", "cudnn": "cudnn_version"}  # cells of the matrix in a build


def is_from_conda(context: Context, distribution: str) -> bool:
    """Return whether conda installed a distribution."""
    item = context.distributions.get(distribution)
    return item is not None and item.installer == "conda"


def _find_first(*facts: Fact[T]) -> Fact[T]:
    """Return the first fact that is known or absent.

    One that is known to be open is not filled in by a table.
    """
    decided = (fact for fact in facts if not isinstance(fact, Unknown) or fact.why == "conflict")
    return next(decided, facts[0])


def label_cuda(local: str) -> str:
    """Read a CUDA version from a local version label.

    cu126 -> 12.6, cu92 -> 9.2, cuda11.cudnn86 -> 11, cpu -> "".
    """
    match = re.match(r"cu(?:da)?(\d{2,3})(?!\d)", local)
    return cuda_of_digits(match.group(1)) if match else ""


def _local_version(local: str) -> Fact[str]:
    cuda = label_cuda(local)
    if cuda:
        return from_file(cuda, "version label", f"+{local}")
    return NO_ROW


def _local_build(local: str) -> Fact[bool]:
    if local.startswith(("cpu", "cu")):
        return from_file(not local.startswith("cpu"), "version label", f"+{local}")
    return NO_ROW


def rows_by_extra(
    row: FrameworkRelease, extras: Iterable[str] = ()
) -> tuple[FrameworkRelease, ...]:
    """Part a release by extras that each bring one CUDA, newest first: numba-cuda[cu13]."""
    if not row.extras:
        return (row,)
    named = sorted((item for item in row.extras if re.fullmatch(r"cu\d\d", item)), reverse=True)
    parts = []
    for extra in [item for item in named if item in extras] or named:
        of_major = re.compile(rf"-{extra}\b|[>=]={extra[2:]}\.")
        wheels = tuple(filter(of_major.search, row.cuda_wheels))
        parts.append(
            replace(row, cuda_build=True, cuda=extra[2:], gpu_extra=extra, cuda_wheels=wheels)
        )
    return tuple(parts) or (row,)


def plugin_of(context: Context, row: FrameworkRelease, extra: str) -> FrameworkRelease | None:
    """Return the plugin that an extra of a release installs here."""
    return find_plugin(context.matrix, context.platform, row, extra)


def find_plugin(
    matrix: Matrix, platform: str, row: FrameworkRelease, extra: str
) -> FrameworkRelease | None:
    """Return the plugin that an extra of a release installs.

    Its own, or for jax 0.5.2 the newest that it accepts.
    """
    pattern = known_framework(row.framework).plugin_of_extra
    if not pattern:
        return None
    name = pattern.format(extra=extra)
    requirements = (item for item in map(read_requirement, row.cuda_wheels) if item.name == name)
    bounds = next((item.specifier for item in requirements), "")
    return _find_part(matrix, platform, row, name, bounds)


def library_of(context: Context, row: FrameworkRelease) -> FrameworkRelease | None:
    """Return the compiled half of a release.

    The jaxlib of its version, else the newest one that it takes.
    """
    name = known_framework(row.framework).library
    bounds = row.requires.get(name, f"=={row.version}")
    return _find_part(context.matrix, context.platform, row, name, bounds) if name else None


def _find_part(
    matrix: Matrix, platform: str, row: FrameworkRelease, name: str, bounds: str
) -> FrameworkRelease | None:
    """Return a part of a release: that of its own version, else the newest within bounds."""
    own = matrix.release(row.framework, row.version, platform, name)
    if own is not None or not bounds:
        return own
    rows = matrix.releases(row.framework, platform, admits=lambda version: within(version, bounds))
    return next((item for item in rows if item.distribution == name), None)


def supports_python(context: Context, row: FrameworkRelease) -> bool:
    """Return whether a release has a wheel for the inspected Python.

    An unknown Python counts as supported.
    """
    version = context.python.version.value
    if not version:
        return True
    implementation = context.python.implementation.value
    if implementation and implementation.lower() != "cpython":
        return False  # every framework wheel is made for CPython
    minor = major_minor(version)
    return minor in (row.free_threaded_pythons if is_free_threaded(context) else row.pythons)


def is_free_threaded(context: Context) -> bool:
    """Return whether the inspected Python is known to lack the global interpreter lock."""
    abi = context.python.abi_tag.value
    return bool(abi and abi.startswith("cp") and abi.endswith("t"))


def is_conda_build(context: Context, build: Build) -> bool:
    """Return whether conda installed a build: the wheels' rows then say little about it."""
    return build.installed and is_from_conda(context, build.distribution)


def list_conda_recipes(matrix: Matrix, framework: str) -> list[CondaBuild]:
    """List what conda-forge's recipes have built of a framework, release by release."""
    names = known_framework(framework).conda_packages
    return [row for name in names for row in matrix.conda_builds(name) if row.releases]


def unfound_libraries(build: Build) -> list[LibraryLookup]:
    """List the needed libraries that the loader does not find."""
    return [item for item in build.lookups if item.mandatory and isinstance(item.found, Absent)]


def built_with(build: Build) -> str | None:
    """Return the cuDNN that a build was made with.

    Its files often name only the major, its matrix row the minor.
    """
    cudnn = build.cudnn.value
    row = build.row.cudnn if build.row else None
    if row and (not cudnn or (len(numbers(cudnn)) == 1 and numbers(row)[:1] == numbers(cudnn))):
        return row
    return cudnn


def brings_cuda(build: Build) -> bool:
    """Return whether a build's CUDA libraries come with it, so that it needs no toolkit."""
    # A plugin names its libraries in an extra of the framework's other half.
    if build.traits.cuda.brings_libraries or build.traits.is_plugin(build.distribution):
        return True
    release = build.release
    return release is not None and bool(
        release.gpu_extra or release.cuda_wheels or release.finds_cuda_wheels
    )
