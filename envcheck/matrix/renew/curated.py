"""What people found out about releases beyond tier 1, kept apart so that a renewal can lay it over what it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.renew.draft import Row, is_remark, sentences

NO_CELLS = frozenset({"distribution", "platform", "citations", "note", "proof"})
_TIER1_MEMBERS = r"METADATA.*|build_info\.py|torch/version\.py|torch/cuda/__init__\.py"
KEPT = "-binaries"  # ends the citation of a wheel that only its binaries are cited of


@dataclass(frozen=True)
class Curated:
    """The part of a row that no renewal can read."""

    cells: Row = field(default_factory=dict)
    proof: Mapping[str, str] = field(default_factory=dict)  # of those cells: documented, tier2
    sentences: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()  # ids of documents
    members: tuple[str, ...] = ()  # what of the wheel's binaries was read
    wheel: Mapping[str, str] = field(default_factory=dict)  # citation of the wheel whose members those are


def curated_part(row: Row, table: Mapping[str, Any]) -> Curated:
    """Take from a row what is not tier 1: cells, sentences, documents and binaries; `table` holds the citations."""
    proof = {cell: tier_of(row, cell) for cell in row if cell not in NO_CELLS}
    cells = {cell: row[cell] for cell, tier in proof.items() if tier != "tier1"}
    first, *others = row["citations"]
    members = [name for name in table[first]["locator"].split(", ") if not re.fullmatch(_TIER1_MEMBERS, name)]
    return Curated(
        cells,
        {cell: proof[cell] for cell in cells},
        tuple(item for item in sentences(row.get("note", "")) if not is_remark(item)),
        tuple(name for name in others if "sha256" not in table[name] or name.endswith(KEPT)),
        tuple(members),
        table[first],
    )


def tier_of(row: Row, cell: str) -> str:
    """Return how a cell is known: "*" stands for the cells a row's proof does not name."""
    proof: Mapping[str, str] = row["proof"]
    return proof.get(cell, proof.get("*", "documented"))


@lru_cache(maxsize=1)
def curated_file() -> Mapping[str, Any]:
    """Read the findings that ship with the program: sources, documents, and statements by release."""
    found: Mapping[str, Any] = json.loads(read_data("curated_releases.json"))
    return found


def sources(framework: str) -> tuple[tuple[str, ...], str]:
    """Return the distributions to read of a framework, and its first release the matrix holds."""
    found = curated_file()["sources"][framework]
    return tuple(found["distributions"]), found["first"]


def documents() -> Mapping[str, Any]:
    """Return the citations that the statements rest on."""
    found: Mapping[str, Any] = curated_file()["citations"]
    return found


def curated_statement(framework: str, distribution: str, platform: str, version: str) -> Curated:
    """Return what is stated of one row; nothing where the file has no statement."""
    for item in _statements().get((framework, distribution, platform), ()):
        if version in item["versions"]:
            return Curated(
                item.get("cells", {}),
                item.get("proof", {}),
                tuple(item.get("sentences", ())),
                tuple(item.get("citations", ())),
                tuple(item.get("members", ())),
            )
    return Curated()


@lru_cache(maxsize=1)
def _statements() -> Mapping[tuple[str, str, str], list[Any]]:
    found: dict[tuple[str, str, str], list[Any]] = {}
    for item in curated_file()["statements"]:
        found.setdefault((item["framework"], item["distribution"], item["platform"]), []).append(item)
    return found
