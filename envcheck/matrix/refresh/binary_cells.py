"""Derive cells of the matrix from the binaries of a wheel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envcheck.matrix.companions import published_framework
from envcheck.matrix.load import iterate_rows, load_document
from envcheck.matrix.refresh.gpu_code import list_supported
from envcheck.matrix.refresh.rows import Row, sentences
from envcheck.model import numbers

Binaries = dict[str, Any]  # the cell `binaries` of the matrix
EDITION = "2"  # part of the folder's name: another edition reads other facts


def lacks_counts(binaries: Binaries) -> bool:
    """Return whether an earlier edition read the binaries and kept no counts."""
    return any("architectures" in facts for facts in binaries.get("read", {}).values())


READ = r"\d+ of \d+ binaries"  # in the locator of a citation
_REMARK_OF = {  # the remark on a cell until binaries fill it
    "compiler": "The compiler was not read.",
    "compute_capabilities": "Compute capabilities were not read.",
    "glibc": "glibc was not read; the tag is not trusted.",
    "cuda": "CUDA was not read.",
    "cudnn": "cuDNN was not read.",
    "tensorrt": "TensorRT was not read.",
}


def derive_cells(framework: str, binaries: Binaries) -> Row:
    """Derive cells from the sampled binaries.

    GPU code, glibc, the compiler that all name, what the framework adds.
    """
    read = list(binaries["read"].values())
    floors = [item["symbols"]["GLIBC"] for item in read if "GLIBC" in item.get("symbols", {})]
    cells: Row = {
        "compiler": _find_compiler([set(item.get("compilers", ())) for item in read]),
        "compute_capabilities": list_supported(read),
        "glibc": max(floors, key=numbers, default=None),
    }
    known = published_framework(framework)
    if known:
        cells |= known.binary_cells(binaries["read"])
    return {cell: value for cell, value in cells.items() if value}


def _find_compiler(named: list[set[str]]) -> str | None:
    """Return the one compiler that every binary names, as the matrix writes it.

    Return None for none or several.

    {"GCC: (GNU) 11.2.1 20220127 (Red Hat 11.2.1-9)", "GCC: (GNU) 7.5.0"} -> GCC 11.2.1, if no other
    binary names 7.5.0 {"clang version 18.1.8", "GCC: (GNU) 9.3.1", "Linker: LLD 18.1.8"} -> clang
    18.1.8; GCC built the C runtime
    """
    shared = sorted(set.intersection(*named)) if named else []
    for name, pattern in (
        ("clang", r"(?:Ubuntu )?clang version (\d+(?:\.\d+)*)"),
        ("GCC", r"GCC: \(.*?\) (\d+(?:\.\d+)*)"),
    ):
        versions = {found[1] for found in (re.match(pattern, text) for text in shared) if found}
        if versions:
            return f"{name} {versions.pop()}" if len(versions) == 1 else None
    return None


def apply_binaries(
    framework: str, row: Row, binaries: Binaries, citations: dict[str, Any], today: str = ""
) -> None:
    """Put the facts of binaries into the row of their wheel.

    Cells of tier 1 and curated cells stay.

    `today`: the new date of the citation if the wheel was read just now.
    """
    before = derive_cells(framework, row["binaries"]) if "binaries" in row else {}
    cells = derive_cells(framework, binaries)
    for cell in [name for name in cells if name in row]:
        ours = row["proof"].get(cell) == "tier2" and row[cell] == before.get(cell)
        if not ours and row[cell] not in (None, []):
            del cells[cell]
    row.update(cells, binaries=binaries)
    row["proof"] = {**row["proof"], **dict.fromkeys(["binaries", *cells], "tier2")}
    answered = {_REMARK_OF[cell] for cell in cells if cell in _REMARK_OF}
    note = " ".join(item for item in sentences(row.pop("note", "")) if item not in answered)
    if note:
        row["note"] = note
    _update_citations(row, binaries, citations, today)


def _update_citations(row: Row, binaries: Binaries, citations: dict[str, Any], today: str) -> None:
    """Note in the wheel's citation that its binaries were read; remove older notes."""
    for name in [name for name in row["citations"] if "sha256" in citations[name]]:
        parts = [
            part for part in citations[name]["locator"].split(", ") if not re.fullmatch(READ, part)
        ]
        if citations[name]["sha256"] == binaries["sha256"]:
            parts.append(f"{len(binaries['read'])} of {binaries['binaries']} binaries")
            citations[name] = {**citations[name], **({"checked": today} if today else {})}
        if parts:
            citations[name] = {**citations[name], "locator": ", ".join(parts)}
        else:
            row["citations"].remove(name)


@lru_cache(maxsize=1)
def load_known_binaries() -> Mapping[str, Binaries]:
    """Map the hash of each wheel whose binaries the built-in matrix holds to their facts."""
    rows = iterate_rows({"releases": load_document()["releases"]})
    return {row["binaries"]["sha256"]: row["binaries"] for row in rows if "binaries" in row}
