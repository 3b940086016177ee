"""Packages that are installed beside a framework or on top of it, and the releases that each one goes with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from envcheck.frameworks import framework, framework_names, identity
from envcheck.host.data_files import load_data
from envcheck.model import Citation, FrameworkRelease, dataclass, field, numbers


@dataclass(frozen=True)
class Companion:
    """Distributions that come beside a framework."""

    distributions: Mapping[str, str] = field(default_factory=dict)  # each with the module that it owns, the usual first
    frameworks: tuple[str, ...] = ()  # the usual one first; () for one that needs none
    requires: str = ""  # the one name under which it requires its framework
    pinned_by: str = ""  # the distribution that pins its releases
    releases: str = ""  # section of the matrix that holds its releases; "" for none
    first: str = ""  # the oldest release that the matrix holds
    has_older: bool = False  # the index has older ones
    placeholders: tuple[str, ...] = ()  # versions on the index that hold nothing
    binaries: str = "(?!)"  # names of the binaries whose libraries tell its CUDA
    on_index: bool = False  # its framework's own package index holds its builds, too


@dataclass(frozen=True)
class Companions:
    """The content of data/companions.json."""

    rows: tuple[Companion, ...]
    pythons: tuple[str, ...]  # minors that a wheel for all of them may be for
    citation: Citation


def load_companions() -> Companions:
    """Return data/companions.json."""
    return load_data("companions", Companions)


@lru_cache(maxsize=512)
def companion_row(name: str) -> Companion:
    """Return the row of a distribution that comes beside a framework; an empty row for any other."""
    return next((row for row in load_companions().rows if name in row.distributions), Companion())


def companion_sections() -> dict[str, list[Companion]]:
    """Map each section of releases in the matrix to the rows whose releases it holds."""
    found: dict[str, list[Companion]] = {}
    for row in load_companions().rows:
        if row.releases:
            found.setdefault(row.releases, []).append(row)
    return found


def binary_names(name: str) -> str:
    """Return the pattern of the binaries that tell what a framework or companion is built for."""
    if name in framework_names():
        return framework(name).wheel_binaries
    return "|".join(row.binaries for row in companion_sections().get(name, ()))


def shares_cuda(companion: FrameworkRelease, release: FrameworkRelease) -> bool:
    """Tell whether a companion's wheel and a framework's build are for one CUDA, as far as the wheel states it."""
    parts = numbers(companion.cuda) if companion.cuda else ()
    return not parts or (release.cuda is not None and numbers(release.cuda)[: len(parts)] == parts)


def asked_of(release: FrameworkRelease, name: str) -> str | None:
    """Return which releases of a framework a companion's release goes with; None where nothing states it."""
    stated: str | None = getattr(release, name, None)  # the cell of a framework that METADATA leaves open
    if stated:
        return stated
    names = identity(name).distributions if name in framework_names() else ()
    return next((release.requires[item] for item in names if item in release.requires), None)
