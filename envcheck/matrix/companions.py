"""Packages beside or on top of a framework, and the releases that each goes with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from envcheck.frameworks import Framework, framework, framework_names, identity
from envcheck.host.data_files import load_data, read_data
from envcheck.model import (
    Action,
    Citation,
    FrameworkRelease,
    dataclass,
    decode,
    field,
    major_minor,
    numbers,
)
from envcheck.model.versions import within


@dataclass
class Companion:
    """Distributions that come beside a framework."""

    # each with the module that it owns, the usual first
    distributions: Mapping[str, str] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()  # the usual one first; () for one that needs none
    requires: str = ""  # the one name under which it requires its framework
    brings: bool = False  # every release requires its framework, so pip brings one
    pinned_by: str = ""  # the distribution that pins its releases
    releases: str = ""  # section of the matrix that holds its releases; "" for none
    first: str = ""  # the oldest release that the matrix holds
    has_older: bool = False  # the index has older ones
    placeholders: tuple[str, ...] = ()  # versions on the index that hold nothing
    install: str = ""  # what to type for it, where no plan is made
    binaries: str = "(?!)"  # names of the binaries whose libraries tell its CUDA
    # brings what it needs, in releases whose base does not require the framework
    usual_extra: str = ""
    on_index: bool = False  # its framework's own package index holds its builds, too


@dataclass
class Companions:
    """The content of data/packages/index.json."""

    rows: tuple[Companion, ...]
    pythons: tuple[str, ...]  # minors that a wheel for all of them may be for
    # distributions with builds that are not on the package index, or have no wheel there
    elsewhere: tuple[str, ...]
    citation: Citation


def load_companions() -> Companions:
    """Return data/packages/index.json."""
    return load_data("packages/index", Companions)


@lru_cache(maxsize=512)
def companion_row(name: str) -> Companion:
    """Return the row of a distribution that comes beside a framework.

    An empty row for any other.
    """
    return next((row for row in load_companions().rows if name in row.distributions), Companion())


def companion_sections() -> dict[str, list[Companion]]:
    """Map each section of releases in the matrix to the rows whose releases it holds."""
    found: dict[str, list[Companion]] = {}
    for row in load_companions().rows:
        if row.releases:
            found.setdefault(row.releases, []).append(row)
    return found


def published_framework(name: str) -> Framework | None:
    """Return the framework whose own class reads its wheels.

    Return None for a companion, one judged like a framework, too.
    """
    known = framework(name) if name in framework_names() else None
    return known if known and known.wheels.distributions else None


def matrix_sections() -> list[str]:
    """List the sections of releases.

    Each framework that publishes wheels of its own, then the companions.
    """
    published = [name for name in framework_names() if published_framework(name)]
    return [*dict.fromkeys((*published, *companion_sections()))]


def section_of(name: str) -> str:
    """Return the section that holds a framework, companion or distribution.

    rapids for cudf; "" for an unknown one.
    """
    if name in matrix_sections():
        return name
    distributions: Iterable[str] = (name,)
    if name in framework_names():
        distributions = identity(name).distributions
    return next((row.releases for row in map(companion_row, distributions) if row.releases), "")


def binary_names(name: str) -> str:
    """Return the pattern of the binaries that tell what a framework or companion is built for."""
    known = published_framework(name)
    if known:
        return known.wheels.binaries
    return "|".join(row.binaries for row in companion_sections().get(name, ()))


def shares_cuda(companion: FrameworkRelease, release: FrameworkRelease) -> bool:
    """Return whether a companion's wheel and a framework's build are for one CUDA.

    A wheel that states none is taken to be.
    """
    parts = numbers(companion.cuda) if companion.cuda else ()
    return not parts or (release.cuda is not None and numbers(release.cuda)[: len(parts)] == parts)


def asked_of(release: FrameworkRelease, name: str) -> str | None:
    """Return which releases of a framework a companion's release goes with.

    Return None where nothing states it.
    """
    # the cell of a framework that METADATA leaves open
    stated: str | None = getattr(release, name, None)
    if stated:
        return stated
    names = identity(name).distributions if name in framework_names() else ()
    return next((release.requires[item] for item in names if item in release.requires), None)


# What the package index has as sources alone, or for one CUDA: built files on the pages of the
# projects.


@dataclass
class BuiltFiles:
    """Files of a release: one for each combination of these cells."""

    torch: tuple[str, ...] = ()  # minors of the torch that they were built for; () for any
    cuda: tuple[str, ...] = ()  # as the name of a file writes it: 12, 12.6
    pythons: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    cxx11_abi: tuple[bool, ...] = (False, True)  # of the C++ ABI of torch: False for the old one
    glibc: str = ""  # the oldest that they load with


@dataclass
class SourceRelease:
    """Releases with the same built files."""

    versions: tuple[str, ...]  # newest first
    files: tuple[BuiltFiles, ...] | None = None  # None: nobody read which there are


@dataclass
class SourceBuild:
    """How a package is built from its sources."""

    # what its build needs beside torch, where pip is to isolate nothing
    requires: tuple[str, ...] = ()
    torch: str = ""  # specifier; "" where none is stated
    cuda: str = ""  # the oldest nvcc that it takes
    compute_capability: str = ""  # the oldest that it has code for
    variable: str = ""  # limits the architectures; "" where nothing does
    # those that it can be limited to; () for any, as TORCH_CUDA_ARCH_LIST has them
    architectures: tuple[str, ...] = ()
    compiled: int = 1  # architectures that are compiled where nothing limits them
    settings: Mapping[str, str] = field(default_factory=dict)
    job_gigabytes: float = 0  # memory that one job takes; 0 unknown
    core_minutes: float = 0  # for one architecture; 0 unknown
    platforms: tuple[str, ...] = ("linux_x86_64", "linux_aarch64")
    looks_for_file: bool = False  # its build downloads a release file that fits before it compiles


@dataclass
class SourcePackage:
    """A package whose index page has sources alone."""

    releases: tuple[SourceRelease, ...]  # newest first
    citations: tuple[Citation, ...]
    file: str = ""  # address of a built file, with {fields}
    # of pip, with {fields}, where a page or an index of its own lists the files
    options: tuple[str, ...] = ()
    build: SourceBuild | None = None  # None: it compiles nothing when it is installed
    is_alone: bool = False  # it needs no framework
    # distributions of the matrix, one for each CUDA major, that state its releases
    parts: tuple[str, ...] = ()


@dataclass
class OldAbi:
    """The content of data/frameworks/torch_abi.json: which builds of torch have the old C++ ABI."""

    before: Mapping[str, str]  # platform -> the first release whose builds all have the new one
    labels: Mapping[str, tuple[str, ...]]  # minor of torch -> labels whose builds had it earlier
    citation: Citation


@dataclass
class TorchBuild:
    """What a file must be built for."""

    version: str  # of torch, with its label: 2.8.0+cu126
    cuda: str
    python: str  # minor
    platform: str
    glibc: str = ""  # of the machine; "" unknown

    @property
    def cxx11_abi(self) -> bool:
        """Return whether this torch has the new C++ ABI, as its project's wheels have it."""
        public, _, label = self.version.partition("+")
        old = load_data("frameworks/torch_abi", OldAbi)
        has_label = label in old.labels.get(major_minor(public), ())
        return has_label or numbers(public) >= numbers(old.before.get(self.platform, "0"))


