"""Compare the facts and framework builds of two machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from envcheck.host.data_files import load_data
from envcheck.matrix.gpus import get_gpu_model
from envcheck.model import (
    Absent,
    DeviceNode,
    Distribution,
    Extension,
    Fact,
    Facts,
    FrameworkBuild,
    Gpu,
    Known,
    LibraryInstall,
    LibraryLookup,
    OtherGpu,
    ToolkitInstall,
    Unknown,
    dataclass,
    from_file,
    replace,
)
from envcheck.model.text import shorten
from envcheck.model.versions import name_of
from envcheck.rules.gpu_releases import other_gpu_name

NONE = "none"
_MAX_ITEMS = 12  # items of a set that are listed
Pair = tuple[Fact[Any], Fact[Any]]


@dataclass
class LinkedFinding:
    """A finding that a difference leads to, and its machine: a, b or both."""

    id: str
    on: str
    severity: str
    primary: bool


@dataclass
class Difference:
    """One fact that differs between the machines, or, without sides, what is compared."""

    fact: str  # dotted name: driver.release, python.distributions
    key: str  # the item: numpy, libcudart.so.12, tensorflow.cuda_version; "" for the whole fact
    label: str  # in words: "driver release"
    area: str  # of data/program/diff.json, which ranks them
    names: tuple[str, ...] = ()  # other names of the subject in the evidence of findings
    # the machines must agree on it: a framework's release, CUDA and cuDNN; no GPU may be lost
    agree: bool = False
    a: str = ""
    b: str = ""
    unread: bool = False  # unknown on one of the machines
    findings: tuple[LinkedFinding, ...] = ()

    @property
    def matters(self) -> bool:
        """Return whether it leads to a finding of one machine, or to frameworks that differ."""
        return self.agree or any(
            link.on != "both" and link.severity != "note" for link in self.findings
        )

    @property
    def is_lost_gpu(self) -> bool:
        """Return whether one machine has the GPUs of the other but for some, or none."""
        return self.agree and self.fact == "gpus"


@dataclass
class Side:
    """The value on one machine: `text` for people; `unread` for an unknown value."""

    text: str
    unread: bool = False


def compare_sides(subject: Difference, a: Side, b: Side) -> list[Difference]:
    """Return the difference between two sides, if any; two unknown sides do not differ."""
    if a == b or (a.unread and b.unread):
        return []
    unread = a.unread or b.unread
    agree = subject.agree and not unread
    return [replace(subject, a=a.text, b=b.text, unread=unread, agree=agree)]


def describe(fact: Fact[Any]) -> Side:
    """Describe a fact of one value."""
    if isinstance(fact, Unknown):
        return Side(f"not read ({fact.why})", unread=True)
    return Side(format_value(fact.value) if isinstance(fact, Known) else NONE)


def describe_presence(fact: Fact[Any]) -> Side:
    """Describe whether something exists; its place differs from machine to machine."""
    return Side("found") if isinstance(fact, Known) else describe(fact)


def describe_reading(fact: Fact[Any]) -> Side:
    """Describe whether a fact of several items could be read."""
    return describe(fact) if isinstance(fact, Unknown) else Side("read")


def format_value(value: Any) -> str:
    """Format a value: yes or no for a truth value, items separated by spaces."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or NONE
    if isinstance(value, Mapping):
        return " ".join(f"{name}={item}" for name, item in value.items()) or NONE
    return str(value)


@dataclass
class ComparedFact:
    """How a fact is compared."""

    area: str
    comparison: str  # value, presence, set, table ...
    label: str
    evidence: tuple[str, ...] = ()  # prefixes of the names that evidence about it may have


@dataclass
class Comparisons:
    """The content of data/program/diff.json.

    How each fact is compared, and the areas in the order of their weight.
    """

    areas: tuple[str, ...]
    facts: Mapping[str, ComparedFact]


def load_comparisons() -> Comparisons:
    """Load how each fact is compared."""
    return load_data("program/diff", Comparisons)


