"""Merge curated facts over what was read, and write the matrix document in its canonical form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any

from packaging.version import Version

from envcheck.host.data_files import read_data
from envcheck.matrix.load import FILES, SECTIONS, iterate_rows
from envcheck.matrix.refresh.deep import apply_binaries, load_known_binaries
from envcheck.matrix.refresh.rows import Draft, Row, is_remark, sentences


def canonical_text(document: Mapping[str, Any]) -> str:
    """Write a matrix document, or a part of one, in canonical form: ordered, a row a line, its cells sorted."""
    written = (
        f" {json.dumps(name)}: {_written(_ORDER.get(name, _as_it_is)(document[name]), depth, ' ')}"
        for name, depth in SECTIONS.items()
        if name in document
    )
    return "{\n" + ",\n".join(written) + "\n}\n"


def split_document(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Part a document into the files of data/matrix, each with the citations of its rows."""
    parts = [(file, {name: document[name] for name in sections}) for file, sections in FILES.items()]
    releases = document["releases"].items()
    parts += [(f"releases/{framework}", {"releases": {framework: rows}}) for framework, rows in releases]
    for file, part in parts:
        cited = {name for row in iterate_rows(part) for name in row["citations"]}
        yield file, {**part, "citations": {name: document["citations"][name] for name in cited}}


def _as_it_is(section: Any) -> Any:
    return section


def _releases_in_order(releases: dict[str, Any]) -> dict[str, Any]:
    return {
        framework: {
            version: sorted(rows, key=lambda row: (row["distribution"], row["platform"]))
            for version, rows in _by_version(versions).items()
        }
        for framework, versions in sorted(releases.items())
    }


def _builds_in_order(lines: dict[str, Any]) -> dict[str, Any]:
    return {line: sorted(rows, key=lambda row: int(row["cuda_major"])) for line, rows in _by_version(lines).items()}


def _conda_in_order(packages: dict[str, Any]) -> dict[str, Any]:
    return {
        package: sorted(rows, key=lambda row: (row["channel"], row["versions"], row["build"] or ""))
        for package, rows in sorted(packages.items())
    }


def _by_name(table: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(table.items()))


def _by_version(table: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(table.items(), key=lambda item: Version(item[0])))


_ORDER: dict[str, Callable[[Any], Any]] = {
    "citations": _by_name,
    "releases": _releases_in_order,
    "removed": _by_name,
    "toolkits": _by_version,
    "drivers": _by_version,
    "cudnn": _builds_in_order,
    "tensorrt": _builds_in_order,
    "conda": _conda_in_order,
    "architectures": _by_version,
    "problems": lambda rows: sorted(rows, key=lambda row: str(row["id"])),
}


def _written(value: Any, depth: int, indent: str) -> str:
    """Write a value: tables down to `depth` opened, one item per line; rows below on one line."""
    if depth == 0 or not value:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = indent + " "
    body = ",\n".join(inner + key + _written(item, depth - 1, inner) for key, item in _items(value))
    return f"{opening}\n{body}\n{indent}{closing}"


def _items(table: Any) -> Iterator[tuple[str, Any]]:
    """Pair each item of a table with how its key is written; list items have none."""
    if isinstance(table, dict):
        return ((json.dumps(key) + ": ", item) for key, item in table.items())
    return zip(repeat(""), table)


NO_CELLS = frozenset({"distribution", "platform", "citations", "note", "proof"})
_TIER1_MEMBERS = r"METADATA.*|build_info\.py|torch/version\.py|torch/cuda/__init__\.py"
BINARIES_SUFFIX = "-binaries"  # ends the citation of a wheel that only its binaries are cited of


@dataclass(frozen=True)
class Curated:
    """The part of a row that no renewal can read."""

    cells: Row = field(default_factory=dict)
    proof: Mapping[str, str] = field(default_factory=dict)  # of those cells: documented, tier2
    sentences: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()  # ids of documents
    members: tuple[str, ...] = ()  # what of the wheel's binaries was read
    wheel: Mapping[str, str] = field(default_factory=dict)  # citation of the wheel whose members those are


def extract_curated(row: Row, table: Mapping[str, Any]) -> Curated:
    """Take from a row what is not tier 1: cells, sentences, documents and binaries; `table` holds the citations."""
    proof = {cell: get_tier(row, cell) for cell in row if cell not in NO_CELLS}
    cells = {cell: row[cell] for cell, tier in proof.items() if tier != "tier1"}
    first, *others = row["citations"]
    members = [name for name in table[first]["locator"].split(", ") if not re.fullmatch(_TIER1_MEMBERS, name)]
    return Curated(
        cells,
        {cell: proof[cell] for cell in cells},
        tuple(item for item in sentences(row.get("note", "")) if not is_remark(item)),
        tuple(name for name in others if "sha256" not in table[name] or name.endswith(BINARIES_SUFFIX)),
        tuple(members),
        table[first],
    )


def get_tier(row: Row, cell: str) -> str:
    """Return how a cell is known: "*" stands for the cells a row's proof does not name."""
    proof: Mapping[str, str] = row["proof"]
    return proof.get(cell, proof.get("*", "documented"))


@lru_cache(maxsize=1)
def load_curated() -> Mapping[str, Any]:
    """Read the findings that ship with the program: sources, documents, and statements by release."""
    found: Mapping[str, Any] = json.loads(read_data("curated_releases.json"))
    return found


def find_sources(framework: str) -> tuple[tuple[str, ...], str]:
    """Return the distributions to read of a framework, and its first release the matrix holds."""
    found = load_curated()["sources"][framework]
    return tuple(found["distributions"]), found["first"]


