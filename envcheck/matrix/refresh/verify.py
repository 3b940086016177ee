"""Verify the matrix against the artifacts that it cites."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from envcheck import __version__
from envcheck.matrix.companions import published_framework
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.refresh.binary_cells import Binaries, derive_cells
from envcheck.matrix.refresh.deep import DeepReader
from envcheck.matrix.refresh.gpu_code import list_targets
from envcheck.matrix.refresh.index import ArtifactError, Group
from envcheck.matrix.refresh.reader import Reader, Reading, drop_unusable, read_usable
from envcheck.matrix.refresh.refresh import (
    NO_CELLS,
    Document,
    Key,
    Listing,
    Progress,
    build_row,
    extract_curated,
    get_tier,
    group_by_version,
    iterate_releases,
    map_rows,
)
from envcheck.matrix.refresh.rows import Draft, Row, draft_release
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED

# Releases without a row that a sample reads: wheels that no installer takes need no row, so some
# are expected.
_MAX_MISSING = 20


@dataclass(frozen=True)
class Disagreement:
    """One cell that differs from its artifact; "row" and "wheel" stand for more than a cell."""

    framework: str
    version: str
    distribution: str
    platform: str
    cell: str
    matrix: Any
    artifact: Any


@dataclass
class Verification:
    """What a verification found; the fields are those of its JSON document."""

    rows: int = 0  # compared with their artifacts
    cells: int = 0  # tier 1 cells among them
    disagreements: list[Disagreement] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # one sentence each
    vanished: list[str] = field(default_factory=list)  # rows whose wheels the index no longer lists
    held: list[str] = field(default_factory=list)  # the rows that were compared
    binaries: int = 0  # rows whose binaries were read again and compared, on request
    # "torch variants" -> cells of those rows; not compared
    documented: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return incompatible for a disagreement, undetermined for a gap, else compatible."""
        if self.disagreements:
            return INCOMPATIBLE
        if self.unread or self.vanished or not self.rows:
            return UNDETERMINED
        return COMPATIBLE

    def to_json(self) -> dict[str, Any]:
        """Return the document of schema envcheck/matrix-verify/1."""
        return {
            "schema": "envcheck/matrix-verify/1",
            "tool_version": __version__,
            "verdict": self.verdict,
            **asdict(self),
        }


def verify(
    document: Document, listings: Sequence[Listing], reader: Reader, sample: int, progress: Progress
) -> Verification:
    """Read `sample` random rows again (0: all), and compare releases with the index."""
    rows = {key for listing in listings for key, _ in iterate_releases(document, listing.framework)}
    listed = {
        _make_key(listing.framework, group): group
        for listing in listings
        for group in listing.groups
    }
    if not sample:
        chosen = rows
    else:
        chosen = set(random.sample(sorted(rows), min(sample, len(rows))))
    missing = set(listed) - rows
    found = Verification(vanished=[_format_key(key) for key in sorted(rows - set(listed))])
    if len(missing) > _MAX_MISSING and sample:
        found.disagreements += [_report_missing(key, listed[key]) for key in sorted(missing)]
        missing = set()
    wanted = {listing.framework: _choose_groups(listing, chosen | missing) for listing in listings}
    reading = read_usable(wanted, reader, progress)
    found.unread += sorted([*reading.failed.values(), *reading.odd.values()])
    for listing in listings:
        groups = drop_unusable(wanted[listing.framework], reading)
        found.disagreements += _report_unusable(listing.framework, groups, reading, chosen)
        for members in group_by_version(groups).values():
            drafts, odd = draft_release(
                listing.framework, members, reading.contents, listing.published
            )
            found.unread += odd.values()
            _verify_release(document, listing.framework, drafts, chosen, found)
    return found


def _make_key(framework: str, group: Group) -> Key:
    return framework, group.version, group.distribution, group.platform


def _format_key(key: Key) -> str:
    return f"{key[2]} {key[1]} on {key[3]}"


def _report_missing(key: Key, group: Group) -> Disagreement:
    return Disagreement(*key, "row", "missing", group.representative.filename)


def _report_unusable(
    framework: str, groups: Iterable[Group], reading: Reading, chosen: Collection[Key]
) -> Iterator[Disagreement]:
    """Report the chosen rows none of whose wheels an installer takes."""
    for group in groups:
        key = _make_key(framework, group)
        reason = reading.unusable.get(group.representative.sha256)
        if reason is not None and key in chosen:
            yield Disagreement(*key, "wheel", "usable", reason)


def _choose_groups(listing: Listing, chosen: Collection[Key]) -> list[Group]:
    """Choose the groups to read.

    Those of the chosen rows, with the wheel that speaks for its whole release.
    """
    known = published_framework(listing.framework)  # companions have none
    speaker = known.wheels.speaks_for_release if known else ""
    versions = {key[1] for key in chosen if key[0] == listing.framework}
    return [
        group
        for group in listing.groups
        if _make_key(listing.framework, group) in chosen
        or (group.distribution == speaker and group.version in versions)
    ]