def compare_facts(a: Facts, b: Facts) -> list[Difference]:
    """List every difference in the order of the facts."""
    needed = {"distributions": list_needed_names(a) | list_needed_names(b)}
    is_same_system = not compare_sides(
        Difference("host.os", "", "", ""), describe(a.host.os), describe(b.host.os)
    )
    differences: list[Difference] = []
    for name, row in load_comparisons().facts.items():
        subject, kind = Difference(name, "", row.label, row.area), row.comparison
        pair = (_get_fact(a, name), _get_fact(b, name))
        if kind == "frameworks":
            differences += compare_frameworks(pair, libraries=is_same_system)
        elif kind == "set":
            differences += _compare_sets(subject, pair)
        elif kind in {"gpus", *_ITEMS} and any(isinstance(fact, Unknown) for fact in pair):
            differences += compare_sides(subject, *map(describe_reading, pair))
        elif kind == "gpus":
            differences += _compare_gpus(subject, pair)
        elif kind in _ITEMS:
            differences += _compare_items(
                subject, pair, _ITEMS[kind], needed.get(kind, frozenset())
            )
        else:
            if kind in {"root", "roots"}:
                pair = (resolve_roots(a, pair[0]), resolve_roots(b, pair[1]))
            differences += compare_sides(subject, *map(_DESCRIBE.get(kind, describe), pair))
    return differences


def _get_fact(facts: Facts, name: str) -> Fact[Any]:
    value: Any = facts
    for part in name.split("."):
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]  # every leaf of Facts is a fact


def _compare_sets(subject: Difference, pair: Pair) -> list[Difference]:
    """Compare unordered items; each side shows only the items that the other lacks."""
    if not all(fact.value is not None for fact in pair):
        return compare_sides(subject, *map(describe, pair))
    a, b = (frozenset(fact.value or ()) for fact in pair)
    if a != b:
        return compare_sides(subject, Side(_format_extra(a - b)), Side(_format_extra(b - a)))
    return []


def _format_extra(items: frozenset[str]) -> str:
    return shorten(sorted(items), _MAX_ITEMS, " ") or "nothing more"


def _compare_items(
    subject: Difference, pair: Pair, index: Callable[[Any], dict[str, Any]], needed: frozenset[str]
) -> list[Difference]:
    """Compare the items of a fact by their keys.

    `needed` keys belong to the area of needed distributions.
    """
    a, b = (index(fact.value) if fact.value is not None else {} for fact in pair)
    return _compare_indexed(subject, a, b, needed)


def _compare_indexed(
    subject: Difference,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    needed: frozenset[str] = frozenset(),
) -> list[Difference]:
    differences: list[Difference] = []
    for key in sorted({*a, *b}):
        sides = [Side(format_value(items[key])) if key in items else Side(NONE) for items in (a, b)]
        area = "needed" if key in needed else subject.area
        item = replace(subject, key=key, label=f"{subject.label} {key}", area=area)
        differences += compare_sides(item, *sides)
    return differences


def _index_versions(distributions: tuple[Distribution, ...]) -> dict[str, str]:
    """Map distributions to their versions."""
    first = _keep_first(distributions)
    return {
        name: item.version + (f" ({item.build})" if item.build else "")
        for name, item in first.items()
    }


def _keep_first(distributions: Iterable[Distribution]) -> dict[str, Distribution]:
    """Map names to distributions; Python imports the first of a name."""
    kept: dict[str, Distribution] = {}
    for item in distributions:
        kept.setdefault(item.name, item)
    return kept


def _index_nodes(nodes: tuple[DeviceNode, ...]) -> dict[str, str]:
    """Map device nodes to whether this user can open them."""
    texts = {"yes": "can be opened", "no": "cannot be opened"}
    sides = {node.path: describe(node.accessible).text for node in nodes}
    return {path: texts.get(text, text) for path, text in sides.items()}


# The compared properties of a GPU; its number, address, use and processes are its own.
_GPU = {
    "name": "",
    "compute_capability": " compute capability",
    "kernel_driver": " kernel driver",
    "memory_bytes": " memory in bytes",
    "compute_mode": " compute mode",
    "mig_enabled": " MIG",
}


def _compare_gpus(subject: Difference, pair: Pair) -> list[Difference]:
    """Compare how many GPUs there are, then the properties of those that both machines have."""
    a, b = (fact.value or () for fact in pair)
    same = [_with_spelling(one, other) for one, other in zip(b, a, strict=False)]
    properties = _compare_indexed(subject, _index_gpus(a[: len(same)]), _index_gpus(same))
    if len(a) == len(b):
        return properties
    few, many = (Counter(map(get_gpu_model, gpus)) for gpus in sorted((a, b), key=len))
    return [
        *compare_sides(
            replace(subject, label="GPUs", agree=few <= many), *map(_count_gpus, (a, b))
        ),
        *properties,
    ]


