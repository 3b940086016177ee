"""Facts that hold several things: what tells them apart where paths and serial numbers always differ."""

from __future__ import annotations

from typing import Any

from envcheck.diff.plain import NONE, Side, said, side_of
from envcheck.model.facts import Absent, Fact, Known, Source
from envcheck.model.machine import DeviceNode, DkmsModule, Gpu, LibraryInstall, ToolkitInstall
from envcheck.model.python_env import Distribution, Extension, JupyterKernel
from envcheck.model.snapshot import Facts

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
