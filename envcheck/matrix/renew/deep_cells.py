"""From what the binaries of a wheel say to the cells of its row: tier 2, and of the binaries that were read only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envcheck.matrix.deep.fatbin import ordered
from envcheck.matrix.load import load_document
from envcheck.matrix.renew.deep_reader import Binaries
from envcheck.matrix.renew.draft import Row, sentences

READ = r"\d+ of \d+ binaries"  # how a citation says it
_ANSWERED = {  # what a note says of a cell until the binaries fill it
    "compiler": "The compiler was not read.",
    "compute_capabilities": "Compute capabilities were not read.",
    "glibc": "glibc was not read; the tag is not trusted.",
}


def derived_cells(binaries: Binaries) -> Row:
    """Sum up what the sampled binaries say: GPU code, the glibc they ask for, the compiler that all of them name."""
    read = list(binaries["read"].values())
    targets = {target for item in read for target in item.get("architectures", ())}
    asked = [item["symbols"]["GLIBC"] for item in read if "GLIBC" in item.get("symbols", {})]
    cells: Row = {
        "compiler": _compiler([set(item.get("compilers", ())) for item in read]),
        "compute_capabilities": ordered({target for target in targets if target.startswith(("sm_", "compute_"))}),
        "glibc": max(asked, key=_number, default=None),
    }
    return {cell: value for cell, value in cells.items() if value}


def _compiler(named: list[set[str]]) -> str | None:
    """Return the one compiler that every binary names, as the matrix writes it; None where that is not one.

    {"GCC: (GNU) 11.2.1 20220127 (Red Hat 11.2.1-9)", "GCC: (GNU) 7.5.0"} -> GCC 11.2.1, if the others lack the second
    {"clang version 18.1.8", "GCC: (GNU) 9.3.1", "Linker: LLD 18.1.8"} -> clang 18.1.8; the C runtime is GCC's
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


def lay_binaries(row: Row, binaries: Binaries, citations: dict[str, Any], today: str = "") -> None:
    """Put a reading into the row of its wheel: cells that tier 1 or a person filled stay as they are.

    `today` dates the citation anew when the wheel was read just now.
    """
    before = derived_cells(row["binaries"]) if "binaries" in row else {}
    cells = derived_cells(binaries)
    for cell in [name for name in cells if name in row]:
        ours = row["proof"].get(cell) == "tier2" and row[cell] == before.get(cell)
        if not ours and row[cell] not in (None, []):
            del cells[cell]
    row.update(cells, binaries=binaries)
    row["proof"] = {**row["proof"], **dict.fromkeys(["binaries", *cells], "tier2")}
    answered = {_ANSWERED[cell] for cell in cells if cell in _ANSWERED}
    note = " ".join(item for item in sentences(row.pop("note", "")) if item not in answered)
    if note:
        row["note"] = note
    _cite(row, binaries, citations, today)


def _cite(row: Row, binaries: Binaries, citations: dict[str, Any], today: str) -> None:
    """Say in the citation of the wheel that its binaries were read, and no longer in that of an older wheel."""
    for name in [name for name in row["citations"] if "sha256" in citations[name]]:
        parts = [part for part in citations[name]["locator"].split(", ") if not re.fullmatch(READ, part)]
        if citations[name]["sha256"] == binaries["sha256"]:
            parts.append(f"{len(binaries['read'])} of {binaries['binaries']} binaries")
            citations[name] = {**citations[name], **({"checked": today} if today else {})}
        if parts:
            citations[name] = {**citations[name], "locator": ", ".join(parts)}
        else:
            row["citations"].remove(name)


@lru_cache(maxsize=1)
def known_binaries() -> Mapping[str, Binaries]:
    """Map the hash of each wheel whose binaries the built-in matrix knows to what they say."""
    return {
        row["binaries"]["sha256"]: row["binaries"]
        for versions in load_document()["releases"].values()
        for rows in versions.values()
        for row in rows
        if "binaries" in row
    }


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
