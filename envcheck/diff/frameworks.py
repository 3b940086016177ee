"""Compare the framework builds of two machines: what they were built for, and what the loader gives them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from envcheck.diff.difference import Difference, Subject, differ
from envcheck.diff.plain import NONE, Side, side_of, unread
from envcheck.model.facts import Fact, Known, Unknown
from envcheck.model.python_env import Distribution, FrameworkBuild, LibraryLookup
from envcheck.model.snapshot import Facts

_FACT = "python.frameworks"
_AREA = "frameworks"
# Cells of a build, in words; on the first three both machines must agree.
_CELLS = {
    "cuda_build": "CUDA build of",
    "cuda_version": "CUDA of",
    "cudnn_version": "cuDNN of",
    "compute_capabilities": "GPU code of",
    "shadowed_by": "imported in place of",
}
_MUST_AGREE = ("cuda_build", "cuda_version", "cudnn_version")
Pair = tuple[Fact[Any], Fact[Any]]


def compare_frameworks(pair: Pair, *, libraries: bool) -> list[Difference]:
    """List what differs between builds of one distribution; `libraries`: also where the loader finds theirs."""
    if any(isinstance(fact, Unknown) for fact in pair):
        sides = [unread(fact) if isinstance(fact, Unknown) else Side("read") for fact in pair]
        return differ(Subject(_FACT, "", "frameworks", _AREA), *sides)
    mine, other = _joined(*(fact.value if isinstance(fact, Known) else () for fact in pair))
    found: list[Difference] = []
    for name in sorted({*mine, *other}):
        a, b = mine.get(name), other.get(name)
        sides = [Side(_release(build, name) if build else NONE) for build in (a, b)]
        names = tuple(f"{build.distribution} {build.version}" for build in (a, b) if build)
        found += differ(Subject(_FACT, name, name, _AREA, names, agree=True), *sides)
        if a is not None and b is not None:
            found += _cells(name, a, b, names)
            found += _libraries(name, a, b) if libraries else ()
    return found


Builds = dict[str, FrameworkBuild]


def _joined(mine: Sequence[FrameworkBuild], other: Sequence[FrameworkBuild]) -> tuple[Builds, Builds]:
    """Join builds by distribution, and by framework where each machine has just one of it: tensorflow, -cpu."""
    counts = [Counter(build.framework for build in builds) for builds in (mine, other)]
    single = {name for name in counts[0] if counts[0][name] == counts[1][name] == 1}
    first, second = (
        {build.framework if build.framework in single else build.distribution: build for build in builds}
        for builds in (mine, other)
    )
    return first, second


def _release(build: FrameworkBuild, name: str) -> str:
    return build.version if build.distribution == name else f"{build.distribution} {build.version}"


def _cells(name: str, a: FrameworkBuild, b: FrameworkBuild, names: tuple[str, ...]) -> Iterator[Difference]:
    for cell, words in _CELLS.items():
        sides = (side_of(getattr(a, cell)), side_of(getattr(b, cell)))
        subject = Subject(_FACT, f"{name}.{cell}", f"{words} {name}", _AREA, names, agree=cell in _MUST_AGREE)
        yield from differ(subject, *sides)


def _libraries(name: str, a: FrameworkBuild, b: FrameworkBuild) -> Iterator[Difference]:
    """Compare what the loader finds; libraries that one build alone asks for follow from its release."""
    mine, other = (_lookups(build) for build in (a, b))
    for soname in sorted({*mine} & {*other}):
        sides = (_found(mine[soname]), _found(other[soname]))
        names = (soname, f"{soname} for cuDNN", f"library {soname}")
        yield from differ(Subject(_FACT, f"{name}.{soname}", f"{soname} for {name}", "loader", names), *sides)


def _lookups(build: FrameworkBuild) -> dict[str, LibraryLookup]:
    return {item.soname: item for item in (build.libraries.value if isinstance(build.libraries, Known) else ())}


def _found(lookup: LibraryLookup) -> Side:
    if not isinstance(lookup.found, Known):
        here = " (a copy lies off the loader's path)" if lookup.elsewhere else ""
        side = side_of(lookup.found)
        return Side("not found" + here) if not side.unread else side
    version = f" {lookup.version.value}" if isinstance(lookup.version, Known) else ""
    return Side(f"found{version}" + (f" by {lookup.via}" if lookup.via else ""))


def needed_names(facts: Facts) -> frozenset[str]:
    """Name the distributions that the frameworks of a machine need, through any number of others."""
    installed, frameworks = facts.python.distributions, facts.python.frameworks
    known = _first_of_name(installed.value) if isinstance(installed, Known) else {}
    waiting = [build.distribution for build in (frameworks.value if isinstance(frameworks, Known) else ())]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _required(known[name].requires) if name in known else ()
    return frozenset(seen)


def _first_of_name(found: Iterable[Distribution]) -> dict[str, Distribution]:
    kept: dict[str, Distribution] = {}
    for item in found:
        kept.setdefault(item.name, item)
    return kept


def _required(requires: Iterable[str]) -> Iterator[str]:
    """Name what Requires-Dist lines ask for; of what an extra brings, NVIDIA's libraries alone.

    nvidia-cudnn-cu12 (>=9.3) ; extra == 'and-cuda'
    """
    for line in requires:
        named = re.match(r"\s*([A-Za-z0-9][\w.-]*)", line)
        name = re.sub(r"[-_.]+", "-", named[1]).lower() if named else ""
        if name.startswith("nvidia-") or (name and "extra" not in line.partition(";")[2]):
            yield name
