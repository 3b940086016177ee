"""What one binary says of itself, and its plain form in the matrix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envcheck.matrix.deep.errors import BinaryError
from envcheck.matrix.deep.fatbin import ordered


@dataclass(frozen=True)
class Binary:
    """Facts of an ELF or PE file; what a format cannot say stays empty."""

    format: str  # elf, pe
    machine: str  # x86_64, aarch64
    needed: tuple[str, ...]  # libraries the loader must find, in their order
    opens: tuple[str, ...] = ()  # names of libraries among its strings, which it may open itself
    runpath: tuple[str, ...] = ()  # folders its loader looks in, as written
    targets: frozenset[str] = frozenset()  # GPU code: sm_80, compute_90
    symbols: dict[str, str] = field(default_factory=dict)  # GLIBC -> 2.17: the newest version it asks for
    compilers: tuple[str, ...] = ()  # as they named themselves

    def to_json(self) -> dict[str, Any]:
        """Return its plain form: what is empty is left out, but for the libraries needed."""
        found = {
            "format": self.format,
            "machine": self.machine,
            "needed": list(self.needed),
            "opens": list(self.opens),
            "runpath": list(self.runpath),
            "architectures": ordered(set(self.targets)),
            "symbols": self.symbols,
            "compilers": list(self.compilers),
        }
        return {name: value for name, value in found.items() if value or name == "needed"}


def read_binary(path: Path) -> Binary:
    """Read an ELF or PE file, told apart by how it starts; raises BinaryError and OSError."""
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == b"\x7fELF":
        from envcheck.matrix.deep.elf import read_elf

        return read_elf(path)
    if start[:2] == b"MZ":
        from envcheck.matrix.deep.pe import read_pe

        return read_pe(path)
    raise BinaryError("it is neither an ELF nor a PE file")


def newest_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the newest version of each family: GLIBC_2.2.5, GLIBC_2.17, CXXABI_1.3 -> {CXXABI: 1.3, GLIBC: 2.17}."""
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        parsed = re.fullmatch(r"(GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)*)", name)
        if parsed:
            number = tuple(map(int, parsed[2].split(".")))
            found[parsed[1]] = max(number, found.get(parsed[1], ()))
    return {family: ".".join(map(str, found[family])) for family in sorted(found)}