def _with_spelling(gpu: Gpu, other: Gpu) -> Gpu:
    """Name a GPU as the other one where the names differ in their spelling alone."""
    if get_gpu_model(gpu) == get_gpu_model(other):
        return replace(gpu, name=other.name)
    return gpu


def _count_gpus(gpus: Sequence[Gpu]) -> Side:
    """Describe GPUs as one counts them: 8 x NVIDIA H100 80GB HBM3."""
    counts = Counter(gpu.name.value or "GPU of unknown name" for gpu in gpus)
    return Side(", ".join(f"{count} x {name}" for name, count in counts.items()) or NONE)


def _index_gpus(gpus: Iterable[Gpu]) -> dict[str, str]:
    """Map the known properties of each GPU by its place: "1 compute capability" to 8.0."""
    properties: dict[str, str] = {}
    for place, gpu in enumerate(gpus, 1):
        for field, label in _GPU.items():
            fact: Fact[Any] = getattr(gpu, field)
            if not isinstance(fact, Unknown):
                properties[f"{place}{label}"] = describe(fact).text
    return properties


def _index_other_gpus(gpus: tuple[OtherGpu, ...]) -> dict[str, str]:
    return {gpu.pci_address.value or gpu.vendor: other_gpu_name(gpu) for gpu in gpus}


def _index_extensions(extensions: tuple[Extension, ...]) -> dict[str, str]:
    """Map compiled extensions to the libraries that they need."""
    needed: dict[str, set[str]] = {}
    for item in extensions:
        needed.setdefault(item.distribution, set()).update(item.needed)
    return {name: " ".join(sorted(libraries)) for name, libraries in needed.items()}


def _index_by_format(key: str, text: str, items: Iterable[Any]) -> dict[str, str]:
    return {key.format(item): text.format(item) for item in items}


_ITEMS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "table": dict,
    "distributions": _index_versions,
    "nodes": _index_nodes,
    "dkms": partial(_index_by_format, "{0.version} for {0.kernel_release}", "{0.state}"),
    "other_gpus": _index_other_gpus,
    "extensions": _index_extensions,
    "kernels": partial(_index_by_format, "{0.name}", "registered"),
    "files": partial(_index_by_format, "{0.path}", "{0.kind}"),
    "link_faults": partial(_index_by_format, "{0.distribution} {0.library}", "{0.kind}"),
}


def _describe_toolkits(fact: Fact[tuple[ToolkitInstall, ...]]) -> Side:
    """Describe the versions of all CUDA Toolkits, without their places."""
    if not isinstance(fact, Known):
        return describe(fact)
    return Side(" ".join(sorted({describe(item.version).text for item in fact.value})) or NONE)


def _describe_copies(fact: Fact[tuple[LibraryInstall, ...]]) -> Side:
    """Describe the versions of all copies of a library, with their origin."""
    if not isinstance(fact, Known):
        return describe(fact)
    return Side(
        ", ".join(sorted({f"{_format_version(item)} ({item.origin})" for item in fact.value}))
        or NONE
    )


def _format_version(item: LibraryInstall) -> str:
    readings = (item.library_version, item.package_version, item.header_version)
    version = next((fact.value for fact in readings if fact.value is not None), "unknown version")
    return version + (
        f" for CUDA {item.cuda_major.value}" if item.cuda_major.value is not None else ""
    )


_DESCRIBE: dict[str, Callable[[Fact[Any]], Side]] = {
    "presence": describe_presence,
    "toolkits": _describe_toolkits,
    "copies": _describe_copies,
}


def resolve_roots(facts: Facts, fact: Fact[Any]) -> Fact[str]:
    """Replace the roots of CUDA Toolkits by their versions.

    Places differ from machine to machine.
    """
    if not isinstance(fact, Known):
        return fact
    installs = facts.toolkits.installs.value or ()
    versions = {
        item.root: item.version.value for item in installs if item.version.value is not None
    }
    roots = (fact.value,) if isinstance(fact.value, str) else fact.value
    text = " ".join(versions.get(root, "unknown version") for root in roots)
    return from_file(text or NONE, "toolkit roots")


