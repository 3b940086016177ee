"""Verify the matrix against the artifacts it cites."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from envcheck import __version__
from envcheck.matrix.refresh.deep import Binaries, DeepReader, derive_cells
from envcheck.matrix.refresh.merge import NO_CELLS, Document, build_row, extract_curated, get_tier
from envcheck.matrix.refresh.pip_settings import ArtifactError
from envcheck.matrix.refresh.reader import Reader, Reading, drop_unusable, read_usable
from envcheck.matrix.refresh.refresh import Listing
from envcheck.matrix.refresh.rows import Draft, Row, draft_release
from envcheck.matrix.refresh.wheels import Group

Key = tuple[str, str, str, str]  # framework, version, distribution, platform
_MAX_MISSING = 20  # releases without a row that a sample reads, since wheels no installer takes need none


@dataclass(frozen=True)
class Disagreement:
    """One cell that says something else than its artifact; "row" and "wheel" stand for more than a cell."""

    framework: str
    version: str
    distribution: str
    platform: str
    cell: str
    matrix: Any
    artifact: Any


@dataclass
class Verification:
    """What a verification found."""

    rows: int = 0  # held against their artifacts
    cells: int = 0  # tier 1 cells among them
    disagreements: list[Disagreement] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # one sentence each
    vanished: list[str] = field(default_factory=list)  # rows whose wheels the index lists no more
    held: list[str] = field(default_factory=list)  # the rows that were held
    binaries: int = 0  # rows whose wheel's binaries were read anew and held, on request

    @property
    def verdict(self) -> str:
        """Return incompatible for a disagreement, undetermined where something was not read, else compatible."""
        if self.disagreements:
            return "incompatible"
        return "undetermined" if self.unread or self.vanished or not self.rows else "compatible"

    def to_json(self) -> dict[str, Any]:
        """Return the document of schema envcheck/matrix-verify/1."""
        return {
            "schema": "envcheck/matrix-verify/1",
            "tool_version": __version__,
            "verdict": self.verdict,
            **asdict(self),
        }


def verify(
    document: Document, listings: Sequence[Listing], reader: Reader, sample: int, progress: Callable[[int, int], None]
) -> Verification:
    """Re-read `sample` rows chosen at random, or all for 0, and hold all releases against the index's pages."""
    rows = {key for listing in listings for key in _iterate_keys(document, listing.framework)}
    listed = {_make_key(listing.framework, group): group for listing in listings for group in listing.groups}
    chosen = rows if not sample else set(random.sample(sorted(rows), min(sample, len(rows))))
    missing = set(listed) - rows
    found = Verification(vanished=[_format_key(key) for key in sorted(rows - set(listed))])
    if len(missing) > _MAX_MISSING and sample:
        found.disagreements += [_report_missing(key, listed[key]) for key in sorted(missing)]
        missing = set()
    wanted = {listing.framework: _choose_groups(listing, chosen | missing) for listing in listings}
    reading = read_usable(wanted, reader, progress)
    found.unread += sorted(reading.failed.values())
    for listing in listings:
        kept = drop_unusable(wanted[listing.framework], reading)
        found.disagreements += _report_unusable(listing.framework, kept, reading, chosen)
        for groups in Listing(listing.framework, tuple(kept)).by_version().values():
            drafts = draft_release(listing.framework, groups, reading.contents, listing.published)
            _verify_release(document, listing.framework, drafts, chosen, found)
    return found


def _report_missing(key: Key, group: Group) -> Disagreement:
    return Disagreement(*key, "row", "missing", group.representative.filename)


def _report_unusable(
    framework: str, groups: Iterable[Group], reading: Reading, chosen: Collection[Key]
) -> Iterator[Disagreement]:
    """Yield the rows none of whose wheels an installer takes; such a release needs no row in the matrix."""
    for group in groups:
        key, why = _make_key(framework, group), reading.unusable.get(group.representative.sha256)
        if why is not None and key in chosen:
            yield Disagreement(*key, "wheel", "usable", why)


def _iterate_keys(document: Document, framework: str) -> Iterator[Key]:
    for version, rows in document["releases"].get(framework, {}).items():
        for row in rows:
            yield framework, version, row["distribution"], row["platform"]


def _make_key(framework: str, group: Group) -> Key:
    return framework, group.version, group.distribution, group.platform


def _format_key(key: Key) -> str:
    return f"{key[2]} {key[1]} on {key[3]}"


def _choose_groups(listing: Listing, chosen: Collection[Key]) -> list[Group]:
    """Choose the groups to read: those of the chosen rows, with jax itself, whose extras speak for its plugins."""
    versions = {key[1] for key in chosen if key[0] == listing.framework}
    return [
        group
        for group in listing.groups
        if _make_key(listing.framework, group) in chosen or (group.distribution == "jax" and group.version in versions)
    ]


