"""Add what the published wheels say to the matrix, and list the changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property, lru_cache
from typing import Any

from packaging.version import Version

from envcheck.frameworks import all_frameworks
from envcheck.matrix.built_in import name_companions, name_frameworks
from envcheck.matrix.companions import companion_row, companion_sections, published_framework
from envcheck.matrix.load import iterate_rows, load_document
from envcheck.matrix.refresh.binary_cells import apply_binaries, lacks_counts, load_known_binaries
from envcheck.matrix.refresh.deep import DeepReader
from envcheck.matrix.refresh.index import (
    ArtifactError,
    Group,
    OddWheelError,
    Wheel,
    group_wheels,
    parse_wheel,
)
from envcheck.matrix.refresh.reader import Reader, Reading, drop_unusable, read_usable
from envcheck.matrix.refresh.rows import Draft, Row, draft_release, is_remark, sentences
from envcheck.matrix.refresh.wheel_contents import Contents
from envcheck.model import dataclass, field

Document = dict[str, Any]  # a matrix document as JSON: rows are compared and changed cell by cell

_KEYS = frozenset({"distribution", "platform", "citations"})
NO_CELLS = _KEYS | {"note", "proof"}
_BINARIES_SUFFIX = "-binaries"  # ends the citation of a wheel that is cited for its binaries alone


def first_releases(name: str) -> dict[str, str]:
    """Map a framework's or companion's distributions to the first releases of the matrix."""
    known = published_framework(name)
    if known:
        return dict.fromkeys(known.wheels.distributions, known.wheels.first_release)
    return {item: row.first for row in companion_sections()[name] for item in row.distributions}


@dataclass
class Curated:
    """The part of a row that no refresh can read."""

    cells: Mapping[str, Any] = field(default_factory=dict)
    proof: Mapping[str, str] = field(default_factory=dict)  # of those cells: documented, tier2
    sentences: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()  # ids of documents
    members: tuple[str, ...] = ()  # what of the wheel's binaries was read
    # citation of the wheel that has these members
    wheel: Mapping[str, str] = field(default_factory=dict)


@lru_cache(maxsize=1)
def _built_in() -> Document:
    return load_document()


def find_curated(framework: str, distribution: str, platform: str, version: str) -> Curated:
    """Return what the built-in matrix holds of a row beside what a refresh reads.

    An empty part if it lacks the row.
    """
    rows = map_rows(_built_in()["releases"].get(framework, {}).get(version, ()))
    row = rows.get((distribution, platform))
    return extract_curated(row, _built_in()["citations"]) if row else Curated()


def extract_curated(row: Row, citations: Mapping[str, Any]) -> Curated:
    """Extract the part of a row that is not tier 1: cells, sentences, documents and binaries."""
    proof = {cell: get_tier(row, cell) for cell in row if cell not in NO_CELLS}
    cells = {cell: row[cell] for cell, tier in proof.items() if tier != "tier1"}
    first, *others = row["citations"]
    members = [
        name
        for name in citations[first]["locator"].split(", ")
        if not re.fullmatch(_tier1_members(), name)
    ]
    return Curated(
        cells,
        {cell: proof[cell] for cell in cells},
        tuple(item for item in sentences(row.get("note", "")) if not is_remark(item)),
        tuple(
            name
            for name in others
            if "sha256" not in citations[name] or name.endswith(_BINARIES_SUFFIX)
        ),
        tuple(members),
        citations[first],
    )


@lru_cache(maxsize=1)
def _tier1_members() -> str:
    """Return the pattern of a citation's members if no binary of the wheel was read."""
    return "|".join(
        [
            "METADATA.*",
            r"libraries of \d+ binaries",
            "names of cubin files",
            *(each.wheels.cited_texts or each.wheels.texts for each in all_frameworks()),
        ]
    )


def get_tier(row: Row, cell: str) -> str:
    """Return how a cell is known: "*" stands for the cells that a row's proof does not name."""
    proof: Mapping[str, str] = row["proof"]
    return proof.get(cell, proof.get("*", "documented"))