_FRAMEWORKS = "python.frameworks"
_AREA = "frameworks"
# Fields of a build in words; both machines must agree on the first three.
_BUILD_FIELDS = {
    "cuda_build": "CUDA build of",
    "cuda_version": "CUDA version of",
    "cudnn_version": "cuDNN version of",
    "compute_capabilities": "GPU code of",
    "accelerator": "other GPUs served by",
    "shadowed_by": "imported in place of",
}
_MUST_AGREE = ("cuda_build", "cuda_version", "cudnn_version")
Builds = dict[str, FrameworkBuild]


def compare_frameworks(pair: Pair, *, libraries: bool) -> list[Difference]:
    """List the differences between builds of one distribution.

    `libraries`: also where the loader finds theirs.
    """
    if any(isinstance(fact, Unknown) for fact in pair):
        return compare_sides(
            Difference(_FRAMEWORKS, "", "frameworks", _AREA), *map(describe_reading, pair)
        )
    mine, other = _match_builds(*(fact.value or () for fact in pair))
    differences: list[Difference] = []
    for name in sorted({*mine, *other}):
        a, b = mine.get(name), other.get(name)
        sides = [Side(_format_release(build, name) if build else NONE) for build in (a, b)]
        names = tuple(build.label for build in (a, b) if build)
        differences += compare_sides(
            Difference(_FRAMEWORKS, name, name, _AREA, names, agree=True), *sides
        )
        if a is not None and b is not None:
            differences += _compare_build_fields(name, a, b, names)
            if libraries:
                differences += _compare_libraries(name, a, b)
    return differences


def _match_builds(
    mine: Sequence[FrameworkBuild], other: Sequence[FrameworkBuild]
) -> tuple[Builds, Builds]:
    """Match builds by distribution, or by framework where each machine has one of it."""
    counts = [Counter(build.framework for build in builds) for builds in (mine, other)]
    single = {name for name in counts[0] if counts[0][name] == counts[1][name] == 1}
    first, second = (
        {
            build.framework if build.framework in single else build.distribution: build
            for build in builds
        }
        for builds in (mine, other)
    )
    return first, second


def _format_release(build: FrameworkBuild, name: str) -> str:
    if build.distribution == name:
        return build.version
    return build.label


def _compare_build_fields(
    name: str, a: FrameworkBuild, b: FrameworkBuild, names: tuple[str, ...]
) -> Iterator[Difference]:
    for field, words in _BUILD_FIELDS.items():
        subject = Difference(
            _FRAMEWORKS,
            f"{name}.{field}",
            f"{words} {name}",
            _AREA,
            names,
            agree=field in _MUST_AGREE,
        )
        yield from compare_sides(subject, describe(getattr(a, field)), describe(getattr(b, field)))


def _compare_libraries(name: str, a: FrameworkBuild, b: FrameworkBuild) -> Iterator[Difference]:
    """Compare the lookups of libraries that both builds need.

    The others follow from the release.
    """
    mine, other = ({item.soname: item for item in build.libraries.value or ()} for build in (a, b))
    for soname in sorted({*mine} & {*other}):
        names = (soname, f"{soname} for cuDNN", f"library {soname}")
        subject = Difference(
            _FRAMEWORKS, f"{name}.{soname}", f"{soname} for {name}", "loader", names
        )
        yield from compare_sides(
            subject, _describe_lookup(mine[soname]), _describe_lookup(other[soname])
        )


def _describe_lookup(lookup: LibraryLookup) -> Side:
    if isinstance(lookup.found, Unknown):
        return describe(lookup.found)
    if isinstance(lookup.found, Absent):
        return Side(
            "not found" + (" (a copy exists off the loader's path)" if lookup.elsewhere else "")
        )
    version = ""
    if lookup.version.value is not None:
        version = f" {lookup.version.value}"
    return Side(f"found{version}" + (f" by {lookup.via}" if lookup.via else ""))


def list_needed_names(facts: Facts) -> frozenset[str]:
    """Return the distributions that the frameworks of a machine need, also through others."""
    installed = _keep_first(facts.python.distributions.value or ())
    waiting = [build.distribution for build in facts.python.frameworks.value or ()]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            if name in installed:
                waiting += _parse_required(installed[name].requires)
    return frozenset(needed)


def _parse_required(requires: Iterable[str]) -> Iterator[str]:
    """Parse the names in Requires-Dist lines; of an extra only NVIDIA's libraries.

    nvidia-cudnn-cu12 (>=9.3) ; extra == 'and-cuda'
    """
    for line in requires:
        name = name_of(line)
        if name.startswith("nvidia-") or (name and "extra" not in line.partition(";")[2]):
            yield name
