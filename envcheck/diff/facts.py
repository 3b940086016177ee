"""Compare the facts and framework builds of two machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from envcheck.host.data_files import load_data
from envcheck.model import (
    Absent,
    DeviceNode,
    Distribution,
    DkmsModule,
    Extension,
    Fact,
    Facts,
    FrameworkBuild,
    Gpu,
    JupyterKernel,
    Known,
    LibraryInstall,
    LibraryLookup,
    Source,
    ToolkitInstall,
    Unknown,
    dataclass,
)

NONE = "none"
_TOLD = 12  # items of a set that are spelled out


@dataclass(frozen=True)
class Side:
    """What one machine says: `text` for people; `unread` when it could not be told."""

    text: str
    unread: bool = False


def side_of(fact: Fact[Any]) -> Side:
    """Say a fact of one value."""
    if isinstance(fact, Known):
        return Side(said(fact.value))
    if isinstance(fact, Absent):
        return Side(NONE)
    return unread(fact)


def unread(fact: Unknown) -> Side:
    """Say that a fact could not be told."""
    return Side(f"not read ({fact.why})", unread=True)


def presence_of(fact: Fact[Any]) -> Side:
    """Say whether something is there at all; where it lies differs from machine to machine."""
    return Side("found") if isinstance(fact, Known) else side_of(fact)


def said(value: Any) -> str:
    """Write a value: yes and no for truth, items separated by blanks."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or NONE
    if isinstance(value, Mapping):
        return " ".join(f"{name}={item}" for name, item in value.items()) or NONE
    return str(value)


def only_here(mine: frozenset[str], other: frozenset[str]) -> str:
    """Write what one set has beyond another."""
    beyond = sorted(mine - other)
    rest = f" and {len(beyond) - _TOLD} more" if len(beyond) > _TOLD else ""
    return (" ".join(beyond[:_TOLD]) + rest) or "nothing more"


@dataclass(frozen=True)
class Led:
    """A finding that a difference leads to, and on which machine: a, b or both."""

    id: str
    on: str
    severity: str
    primary: bool


@dataclass(frozen=True)
class Difference:
    """One fact that the two machines do not share."""

    fact: str  # dotted name: driver.release, python.distributions
    key: str  # which of several: numpy, libcudart.so.12, tensorflow.cuda_version; "" where the fact is one value
    label: str  # in words: "driver release"
    area: str  # of data/diff.json, which ranks them
    a: str
    b: str
    unread: bool  # on one of the machines it could not be told
    agree: bool = False  # the machines must agree on it: a framework's release, CUDA and cuDNN
    names: tuple[str, ...] = ()  # what the evidence of a finding may call it beside its fact
    findings: tuple[Led, ...] = ()

    @property
    def matters(self) -> bool:
        """Say whether it leads to a finding that one machine alone has, or to frameworks that do not agree."""
        return self.agree or any(led.on != "both" and led.severity != "note" for led in self.findings)


@dataclass(frozen=True)
class Subject:
    """What two machines are compared in: a fact, or one of several things it holds."""

    fact: str
    key: str
    label: str
    area: str
    names: tuple[str, ...] = ()  # what the evidence of a finding may call it beside its fact
    agree: bool = False


def differ(subject: Subject, a: Side, b: Side) -> list[Difference]:
    """Return the difference of two sides, if they differ."""
    if a == b or (a.unread and b.unread):
        return []
    unread = a.unread or b.unread
    return [
        Difference(
            fact=subject.fact,
            key=subject.key,
            label=subject.label,
            area=subject.area,
            a=a.text,
            b=b.text,
            unread=unread,
            agree=subject.agree and not unread,
            names=subject.names,
        )
    ]


@dataclass(frozen=True)
class ComparedFact:
    """How a fact is compared."""

    area: str
    comparison: str  # value, presence, set, table ...
    label: str
    evidence: tuple[str, ...] = ()  # beginnings of what evidence about it may be called


