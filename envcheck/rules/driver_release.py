"""Compare driver releases, of which a report or an override may tell only the first parts."""

from __future__ import annotations

import re

from envcheck.model import Known
from envcheck.model.releases import Toolkit
from envcheck.rules.context import Context


def parse_release(text: str) -> tuple[int, ...]:
    """Read the leading numbers of a release: "515.48.07" -> (515, 48, 7), "390.x" -> (390,)."""
    found = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def at_least(release: str, floor: str) -> bool | None:
    """Say whether a release reaches a floor; None when that hangs on parts that are not known."""
    have, want = parse_release(release), parse_release(floor)
    if not have:
        return None
    for ours, theirs in zip(have, want):
        if ours != theirs:
            return ours > theirs
    return True if len(have) >= len(want) else None


def same_release(one: str, other: str) -> bool:
    """Say whether two spellings may name one release: 515.48.7 is 515.48.07, and 515 may be."""
    return all(ours == theirs for ours, theirs in zip(parse_release(one), parse_release(other)))


def at_least_cuda(version: str, floor: str) -> bool:
    """Compare CUDA versions by major and minor: "12.4" reaches "12.2"; a bare major counts as its .0."""
    return _two(version) >= _two(floor)


def _two(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return tuple(parts + [0] * (2 - len(parts)))


def major(version: str) -> int:
    """Return the major part of a version: "12.4" -> 12."""
    return _two(version)[0]


def is_windows_driver(context: Context) -> bool:
    """Say whether the driver in charge is the Windows one: on Windows, and in WSL."""
    return context.os == "windows" or isinstance(context.facts.host.wsl_version, Known)


def toolkit_of(context: Context, cuda: str) -> Toolkit | None:
    """Find the row of a CUDA version; a bare major ("12", as JAX names its builds) means the oldest of that major."""
    if "." in cuda:
        return context.matrix.toolkit(cuda)
    same = [row for row in context.matrix.toolkits() if row.version.split(".")[0] == cuda]
    return same[-1] if same else None


def driver_floor(context: Context, toolkit: Toolkit) -> str | None:
    """Return the lowest driver that runs builds of a toolkit: under minor-version compatibility where that exists."""
    if is_windows_driver(context):
        return toolkit.minor_floor_windows or toolkit.min_driver_windows
    return toolkit.minor_floor_linux or toolkit.min_driver_linux


def full_driver(context: Context, toolkit: Toolkit) -> str | None:
    """Return the driver a toolkit was released with, from which on its PTX can be compiled."""
    return toolkit.min_driver_windows if is_windows_driver(context) else toolkit.min_driver_linux