def list_documents() -> Mapping[str, Any]:
    """Return the citations that the statements rest on."""
    found: Mapping[str, Any] = load_curated()["citations"]
    return found


def find_curated(framework: str, distribution: str, platform: str, version: str) -> Curated:
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
    for item in load_curated()["statements"]:
        found.setdefault((item["framework"], item["distribution"], item["platform"]), []).append(item)
    return found


ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_NO_CELLS = ("distribution", "platform", "citations")
_SUMMARY = ("pythons", "cuda", "cudnn", "glibc", "compute_capabilities", "stub_for")  # cells of a new row


@dataclass(frozen=True)
class Change:
    """One row that came, went or has other cells."""

    kind: str
    framework: str
    distribution: str
    version: str
    platform: str
    artifact: str  # file name of the wheel it was read from
    cells: dict[str, dict[str, Any]]  # cell -> {"old": ..., "new": ...}; null where the row has no such cell

    @property
    def label(self) -> str:
        """Name the row: torch 2.6.0 on linux_x86_64."""
        return f"{self.distribution} {self.version} on {self.platform}"


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """List rows that came, went or changed, by framework and version; `checked` and hashes aside."""
    return [change for framework in new["releases"] for change in _framework(framework, old, new)]


def describe_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Write the changes, one line each."""
    return [line for change in list_changes(old, new) for line in format_change(change)]


def format_change(change: Change) -> list[str]:
    """Write one change: "+ torch 2.6.0 on linux_x86_64: pythons 3.9 3.10", one line a changed cell."""
    if change.kind == ADDED:
        shown = [f"{cell} {_shown(change.cells[cell]['new'])}" for cell in _SUMMARY if _is_told(change, cell)]
        return [f"+ {change.label}: {', '.join(shown)}"]
    if change.kind == REMOVED:
        return [f"- {change.label}"]
    said = (words for cell, both in change.cells.items() for words in _differing(cell, both["old"], both["new"]))
    return [f"  {change.label}: {words}" for words in said]


def _differing(cell: str, old: Any, new: Any) -> Iterator[str]:
    """Say how a cell differs; of how the cells are known, only those known in another way."""
    if cell != "proof":
        yield f"{cell} {_shown(old)} -> {_shown(new)}"
        return
    was, now = old or {}, new or {}
    for name in sorted({*was, *now}):
        if was.get(name) != now.get(name):
            yield f"{name} is {now[name]} now" if name in now else f"{name} is {was[name]} no more"


def _is_told(change: Change, cell: str) -> bool:
    return bool(change.cells.get(cell, {}).get("new"))


def _framework(framework: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, after = (edition["releases"].get(framework, {}) for edition in (old, new))
    for version in sorted({*before, *after}, key=Version):
        known, found = _rows(before.get(version, ())), _rows(after.get(version, ()))
        for key in sorted({*known, *found}):
            was, now = known.get(key, {}), found.get(key, {})
            kind = ADDED if not was else CHANGED if now else REMOVED
            cells = _cells(was, now)
            if cells:
                artifact = _artifact(new, now) if now else _artifact(old, was)
                yield Change(kind, framework, key[0], version, key[1], artifact, cells)


def _rows(rows: Any) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["distribution"], row["platform"]): row for row in rows}


def _artifact(edition: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return str(edition["citations"][row["citations"][0]]["url_or_artifact"])


def _cells(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        cell: {"old": old.get(cell), "new": new.get(cell)}
        for cell in sorted({*old, *new} - set(_NO_CELLS))
        if old.get(cell) != new.get(cell)
    }


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict) and "read" in value:  # the cell binaries
        return f"{len(value['read'])} of {value['binaries']} in {value['wheel']}"
    if isinstance(value, dict):
        return " ".join(f"{name}{item}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)


Document = dict[str, Any]


def merge_release(document: Document, framework: str, drafts: Iterable[Draft], today: str) -> None:
    """Put the rows of one release into a document; rows it holds keep what people found out."""
    for draft in drafts:
        versions = document["releases"].setdefault(framework, {})
        rows = versions.setdefault(draft.group.version, [])
        old = next((row for row in rows if (row["distribution"], row["platform"]) == draft.key), None)
        if old is None:
            curated = find_curated(framework, *draft.key, draft.group.version)
        else:
            curated = extract_curated(old, document["citations"])
            rows.remove(old)
        row = build_row(draft, curated)
        rows.append(row)
        document["citations"].update(_citations(draft, curated, today))
        if draft.wheel.sha256 in load_known_binaries():
            apply_binaries(row, load_known_binaries()[draft.wheel.sha256], document["citations"])


def build_row(draft: Draft, curated: Curated) -> Row:
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
    stated = {name: list_documents()[name] for name in curated.citations if name in list_documents()}
    return {**stated, **kept, draft.citation_id: body}


def _kept_wheel(draft: Draft, curated: Curated) -> list[str]:
    """Name the citation of an older wheel whose binaries were read, once another wheel speaks for the row."""
    moved = curated.members and curated.wheel and curated.wheel["sha256"] != draft.wheel.sha256
    return [draft.citation_id + BINARIES_SUFFIX] if moved else []


def drop_unused_citations(document: Document) -> None:
    """Leave out what no row cites any more."""
    cited = {name for row in iterate_rows(document) for name in row["citations"]}
    document["citations"] = {name: body for name, body in document["citations"].items() if name in cited}


def is_up_to_date(rows: Iterable[Mapping[str, Any]], citations: Mapping[str, Any], groups: Iterable[Any]) -> bool:
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