@dataclass(frozen=True)
class Comparisons:
    """The content of data/diff.json: how each fact is compared, and the areas in the order of their weight."""

    areas: tuple[str, ...]
    facts: Mapping[str, ComparedFact]


def comparisons() -> Comparisons:
    """Return how each fact is compared."""
    return load_data("diff", Comparisons)


# What is compared of a GPU; its number, address, use and processes are its own.
_GPU = {
    "name": "",
    "compute_capability": " compute capability",
    "kernel_driver": " kernel driver",
    "memory_bytes": " memory in bytes",
    "compute_mode": " compute mode",
    "mig_enabled": " MIG",
}


def versions(found: tuple[Distribution, ...]) -> dict[str, str]:
    """Map distributions to their versions; the first of a name wins, as it does for Python."""
    kept: dict[str, str] = {}
    for item in found:
        kept.setdefault(item.name, item.version + (f" ({item.build})" if item.build else ""))
    return kept


def nodes(found: tuple[DeviceNode, ...]) -> dict[str, str]:
    """Map device nodes to whether they can be opened."""
    openable = {"yes": "can be opened", "no": "cannot be opened"}
    texts = {node.path: side_of(node.accessible).text for node in found}
    return {path: openable.get(text, text) for path, text in texts.items()}


def dkms(found: tuple[DkmsModule, ...]) -> dict[str, str]:
    """Map driver modules to their state."""
    return {f"{item.version} for {item.kernel_release}": item.state for item in found}


def gpus(found: tuple[Gpu, ...]) -> dict[str, str]:
    """Map each GPU's properties, by its place: "1 compute capability" to 8.0; what was not read is left out."""
    kept: dict[str, str] = {}
    for place, item in enumerate(found, 1):
        for field, label in _GPU.items():
            fact: Fact[Any] = getattr(item, field)
            if isinstance(fact, (Known, Absent)):
                kept[f"{place}{label}"] = side_of(fact).text
    return kept


def extensions(found: tuple[Extension, ...]) -> dict[str, str]:
    """Map compiled extensions to the libraries they name."""
    needed: dict[str, set[str]] = {}
    for item in found:
        needed.setdefault(item.distribution, set()).update(item.needed)
    return {name: " ".join(sorted(libraries)) for name, libraries in needed.items()}


def kernels(found: tuple[JupyterKernel, ...]) -> dict[str, str]:
    """Map Jupyter kernels to the fact that they are there."""
    return {item.name: "registered" for item in found}


def toolkits(fact: Fact[tuple[ToolkitInstall, ...]]) -> Side:
    """Name the versions of all CUDA Toolkits, wherever they lie."""
    if not isinstance(fact, Known):
        return side_of(fact)
    return Side(" ".join(sorted({side_of(item.version).text for item in fact.value})) or NONE)


def copies(fact: Fact[tuple[LibraryInstall, ...]]) -> Side:
    """Name the versions of all copies of a library, with their origin."""
    if not isinstance(fact, Known):
        return side_of(fact)
    return Side(", ".join(sorted({f"{_version(item)} ({item.origin})" for item in fact.value})) or NONE)


def _version(item: LibraryInstall) -> str:
    tellings = (item.library_version, item.package_version, item.header_version)
    known = next((fact.value for fact in tellings if isinstance(fact, Known)), "unread version")
    return known + (f" for CUDA {item.cuda_major.value}" if isinstance(item.cuda_major, Known) else "")


def rooted(facts: Facts, fact: Fact[Any]) -> Fact[str]:
    """Turn the root of a CUDA Toolkit, or several, into versions: where it lies is each machine's own."""
    if not isinstance(fact, Known):
        return fact
    installs = facts.toolkits.installs.value if isinstance(facts.toolkits.installs, Known) else ()
    known = {item.root: said(item.version.value) for item in installs if isinstance(item.version, Known)}
    roots = (fact.value,) if isinstance(fact.value, str) else fact.value
    named = " ".join(known.get(root, "of unread version") for root in roots)
    return Known(named or NONE, Source("file", "toolkit roots"))


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