@dataclass
class SourceInstall:
    """How a package comes beside a torch: as a built file of its project, or from its sources."""

    name: str
    version: str
    # flash-attn @ https://...; flash-attn==2.8.3.post2 where it is built, or `options` name its
    # page
    requirement: str
    options: tuple[str, ...] = ()  # of pip
    settings: tuple[tuple[str, str], ...] = ()
    requires: tuple[str, ...] = ()  # what must be there before
    compiles: bool = False
    machine_steps: tuple[Action, ...] = ()  # what the machine needs before
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def source_package(name: str) -> SourcePackage | None:
    """Return what is known of files outside the package index, and of the build.

    Return None for any other package.
    """
    if name not in load_companions().elsewhere:
        return None
    return decode(SourcePackage, json.loads(read_data(f"packages/{name}.json"))["elsewhere"])


def find_file(name: str, specifier: str, wanted: TorchBuild) -> SourceInstall | None:
    """Find the built file of the newest admitted release that fits a torch, or None."""
    package = source_package(name)
    if package is None:
        return None
    newest = next(iter(_list_fitting(package, specifier, wanted)), None)
    return _describe(name, package, *newest, wanted) if newest else None


def newest_of_own_index(name: str, cuda: str, platform: str) -> str:
    """Name a package's newest release on its project's index for a CUDA; "" for none."""
    package = source_package(name)
    releases = package.releases if package and package.options else ()
    held = (
        (release, files)
        for release in releases
        for files in release.files or ()
        if platform in files.platforms
    )
    for release, files in held:
        if any(map(cuda.startswith, files.cuda)):
            return release.versions[0]
    return ""


