"""Lay what binaries say into the rows of a matrix document, one wheel of a release and platform at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from envcheck.matrix.renew.deep_cells import lay_binaries
from envcheck.matrix.renew.deep_reader import DeepReader
from envcheck.matrix.renew.deep_sample import SAMPLED
from envcheck.matrix.renew.draft import Row
from envcheck.matrix.renew.refresh import Listing
from envcheck.matrix.renew.wheels import Wheel

Document = dict[str, Any]
Key = tuple[str, str, str, str]  # framework, version, distribution, platform


def deepen(
    document: Document,
    listings: Sequence[Listing],
    reader: DeepReader,
    today: str,
    progress: Callable[[int, int], None],
    *,
    chosen: Collection[Key] | None = None,
) -> list[Key]:
    """Read the binaries of all rows, or of the chosen ones, that lack them; return those that were read.

    Raises ArtifactError; the caller throws the document away then, and the cache keeps what was read.
    """
    waiting = [item for listing in listings for item in _lacking(document, listing)]
    waiting = [item for item in waiting if chosen is None or item[0] in chosen]
    found = []
    progress(0, len(waiting))
    for done, (key, row, wheel) in enumerate(waiting, 1):
        binaries = reader.read(key[0], wheel)
        if binaries["read"]:
            lay_binaries(row, binaries, document["citations"], today)
            found.append(key)
        progress(done, len(waiting))
    return found


def new_rows(old: Document, new: Document) -> set[Key]:
    """Name the rows of a renewed document that are new there or rest on another wheel than before."""
    known = {key: _wheel(row, old["citations"]) for key, row in release_rows(old)}
    return {key for key, row in release_rows(new) if known.get(key) != _wheel(row, new["citations"])}


def _lacking(document: Document, listing: Listing) -> Iterator[tuple[Key, Row, Wheel]]:
    """Yield the rows, with the wheel they rest on, whose binaries can be read and were not: ELF and PE only."""
    wheels = {group.representative.sha256: group.representative for group in listing.groups}
    for key, row in release_rows(document):
        wheel = wheels.get(_wheel(row, document["citations"]))
        if wheel is None or key[0] != listing.framework or key[0] not in SAMPLED or "stub_for" in row:
            continue
        if key[3].startswith(("linux", "win")) and row.get("binaries", {}).get("sha256") != wheel.sha256:
            yield key, row, wheel


def release_rows(document: Document) -> Iterator[tuple[Key, Row]]:
    """Yield the rows of all releases by their names."""
    for framework, versions in document["releases"].items():
        for version, rows in versions.items():
            for row in rows:
                yield (framework, version, row["distribution"], row["platform"]), row


def _wheel(row: Row, citations: Mapping[str, Any]) -> str:
    return str(citations[row["citations"][0]].get("sha256", ""))
