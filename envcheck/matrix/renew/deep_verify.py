"""Hold what the matrix says of binaries against the binaries, read anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envcheck.matrix.renew.deep_cells import derived_cells
from envcheck.matrix.renew.deep_reader import Binaries, DeepReader
from envcheck.matrix.renew.draft import Row
from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.refresh import Listing
from envcheck.matrix.renew.verify import Disagreement, Verification

Key = tuple[str, str, str, str]  # framework, version, distribution, platform


def hold_binaries(
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
    rows = {key: row for listing in listings for key, row in _rows(document, listing.framework)}
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
                found.disagreements += _compare(key, row, reader.read(key[0], wheel))
                found.binaries += 1
                found.held.append(f"the binaries of {wheel.filename}")
            except ArtifactError as error:
                found.unread.append(str(error))
        progress(done, len(chosen))
    if not chosen:
        found.unread.append("The matrix knows no binaries of these rows, so none could be held.")


def _rows(document: dict[str, Any], framework: str) -> Iterator[tuple[Key, Row]]:
    for version, rows in document["releases"].get(framework, {}).items():
        for row in rows:
            if "binaries" in row:
                yield (framework, version, row["distribution"], row["platform"]), row


def _compare(key: Key, row: Row, read: Binaries) -> Iterator[Disagreement]:
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
    for cell, value in derived_cells(seen).items():
        if row["proof"].get(cell) == "tier2" and row.get(cell) != value:
            yield Disagreement(*key, cell, row.get(cell), value)