def _list_fitting(
    package: SourcePackage, specifier: str, wanted: TorchBuild
) -> Iterator[tuple[str, str]]:
    for release in package.releases:
        for files in release.files or ():
            cuda = _fitting_cuda(files, wanted)
            if cuda:
                for version in release.versions:
                    if within(version, specifier):
                        yield (version, cuda)


def _fitting_cuda(files: BuiltFiles, wanted: TorchBuild) -> str:
    """Return the CUDA of the file that fits, as its name writes it; "" where none does."""
    is_match = wanted.python in files.pythons and wanted.platform in files.platforms
    is_match = is_match and (not files.torch or major_minor(wanted.version) in files.torch)
    is_match = is_match and wanted.cxx11_abi in files.cxx11_abi
    if not is_match or (wanted.glibc and numbers(wanted.glibc) < numbers(files.glibc or "0")):
        return ""
    own = numbers(wanted.cuda)
    for item in files.cuda if own else ():
        if numbers(item) == own[: len(numbers(item))]:
            return item
    return ""


def _describe(
    name: str, package: SourcePackage, version: str, cuda: str, wanted: TorchBuild
) -> SourceInstall:
    minor = major_minor(wanted.version)
    cells = {
        "version": version,
        "minor": minor,
        "minor_digits": minor.replace(".", ""),
        "cuda": cuda.replace(".", ""),
        "abi": str(wanted.cxx11_abi).upper(),
        "python": wanted.python.replace(".", ""),
        "platform": wanted.platform,
    }
    if package.file:
        requirement = f"{name} @ {package.file.format(**cells)}"
    else:
        requirement = f"{name}=={version}"
    return SourceInstall(
        name, version, requirement, tuple(item.format(**cells) for item in package.options)
    )


@dataclass
class DatedSymbol:
    """Symbols of PyTorch's C++ libraries, and the releases that alone have them."""

    pattern: str  # of the whole symbol
    built_for: str  # what an extension was built for that lacks one: torch 2.10 to 2.13
    exported_by: str = ""  # the releases that have them: >=2.10,<2.14
    unless: str = ""  # releases of which they say nothing: all of these have the same C++ ABI


@dataclass
class DatedSymbols:
    """The content of data/frameworks/torch_symbols.json."""

    symbols: tuple[DatedSymbol, ...]
    citation: Citation


def date_symbol(name: str) -> DatedSymbol | None:
    """Return which PyTorch releases a symbol is of, mangled as the loader names it."""
    rows = load_data("frameworks/torch_symbols", DatedSymbols).symbols
    return next((item for item in rows if re.fullmatch(item.pattern, name)), None)