def merge_release(document: Document, framework: str, drafts: Iterable[Draft], today: str) -> None:
    """Put the rows of one release into a document; rows that it holds keep their curated part."""
    for draft in drafts:
        rows = document["releases"].setdefault(framework, {}).setdefault(draft.group.version, [])
        old = map_rows(rows).get(draft.key)
        if old is None:
            curated = find_curated(framework, *draft.key, draft.group.version)
        else:
            curated = extract_curated(old, document["citations"])
            rows.remove(old)
        row = build_row(draft, curated)
        rows.append(row)
        cited = _build_citations(draft, curated, today)
        known = document["citations"]  # the same artifacts keep the day they were checked
        day = {
            name: {**body, "checked": known.get(name, {}).get("checked")}
            for name, body in cited.items()
        }
        if row != old or any(known.get(name) != body for name, body in day.items()):
            known.update(cited)
        if draft.wheel.sha256 in load_known_binaries():
            apply_binaries(
                framework, row, load_known_binaries()[draft.wheel.sha256], document["citations"]
            )


def build_row(draft: Draft, curated: Curated) -> Row:
    """Build a row: curated cells replace those of tier 1 and answer remarks."""
    inferred = [(cell, draft.cells[cell], proof) for cell, proof in draft.proof.items()]
    cells = {
        cell: value
        for cell, value in curated.cells.items()
        # the draft infers the same cell itself
        if (cell, value, curated.proof[cell]) not in inferred
    }
    proof = {**draft.proof, **{cell: curated.proof[cell] for cell in cells}}
    remarks = [
        item.text
        for item in draft.remarks
        if item.cell not in cells or not (item.gap or proof.get(item.cell) == "tier2")
    ]
    distribution, platform = draft.key
    citations = [
        draft.citation_id,
        *draft.also,
        *curated.citations,
        *_cite_older_wheel(draft, curated),
    ]
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
    documents = _built_in()["citations"]
    return {
        **{name: dict(documents[name]) for name in curated.citations if name in documents},
        **kept,
        draft.citation_id: wheel,
    }


def _cite_older_wheel(draft: Draft, curated: Curated) -> list[str]:
    """Name the citation of the wheel whose binaries were read, if the row has another now."""
    moved = curated.members and curated.wheel and curated.wheel["sha256"] != draft.wheel.sha256
    return [draft.citation_id + _BINARIES_SUFFIX] if moved else []


def drop_unused_citations(document: Document) -> None:
    """Drop the citations that no row cites."""
    cited = {name for row in iterate_rows(document) for name in row["citations"]}
    document["citations"] = {
        name: body for name, body in document["citations"].items() if name in cited
    }


Progress = Callable[[int, int], None]  # wheels done, wheels in all
Key = tuple[str, str, str, str]  # framework, version, distribution, platform


@dataclass
class RefreshResult:
    """A refreshed document, and what else to report beside its changes."""

    document: Document
    left_out: tuple[str, ...]  # wheels that no installer takes, each with the reason
    vanished: tuple[str, ...]  # rows whose wheels the index no longer lists; they stay


@dataclass
class Listing:
    """What the index lists of one framework."""

    framework: str
    groups: tuple[Group, ...]
    since: str = "0"  # older releases were not looked for

    @cached_property
    def published(self) -> dict[str, set[str]]:
        """Map each distribution to its versions."""
        found: dict[str, set[str]] = defaultdict(set)
        for group in self.groups:
            found[group.distribution].add(group.version)
        return found


