"""Merge what was read of wheels with curated facts into a matrix document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from envcheck.frameworks import all_frameworks, framework_names
from envcheck.frameworks import framework as known_framework
from envcheck.host.data_files import load_data
from envcheck.matrix.load import iterate_rows
from envcheck.matrix.refresh.deep import apply_binaries, load_known_binaries
from envcheck.matrix.refresh.rows import Draft, Row, is_remark, sentences
from envcheck.matrix.refresh.wheels import Group
from envcheck.model import dataclass, field

Document = dict[str, Any]  # a matrix document as JSON: rows are compared and changed cell by cell

NO_CELLS = frozenset({"distribution", "platform", "citations", "note", "proof"})
_BINARIES_SUFFIX = "-binaries"  # ends the citation of a wheel that is cited for its binaries alone


@dataclass(frozen=True)
class Source:
    """The distributions that a framework or companion is published as, and the first release that the matrix holds."""

    distributions: tuple[str, ...]
    first: str


@dataclass(frozen=True)
class Statement:
    """A curated statement about releases of a distribution on a platform."""

    framework: str
    distribution: str
    platform: str
    versions: tuple[str, ...]
    cells: Mapping[str, Any] = field(default_factory=dict)
    proof: Mapping[str, str] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class CuratedReleases:
    """The content of data/curated_releases.json."""

    sources: Mapping[str, Source]  # by companion
    citations: Mapping[str, Mapping[str, str]]  # documents that the statements rest on
    statements: tuple[Statement, ...]


def load_curated() -> CuratedReleases:
    """Return data/curated_releases.json."""
    return load_data("curated_releases", CuratedReleases)


def find_source(name: str) -> Source:
    """Return where the index has a framework or companion."""
    if name in framework_names():
        known = known_framework(name)
        return Source(known.published, known.first_release)
    return load_curated().sources[name]


@dataclass(frozen=True)
class Curated:
    """The part of a row that no refresh can read."""

    cells: Mapping[str, Any] = field(default_factory=dict)
    proof: Mapping[str, str] = field(default_factory=dict)  # of those cells: documented, tier2
    sentences: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()  # ids of documents
    members: tuple[str, ...] = ()  # what of the wheel's binaries was read
    wheel: Mapping[str, str] = field(default_factory=dict)  # citation of the wheel that has these members


def find_curated(framework: str, distribution: str, platform: str, version: str) -> Curated:
    """Return what the curated file states about a row; an empty part if it states nothing."""
    for item in load_curated().statements:
        key = (item.framework, item.distribution, item.platform)
        if key == (framework, distribution, platform) and version in item.versions:
            return Curated(item.cells, item.proof, item.sentences, item.citations, item.members)
    return Curated()


def extract_curated(row: Row, citations: Mapping[str, Any]) -> Curated:
    """Extract the part of a row that is not tier 1: cells, sentences, documents and binaries."""
    proof = {cell: get_tier(row, cell) for cell in row if cell not in NO_CELLS}
    cells = {cell: row[cell] for cell, tier in proof.items() if tier != "tier1"}
    first, *others = row["citations"]
    members = [name for name in citations[first]["locator"].split(", ") if not re.fullmatch(_tier1_members(), name)]
    return Curated(
        cells,
        {cell: proof[cell] for cell in cells},
        tuple(item for item in sentences(row.get("note", "")) if not is_remark(item)),
        tuple(name for name in others if "sha256" not in citations[name] or name.endswith(_BINARIES_SUFFIX)),
        tuple(members),
        citations[first],
    )


@lru_cache(maxsize=1)
def _tier1_members() -> str:
    """Return the pattern of the members that a citation names if no binary of the wheel was read."""
    return "|".join(["METADATA.*", *(each.cited_texts or each.wheel_texts for each in all_frameworks())])


def get_tier(row: Row, cell: str) -> str:
    """Return how a cell is known: "*" stands for the cells that a row's proof does not name."""
    proof: Mapping[str, str] = row["proof"]
    return proof.get(cell, proof.get("*", "documented"))