def compare_facts(a: Facts, b: Facts) -> list[Difference]:
    """List every difference, in the order of the facts."""
    needed = needed_names(a) | needed_names(b)
    same_system = not _one(("host.os", comparisons().facts["host.os"]), (a.host.os, b.host.os))
    found: list[Difference] = []
    for name, row in comparisons().facts.items():
        pair = (_fact(a, name), _fact(b, name))
        if row.comparison == "frameworks":
            found += compare_frameworks(pair, libraries=same_system)
        elif row.comparison == "distributions":
            found += _distributions((name, row), pair, needed)
        elif row.comparison in {"root", "roots"}:
            found += _one((name, row), (rooted(a, pair[0]), rooted(b, pair[1])))
        else:
            found += _COMPARE[row.comparison]((name, row), pair)
    return found


def _fact(facts: Facts, name: str) -> Fact[Any]:
    value: Any = facts
    for part in name.split("."):
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]  # every leaf of Facts is a fact


Named = tuple[str, ComparedFact]


def _whole(named: Named) -> Subject:
    name, row = named
    return Subject(name, "", row.label, row.area)


def _one(named: Named, pair: Pair, say: Callable[[Fact[Any]], Side] = side_of) -> list[Difference]:
    return differ(_whole(named), say(pair[0]), say(pair[1]))


def _presence(named: Named, pair: Pair) -> list[Difference]:
    return _one(named, pair, presence_of)


def _set(named: Named, pair: Pair) -> list[Difference]:
    """Compare unordered items; only those that one machine lacks are told."""
    mine, other = (frozenset(fact.value) if isinstance(fact, Known) else frozenset() for fact in pair)
    if all(isinstance(fact, Known) for fact in pair):
        a, b = Side(only_here(mine, other)), Side(only_here(other, mine))
        return differ(_whole(named), a, b) if mine != other else []
    return _one(named, pair)


def _table(named: Named, pair: Pair) -> list[Difference]:
    return _by_key(named, pair, dict)


def _by_key(
    named: Named, pair: Pair, keyed: Callable[[Any], dict[str, Any]], needed: frozenset[str] = frozenset()
) -> list[Difference]:
    """Compare items one by one by what tells them apart; a side that was not read is told once."""
    name, row = named
    if any(isinstance(fact, Unknown) for fact in pair):
        counted = [unread(fact) if isinstance(fact, Unknown) else Side("read") for fact in pair]
        return differ(_whole(named), *counted)
    mine, other = (keyed(fact.value) if isinstance(fact, Known) else {} for fact in pair)
    found: list[Difference] = []
    for key in sorted({*mine, *other}):
        sides = [Side(said(items[key])) if key in items else Side(NONE) for items in (mine, other)]
        area = "needed" if key in needed else row.area
        found += differ(Subject(name, key, f"{row.label} {key}", area), *sides)
    return found


def _distributions(named: Named, pair: Pair, needed: frozenset[str]) -> list[Difference]:
    return _by_key(named, pair, versions, needed)


_COMPARE: dict[str, Callable[[Named, Pair], list[Difference]]] = {
    "value": _one,
    "presence": _presence,
    "set": _set,
    "table": _table,
    "nodes": lambda named, pair: _by_key(named, pair, nodes),
    "dkms": lambda named, pair: _by_key(named, pair, dkms),
    "gpus": lambda named, pair: _by_key(named, pair, gpus),
    "toolkits": lambda named, pair: _one(named, pair, toolkits),
    "copies": lambda named, pair: _one(named, pair, copies),
    "extensions": lambda named, pair: _by_key(named, pair, extensions),
    "kernels": lambda named, pair: _by_key(named, pair, kernels),
}
