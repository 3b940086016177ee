"""Lay what people found out over what was read, and put the rows into a matrix document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envcheck.matrix.load import every_row
from envcheck.matrix.renew.curated import KEPT, Curated, curated_part, curated_statement, documents
from envcheck.matrix.renew.deep_cells import known_binaries, lay_binaries
from envcheck.matrix.renew.draft import Draft, Row

Document = dict[str, Any]


def merge_release(document: Document, framework: str, drafts: Iterable[Draft], today: str) -> None:
    """Put the rows of one release into a document; rows it holds keep what people found out."""
    for draft in drafts:
        versions = document["releases"].setdefault(framework, {})
        rows = versions.setdefault(draft.group.version, [])
        old = next((row for row in rows if (row["distribution"], row["platform"]) == draft.key), None)
        if old is None:
            curated = curated_statement(framework, *draft.key, draft.group.version)
        else:
            curated = curated_part(old, document["citations"])
            rows.remove(old)
        row = finished_row(draft, curated)
        rows.append(row)
        document["citations"].update(_citations(draft, curated, today))
        if draft.wheel.sha256 in known_binaries():
            lay_binaries(row, known_binaries()[draft.wheel.sha256], document["citations"])


def finished_row(draft: Draft, curated: Curated) -> Row:
    """Write a row: what people found out wins over what tier 1 reads, and drops the remarks it answers."""
    laid = {cell: value for cell, value in curated.cells.items() if not _same(draft, curated, cell)}
    proof = {**draft.proof, **{cell: curated.proof[cell] for cell in laid}}
    answered = set(laid)
    remarks = [
        item.text
        for item in draft.remarks
        if item.cell not in answered or not (item.gap or proof.get(item.cell) == "tier2")
    ]
    distribution, platform = draft.key
    cites = [draft.citation_id, *draft.also, *curated.citations, *_kept_wheel(draft, curated)]
    row: Row = {
        "distribution": distribution,
        "platform": platform,
        **draft.cells,
        **laid,
        "citations": list(dict.fromkeys(cites)),
        "proof": {"*": "tier1", **proof},
    }
    note = " ".join(dict.fromkeys([*remarks, *curated.sentences]))
    return {**row, "note": note} if note else row


def _same(draft: Draft, curated: Curated, cell: str) -> bool:
    """Tell whether a finding is no more than what the draft infers itself."""
    return cell in draft.proof and (draft.cells[cell], draft.proof[cell]) == (curated.cells[cell], curated.proof[cell])


def _citations(draft: Draft, curated: Curated, today: str) -> Document:
    members = [*draft.members, *(() if _kept_wheel(draft, curated) else curated.members)]
    body = {
        "url_or_artifact": draft.wheel.filename,
        "locator": ", ".join(dict.fromkeys(members)),
        "checked": today,
        "sha256": draft.wheel.sha256,
    }
    kept = {name: {**curated.wheel, "locator": ", ".join(curated.members)} for name in _kept_wheel(draft, curated)}
    stated = {name: documents()[name] for name in curated.citations if name in documents()}
    return {**stated, **kept, draft.citation_id: body}


def _kept_wheel(draft: Draft, curated: Curated) -> list[str]:
    """Name the citation of an older wheel whose binaries were read, once another wheel speaks for the row."""
    moved = curated.members and curated.wheel and curated.wheel["sha256"] != draft.wheel.sha256
    return [draft.citation_id + KEPT] if moved else []


def drop_unused_citations(document: Document) -> None:
    """Leave out what no row cites any more."""
    cited = {name for row in every_row(document) for name in row["citations"]}
    document["citations"] = {name: body for name, body in document["citations"].items() if name in cited}


def has_all(rows: Iterable[Mapping[str, Any]], citations: Mapping[str, Any], groups: Iterable[Any]) -> bool:
    """Tell whether rows already say all that the index lists of a release: wheels, Pythons, tags, what is yanked."""
    known = {(row["distribution"], row["platform"]): row for row in rows}
    return all(_is_current(known.get((group.distribution, group.platform)), citations, group) for group in groups)


def _is_current(row: Mapping[str, Any] | None, citations: Mapping[str, Any], group: Any) -> bool:
    if row is None or citations[row["citations"][0]].get("sha256") != group.representative.sha256:
        return False
    pythons, free_threaded = group.pythons(), group.pythons(free_threaded=True)
    listed = pythons in ([], row["pythons"]) and free_threaded == row.get("free_threaded", [])
    yanked = group.yanked == len(group.wheels) if group.yanked else None
    said = f"Yanked wheels: {group.yanked} of {len(group.wheels)}." if group.yanked else ""
    return listed and group.tags == row["tags"] and row.get("yanked") == yanked and said in row.get("note", "")