def merge_release(document: Document, framework: str, drafts: Iterable[Draft], today: str) -> None:
    """Put the rows of one release into a document; rows that it holds keep their curated part."""
    for draft in drafts:
        rows = document["releases"].setdefault(framework, {}).setdefault(draft.group.version, [])
        old = next((row for row in rows if (row["distribution"], row["platform"]) == draft.key), None)
        if old is None:
            curated = find_curated(framework, *draft.key, draft.group.version)
        else:
            curated = extract_curated(old, document["citations"])
            rows.remove(old)
        row = build_row(draft, curated)
        rows.append(row)
        document["citations"].update(_build_citations(draft, curated, today))
        if draft.wheel.sha256 in load_known_binaries():
            apply_binaries(framework, row, load_known_binaries()[draft.wheel.sha256], document["citations"])


def build_row(draft: Draft, curated: Curated) -> Row:
    """Build a row: curated cells replace those of tier 1, and the remarks that they answer are dropped."""
    cells = {cell: value for cell, value in curated.cells.items() if not _is_inferred(draft, curated, cell)}
    proof = {**draft.proof, **{cell: curated.proof[cell] for cell in cells}}
    remarks = [
        item.text
        for item in draft.remarks
        if item.cell not in cells or not (item.gap or proof.get(item.cell) == "tier2")
    ]
    distribution, platform = draft.key
    citations = [draft.citation_id, *draft.also, *curated.citations, *_cite_older_wheel(draft, curated)]
    row: Row = {
        "distribution": distribution,
        "platform": platform,
        **draft.cells,
        **cells,
        "citations": list(dict.fromkeys(citations)),
        "proof": {"*": "tier1", **proof},
    }
    note = " ".join(dict.fromkeys([*remarks, *curated.sentences]))
    return {**row, "note": note} if note else row


def _is_inferred(draft: Draft, curated: Curated, cell: str) -> bool:
    """Tell whether a curated cell is the one that the draft infers itself."""
    return cell in draft.proof and (draft.cells[cell], draft.proof[cell]) == (curated.cells[cell], curated.proof[cell])


def _build_citations(draft: Draft, curated: Curated, today: str) -> Document:
    older = _cite_older_wheel(draft, curated)
    members = [*draft.members, *(() if older else curated.members)]
    wheel = {
        "url_or_artifact": draft.wheel.filename,
        "locator": ", ".join(dict.fromkeys(members)),
        "checked": today,
        "sha256": draft.wheel.sha256,
    }
    kept = {name: {**curated.wheel, "locator": ", ".join(curated.members)} for name in older}
    documents = load_curated().citations
    return {
        **{name: dict(documents[name]) for name in curated.citations if name in documents},
        **kept,
        draft.citation_id: wheel,
    }


def _cite_older_wheel(draft: Draft, curated: Curated) -> list[str]:
    """Name the citation of the wheel whose binaries were read, if the row rests on another wheel now."""
    moved = curated.members and curated.wheel and curated.wheel["sha256"] != draft.wheel.sha256
    return [draft.citation_id + _BINARIES_SUFFIX] if moved else []


def drop_unused_citations(document: Document) -> None:
    """Drop the citations that no row cites."""
    cited = {name for row in iterate_rows(document) for name in row["citations"]}
    document["citations"] = {name: body for name, body in document["citations"].items() if name in cited}


def is_up_to_date(rows: Iterable[Row], citations: Mapping[str, Any], groups: Iterable[Group]) -> bool:
    """Tell whether rows state all that the index lists of a release: wheels, Pythons, tags, yanked wheels."""
    known = {(row["distribution"], row["platform"]): row for row in rows}
    return all(_is_current(known.get((group.distribution, group.platform)), citations, group) for group in groups)


def _is_current(row: Row | None, citations: Mapping[str, Any], group: Group) -> bool:
    if row is None or citations[row["citations"][0]].get("sha256") != group.representative.sha256:
        return False
    pythons, free_threaded = group.pythons(), group.pythons(free_threaded=True)
    is_listed = pythons in ([], row["pythons"]) and free_threaded == row.get("free_threaded", [])
    yanked = group.yanked == len(group.wheels) if group.yanked else None
    remark = f"Yanked wheels: {group.yanked} of {len(group.wheels)}." if group.yanked else ""
    return is_listed and group.tags == row["tags"] and row.get("yanked") == yanked and remark in row.get("note", "")