def group_by_version(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """Map each version to its groups."""
    found: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        found[group.version].append(group)
    return found


def list_framework(reader: Reader, framework: str, since: str = "") -> Listing:
    """Read the index pages of a framework's distributions and group the wheels from `since` on."""
    first = first_releases(framework)
    pages = {name: reader.page(name) for name in first}
    if all(page is None for page in pages.values()):
        raise ArtifactError(
            f"The index has no page for any distribution of {framework}; its address may be wrong."
        )
    lowest = {
        name: max(Version(floor) for floor in (first[name], since) if floor) for name in first
    }
    wheels = [
        item
        for name, page in pages.items()
        for item in page or ()
        if Version(item.name.version) >= lowest[name]
        and item.name.version not in companion_row(name).placeholders
    ]
    return Listing(framework, tuple(group_wheels(wheels)), since or "0")


def refresh(
    document: Document, listings: Sequence[Listing], reader: Reader, today: str, progress: Progress
) -> RefreshResult:
    """Return a refreshed copy of a document; raises ArtifactError if any wheel cannot be read.

    Every row is drawn again from its wheel, so that one that an older edition of this program drew
    is corrected, too.
    """
    wanted, losses = _find_wanted(document, listings, reader)
    cited = {body["sha256"] for body in document["citations"].values() if "sha256" in body}
    reading = read_usable(wanted, reader, progress, cited)
    reading.require_all()
    refreshed = _copy_changeable(document, listings)
    left_out: list[str] = []
    for listing in listings:
        _introduce(refreshed, listing.framework)
        groups = drop_unusable(wanted[listing.framework], reading)
        left_out += _merge(refreshed, listing, groups, reading.contents, today)
        left_out += _describe_unusable(groups, reading)
    left_out += reading.odd.values()
    drop_unused_citations(refreshed)
    refreshed["checked"] = today
    vanished = [row for listing in listings for row in _find_vanished(document, listing)]
    return RefreshResult(refreshed, tuple(sorted(set(left_out))), (*vanished, *losses))


def _copy_changeable(document: Document, listings: Sequence[Listing]) -> Document:
    """Copy what a refresh changes: the rows of the listings, and tables; the rest is shared."""
    copied = {name: document[name] for name in document}
    for section in ("citations", "companions", "frameworks", "releases"):
        copied[section] = dict(document[section])
    for name in {listing.framework for listing in listings} & set(document["releases"]):
        copied["releases"][name] = deepcopy(document["releases"][name])
    return copied


def _find_wanted(
    document: Document, listings: Sequence[Listing], reader: Reader
) -> tuple[dict[str, list[Group]], list[str]]:
    """List the groups to read by framework, and what rows keep after a page dropped it."""
    wanted: dict[str, list[Group]] = {listing.framework: [] for listing in listings}
    kept: list[str] = []
    for listing in listings:
        for groups in group_by_version(listing.groups).values():
            lost = _find_losses(document, listing, groups, reader)
            kept += lost
            wanted[listing.framework] += [] if lost else groups
    return wanted, kept


def _find_losses(
    document: Document, listing: Listing, groups: Sequence[Group], reader: Reader
) -> list[str]:
    """List the Pythons that the rows of a release would lose by an index page alone.

    A page that was cut off lists a part of the files. So the index must say it twice: the document
    of the release must lack them, too. Raises ArtifactError if that lists wheels that the page
    lacks.
    """
    rows = map_rows(document["releases"].get(listing.framework, {}).get(groups[0].version, ()))
    found = []
    for group in groups:
        lost = _describe_loss(rows.get((group.distribution, group.platform)), group)
        files = None
        if lost:
            files = reader.release_files(group.distribution, group.version)
        if lost and files is None:
            found.append(f"{group.distribution} {group.version} on {group.platform}: {lost}")
        listed = {
            wheel.filename
            for item in groups
            if item.distribution == group.distribution
            for wheel in item.wheels
        }
        known = {name for name in files or () if (parsed := parse_wheel(name)) and parsed.platforms}
        if known - listed:
            raise ArtifactError(
                f"The index page of {group.distribution} is incomplete: it lacks files of"
                f" {group.version}."
            )
    return found


def _describe_loss(row: Mapping[str, Any] | None, group: Group) -> str:
    """Say which Pythons of a row a group no longer has: "Python 3.9, 3.10"; "" for none."""
    listed, free = group.pythons(), group.pythons(free_threaded=True)
    if row is None or not listed:
        return ""
    lost = [
        python for python in row["pythons"] if python not in listed and not group.admits(python)
    ]
    lost += [f"{python}t" for python in row.get("free_threaded", ()) if python not in free]
    return "Python " + ", ".join(lost) if lost else ""


def _introduce(document: Document, name: str) -> None:
    """Name a new framework or companion, with its distributions and their modules."""
    for section, known in (("frameworks", name_frameworks()), ("companions", name_companions())):
        if name in known:
            document[section][name] = known[name]


def _merge(
    document: Document,
    listing: Listing,
    groups: Sequence[Group],
    contents: Mapping[str, Contents],
    today: str,
) -> list[str]:
    """Put what was read into the document; return a sentence for each wheel that makes no row."""
    left_out: list[str] = []
    for members in group_by_version(groups).values():
        drafts, odd = draft_release(listing.framework, members, contents, listing.published)
        merge_release(document, listing.framework, drafts, today)
        done = {*odd, *(draft.wheel.sha256 for draft in drafts)}
        read = (
            group.representative for group in members if group.representative.sha256 in contents
        )
        silent = (wheel.filename for wheel in read if wheel.sha256 not in done)
        left_out += [*odd.values(), *(f"{name} names no Python that it is for." for name in silent)]
    return left_out


def _describe_unusable(groups: Iterable[Group], reading: Reading) -> Iterator[str]:
    """Say why no installer takes a wheel, and which wheel was read in its place."""
    for group in groups:
        instead = ""
        if group.left_out:
            instead = f" Read in its place: {group.representative.filename}."
        for wheel in group.left_out or group.wheels:
            if wheel.sha256 in reading.unusable:
                yield reading.unusable[wheel.sha256] + instead


def _find_vanished(document: Document, listing: Listing) -> list[str]:
    listed = {(group.distribution, group.version, group.platform) for group in listing.groups}
    return [
        f"{distribution} {version} on {platform}"
        for (_, version, distribution, platform), _ in iterate_releases(document, listing.framework)
        if Version(version) >= Version(listing.since)
        and (distribution, version, platform) not in listed
    ]


def add_binaries(
    document: Document,
    listings: Sequence[Listing],
    reader: DeepReader,
    today: str,
    progress: Progress,
    *,
    chosen: Collection[Key] | None = None,
) -> list[str]:
    """Read the binaries of all rows, or of the chosen ones, that lack them.

    Say which wheels are left out and why.

    Raises ArtifactError; the document is then incomplete, and the cache keeps what was read.
    """
    waiting = [item for listing in listings for item in _iterate_unread_rows(document, listing)]
    waiting = [item for item in waiting if chosen is None or item[0] in chosen]
    left_out = []
    progress(0, len(waiting))
    for done, (key, row, wheel) in enumerate(waiting, 1):
        try:
            binaries = reader.read(key[0], wheel)
        except OddWheelError as error:
            left_out.append(str(error))
        else:
            if binaries["read"]:
                apply_binaries(key[0], row, binaries, document["citations"], today)
        progress(done, len(waiting))
    return left_out


def find_new_rows(old: Document, new: Document) -> set[Key]:
    """Name the rows of a refreshed document that are new, or rest on another wheel than before."""
    known = {key: _get_wheel_hash(row, old["citations"]) for key, row in iterate_releases(old)}
    return {
        key
        for key, row in iterate_releases(new)
        if known.get(key) != _get_wheel_hash(row, new["citations"])
    }


def _iterate_unread_rows(document: Document, listing: Listing) -> Iterator[tuple[Key, Row, Wheel]]:
    """Yield the rows with unread binaries that can be read (ELF and PE), with their wheels."""
    wheels = {group.representative.sha256: group.representative for group in listing.groups}
    for key, row in iterate_releases(document):
        wheel = wheels.get(_get_wheel_hash(row, document["citations"]))
        if wheel is None or key[0] != listing.framework or "stub_for" in row:
            continue
        read = row.get("binaries", {})
        is_current = read.get("sha256") == wheel.sha256 and not lacks_counts(read)
        if key[3].startswith(("linux", "win")) and not is_current:
            yield key, row, wheel


def iterate_releases(document: Document, framework: str = "") -> Iterator[tuple[Key, Row]]:
    """Yield the rows of the releases of one framework, or of all, with their keys."""
    names = (framework,) if framework else tuple(document["releases"])
    for name in names:
        for version, rows in document["releases"].get(name, {}).items():
            for row in rows:
                yield (name, version, row["distribution"], row["platform"]), row


def _get_wheel_hash(row: Row, citations: Mapping[str, Any]) -> str:
    return str(citations[row["citations"][0]].get("sha256", ""))


ADDED, REMOVED, CHANGED = "added", "removed", "changed"
# cells shown of a new row
_SUMMARY = ("pythons", "cuda", "cudnn", "glibc", "compute_capabilities", "stub_for")


@dataclass
class Change:
    """One row that was added or removed, or whose cells changed."""

    kind: str
    framework: str
    distribution: str
    version: str
    platform: str
    artifact: str  # file name of the wheel it was read from
    # cell -> {"old": ..., "new": ...}; null where the row has no such cell
    cells: dict[str, dict[str, Any]]

    @property
    def label(self) -> str:
        """Name the row: torch 2.6.0 on linux_x86_64."""
        return f"{self.distribution} {self.version} on {self.platform}"


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """List the rows that differ, by framework and version; `checked` and hashes aside."""
    return [
        change
        for framework in new["releases"]
        for change in _compare_framework(framework, old, new)
    ]


def format_change(change: Change) -> list[str]:
    """Format a change: "+ torch 2.6.0 on linux_x86_64: pythons 3.9", or each changed cell."""
    if change.kind == ADDED:
        cells = {cell: change.cells[cell]["new"] for cell in _SUMMARY if cell in change.cells}
        return [
            f"+ {change.label}: "
            + ", ".join(f"{cell} {_format(value)}" for cell, value in cells.items() if value)
        ]
    if change.kind == REMOVED:
        return [f"- {change.label}"]
    lines = (
        line
        for cell, both in change.cells.items()
        for line in _format_cell(cell, both["old"], both["new"])
    )
    return [f"  {change.label}: {line}" for line in lines]


def _format_cell(cell: str, old: Any, new: Any) -> Iterator[str]:
    """Format how a cell changed; of the proof, only the entries that changed."""
    if cell != "proof":
        yield f"{cell} {_format(old)} -> {_format(new)}"
        return
    before, after = old or {}, new or {}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"proof of {name} {_format(before.get(name))} -> {_format(after.get(name))}"


def _format(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict) and "read" in value:  # the cell binaries
        return f"{len(value['read'])} of {value['binaries']} in {value['wheel']}"
    if isinstance(value, dict):
        return " ".join(f"{name}{item}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)


def _compare_framework(
    framework: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Change]:
    before, after = (edition["releases"].get(framework, {}) for edition in (old, new))
    for version in sorted({*before, *after}, key=Version):
        known, found = (map_rows(edition.get(version, ())) for edition in (before, after))
        for key in sorted({*known, *found}):
            row, renewed = known.get(key, {}), found.get(key, {})
            kind = CHANGED if renewed else REMOVED
            if not row:
                kind = ADDED
            cells = {
                cell: {"old": row.get(cell), "new": renewed.get(cell)}
                for cell in sorted({*row, *renewed} - _KEYS)
                if row.get(cell) != renewed.get(cell)
            }
            if cells:
                if renewed:
                    artifact = _get_artifact(new, renewed)
                else:
                    artifact = _get_artifact(old, row)
                yield Change(kind, framework, key[0], version, key[1], artifact, cells)


def map_rows(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """Map the rows of one release by what tells them apart."""
    return {(row["distribution"], row["platform"]): row for row in rows}


def _get_artifact(edition: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return str(edition["citations"][row["citations"][0]]["url_or_artifact"])