def _verify_release(
    document: Document, framework: str, drafts: Sequence[Draft], chosen: Collection[Key], found: Verification
) -> None:
    """Hold the rows of one release against what was read of it."""
    versions = document["releases"].get(framework, {})
    for draft in drafts:
        key = _make_key(framework, draft.group)
        rows = versions.get(draft.group.version, ())
        row = next((row for row in rows if (row["distribution"], row["platform"]) == draft.key), None)
        if row is None:
            found.disagreements.append(_report_missing(key, draft.group))
        elif key in chosen:
            found.rows += 1
            found.held.append(_format_key(key))
            found.cells += sum(get_tier(row, cell) == "tier1" for cell in row if cell not in NO_CELLS)
            found.disagreements += _compare(key, row, draft, document["citations"])


def _compare(key: Key, row: Row, draft: Draft, citations: Mapping[str, Any]) -> Iterator[Disagreement]:
    """Yield each cell of a row that its artifact does not bear out."""
    read = build_row(draft, extract_curated(row, citations))
    for cell in sorted({*row, *read} - NO_CELLS):
        if row.get(cell) != read.get(cell):
            yield Disagreement(*key, cell, row.get(cell), read.get(cell))
    for cell in ("cuda", "cudnn", "compiler", "tensorrt"):
        if not _agrees(row.get(cell), draft.cells.get(cell)):
            yield Disagreement(*key, cell, row.get(cell), draft.cells.get(cell))
    stated = "cuda_build" not in draft.proof
    if stated and row["cuda_build"] != draft.cells["cuda_build"] and read["cuda_build"] == row["cuda_build"]:
        yield Disagreement(*key, "cuda_build", row["cuda_build"], draft.cells["cuda_build"])
    cited = citations[row["citations"][0]]
    listed = {wheel.filename: wheel.sha256 for wheel in draft.group.wheels}
    if listed.get(cited["url_or_artifact"]) != cited.get("sha256"):
        yield Disagreement(*key, "wheel", cited["url_or_artifact"], draft.wheel.filename)


def _agrees(found: str | None, read: str | None) -> bool:
    """Tell whether a finding refines what an artifact says: 8.9 refines 8, and everything refines silence."""
    if found is None or read is None:
        return True
    return found == read or found.startswith(f"{read}.") or read.startswith(f"{found}.")


def verify_binaries(
    document: dict[str, Any],
    listings: Sequence[Listing],
    reader: DeepReader,
    sample: int,
    progress: Callable[[int, int], None],
    *,
    found: Verification,
) -> None:
    """Read anew the binaries of `sample` rows that have some, chosen at random, or of all for 0.

    What was held, what disagrees and what could not be read goes into `found`.
    """
    rows = {key: row for listing in listings for key, row in _iterate_rows_with_binaries(document, listing.framework)}
    chosen = sorted(random.sample(sorted(rows), min(sample, len(rows))) if sample else rows)
    wheels = {wheel.sha256: wheel for listing in listings for group in listing.groups for wheel in group.wheels}
    progress(0, len(chosen))
    for done, key in enumerate(chosen, 1):
        row = rows[key]
        wheel = wheels.get(row["binaries"]["sha256"])
        if wheel is None:
            found.unread.append(f"{row['binaries']['wheel']}, whose binaries were read, is no longer on the index.")
        else:
            try:
                found.disagreements += _compare_binaries(key, row, reader.read(key[0], wheel))
                found.binaries += 1
                found.held.append(f"the binaries of {wheel.filename}")
            except ArtifactError as error:
                found.unread.append(str(error))
        progress(done, len(chosen))
    if not chosen:
        found.unread.append("The matrix knows no binaries of these rows, so none could be held.")


def _iterate_rows_with_binaries(document: dict[str, Any], framework: str) -> Iterator[tuple[Key, Row]]:
    for version, rows in document["releases"].get(framework, {}).items():
        for row in rows:
            if "binaries" in row:
                yield (framework, version, row["distribution"], row["platform"]), row


def _compare_binaries(key: Key, row: Row, read: Binaries) -> Iterator[Disagreement]:
    """Yield each fact of each binary, and each cell summed up from them, that the wheel does not bear out."""
    said, seen = row["binaries"], read
    for fact in ("wheel", "binaries"):
        if said[fact] != seen[fact]:
            yield Disagreement(*key, f"binaries {fact}", said[fact], seen[fact])
    for name in sorted({*said["read"], *seen["read"]}):
        ours, theirs = said["read"].get(name, {}), seen["read"].get(name, {})
        for fact in sorted({*ours, *theirs}):
            if ours.get(fact) != theirs.get(fact):
                yield Disagreement(*key, f"binaries {name} {fact}", ours.get(fact), theirs.get(fact))
    for cell, value in derive_cells(seen).items():
        if row["proof"].get(cell) == "tier2" and row.get(cell) != value:
            yield Disagreement(*key, cell, row.get(cell), value)
