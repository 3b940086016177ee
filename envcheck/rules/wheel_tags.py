"""What a wheel's Linux platform tag asks of pip and of the C library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from packaging.version import Version

from envcheck.host.data_files import load_data
from envcheck.model import Citation, dataclass
from envcheck.model.releases import FrameworkRelease


@dataclass(frozen=True)
class TagNeed:
    """The lowest pip that accepts a tag, and the lowest glibc the tag stands for."""

    tag: str
    pip: str
    glibc: str
    citation: Citation


@dataclass(frozen=True)
class TagRow:
    """One kind of manylinux tag."""

    glibc: str  # "" where the tag names it
    pip: str
    citation: Citation


@dataclass(frozen=True)
class PipTags:
    """The content of data/pip_tags.json."""

    tags: Mapping[str, TagRow]
    glibcxx: Mapping[str, str]  # glibc of a policy -> newest GLIBCXX that it admits
    glibcxx_citation: Citation


def _data() -> PipTags:
    return load_data("pip_tags", PipTags)


def tag_need(tag: str) -> TagNeed | None:
    """Read a platform tag such as manylinux2014_x86_64 or manylinux_2_27_x86_64; None when it is no manylinux tag."""
    match = re.match(r"manylinux(\d+|_(\d+)_(\d+))_", tag)
    if match is None:
        return None
    perennial = match.group(2) is not None
    row = _data().tags.get("manylinux_x_y" if perennial else "manylinux" + match.group(1))
    if row is None:
        return None
    glibc = f"{match.group(2)}.{match.group(3)}" if perennial else row.glibc
    return TagNeed(tag, row.pip, glibc, row.citation)


def easiest_for_pip(release: FrameworkRelease) -> TagNeed | None:
    """Return the tag of a release that the oldest pip accepts; None when no pip is too old for it."""
    needs = [tag_need(tag) for tag in release.tags]
    known = [need for need in needs if need is not None]
    return min(known, key=lambda need: Version(need.pip)) if known and len(known) == len(needs) else None


def lowest_glibc(tags: Iterable[str]) -> str:
    """Return the lowest glibc that platform tags of one wheel, or of one release, stand for; "" without any."""
    return min((need.glibc for need in map(tag_need, tags) if need is not None), key=Version, default="")


def wheel_glibc(release: FrameworkRelease) -> str:
    """Return the lowest glibc a release runs on: what it really needs, and no less than its lowest tag; "" unknown."""
    found = (lowest_glibc(release.tags), release.glibc)
    return max(filter(None, found), key=Version, default="")


def tag_glibcxx(release: FrameworkRelease) -> str:
    """Return the newest GLIBCXX that the lowest manylinux tag of a release admits: 3.4.24; "" when it has none."""
    glibc = lowest_glibc(release.tags)
    if not glibc:
        return ""
    lowest = Version(glibc)
    return next((found for glibc, found in reversed([*_data().glibcxx.items()]) if Version(glibc) <= lowest), "")