def _verify_release(
    document: Document,
    framework: str,
    drafts: Sequence[Draft],
    chosen: Collection[Key],
    found: Verification,
) -> None:
    """Compare the rows of one release with what was read of its wheels."""
    versions = document["releases"].get(framework, {})
    for draft in drafts:
        key = _make_key(framework, draft.group)
        row = map_rows(versions.get(draft.group.version, ())).get(draft.key)
        if row is None:
            found.disagreements.append(_report_missing(key, draft.group))
        elif key in chosen:
            found.rows += 1
            found.held.append(_format_key(key))
            found.cells += sum(
                get_tier(row, cell) == "tier1" for cell in row if cell not in NO_CELLS
            )
            for cell in _list_documented(key, row):
                found.documented[f"{framework} {cell}"] = (
                    found.documented.get(f"{framework} {cell}", 0) + 1
                )
            found.disagreements += _compare(key, row, draft, document["citations"])


def _list_documented(key: Key, row: Row) -> Iterator[str]:
    """List the cells of a row that rest on a document: no artifact is read for them here."""
    _, version, distribution, platform = key
    for cell in row:
        if cell not in NO_CELLS and get_tier(row, cell) == "documented":
            yield cell
    if documented_gpus(distribution, version, platform) is not None:
        yield "documented_gpus"


def _compare(
    key: Key, row: Row, draft: Draft, citations: Mapping[str, Any]
) -> Iterator[Disagreement]:
    """Yield each cell of a row that differs from its artifact."""
    read = build_row(draft, extract_curated(row, citations))
    for cell in sorted({*row, *read} - NO_CELLS):
        if row.get(cell) != read.get(cell):
            yield Disagreement(*key, cell, row.get(cell), read.get(cell))
    for cell in ("cuda", "cudnn", "compiler", "tensorrt"):
        if not _agrees(row.get(cell), draft.cells.get(cell)):
            yield Disagreement(*key, cell, row.get(cell), draft.cells.get(cell))
    is_stated = "cuda_build" not in draft.proof
    if (
        is_stated
        and row["cuda_build"] != draft.cells["cuda_build"]
        and read["cuda_build"] == row["cuda_build"]
    ):
        yield Disagreement(*key, "cuda_build", row["cuda_build"], draft.cells["cuda_build"])
    cited = citations[row["citations"][0]]
    listed = {wheel.filename: wheel.sha256 for wheel in draft.group.wheels}
    if listed.get(cited["url_or_artifact"]) != cited.get("sha256"):
        yield Disagreement(*key, "wheel", cited["url_or_artifact"], draft.wheel.filename)


def _agrees(curated: str | None, read: str | None) -> bool:
    """Return whether a curated version refines what an artifact states: 8.9 refines 8."""
    if curated is None or read is None:
        return True
    return curated == read or curated.startswith(f"{read}.") or read.startswith(f"{curated}.")


def verify_binaries(
    document: Document,
    listings: Sequence[Listing],
    reader: DeepReader,
    sample: int,
    progress: Progress,
    *,
    found: Verification,
) -> None:
    """Read the binaries of `sample` random rows that have some again, or of all for 0.

    Add what differs to `found`.
    """
    rows = {
        key: row
        for listing in listings
        for key, row in iterate_releases(document, listing.framework)
        if "binaries" in row
    }
    chosen = sorted(random.sample(sorted(rows), min(sample, len(rows))) if sample else rows)
    wheels = {}
    for listing in listings:
        for group in listing.groups:
            wheels.update({wheel.sha256: wheel for wheel in group.wheels})
    progress(0, len(chosen))
    for done, key in enumerate(chosen, 1):
        row = rows[key]
        wheel = wheels.get(row["binaries"]["sha256"])
        if wheel is None:
            found.unread.append(
                f"{row['binaries']['wheel']}, whose binaries were read, is no longer on the index."
            )
        else:
            try:
                found.disagreements += _compare_binaries(key, row, reader.read(key[0], wheel))
                found.binaries += 1
                found.held.append(f"the binaries of {wheel.filename}")
            except ArtifactError as error:
                found.unread.append(str(error))
        progress(done, len(chosen))
    if not chosen:
        found.unread.append("The matrix holds no binaries of these rows, so none can be verified.")


def _compare_binaries(key: Key, row: Row, read: Binaries) -> Iterator[Disagreement]:
    """Yield each fact and derived cell of the binaries that differs from the wheel."""
    known = row["binaries"]
    for fact in ("wheel", "binaries"):
        if known[fact] != read[fact]:
            yield Disagreement(*key, f"binaries {fact}", known[fact], read[fact])
    for name in sorted({*known["read"], *read["read"]}):
        ours, theirs = known["read"].get(name, {}), read["read"].get(name, {})
        if "architectures" in ours:  # read by an earlier edition, which kept no counts
            theirs = {**theirs, "architectures": list_targets(theirs), "gpu_code": None}
        for fact in sorted({*ours, *theirs}):
            if ours.get(fact) != theirs.get(fact):
                yield Disagreement(
                    *key, f"binaries {name} {fact}", ours.get(fact), theirs.get(fact)
                )
    for cell, value in derive_cells(key[0], read).items():
        if row["proof"].get(cell) == "tier2" and row.get(cell) != value:
            yield Disagreement(*key, cell, row.get(cell), value)
