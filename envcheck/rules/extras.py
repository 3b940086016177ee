"""The extras that releases have, and what they bring.

data/frameworks/extras.json beside the rows of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.host.data_files import load_data
from envcheck.model import Citation, FrameworkRelease, dataclass
from envcheck.model.versions import within


@dataclass
class ExtraRow:
    """Extras that some releases have."""

    distributions: tuple[str, ...]
    specifier: str
    extras: tuple[str, ...]
    platforms: tuple[str, ...] = ()  # where what they bring has wheels; () everywhere
    same_as: str = ""  # the extra of the matrix that brings the same: cuda12 for cuda


@dataclass
class ExtraTable:
    """The content of data/frameworks/extras.json."""

    rows: tuple[ExtraRow, ...]
    citation: Citation


def extra_table() -> ExtraTable:
    """Return data/frameworks/extras.json."""
    return load_data("frameworks/extras", ExtraTable)


def list_extras(row: FrameworkRelease) -> tuple[str, ...] | None:
    """List the extras that a release has; None where nothing states them."""
    rows = [item for item in extra_table().rows if row.distribution in item.distributions]
    stated = [*row.extras, *(row.gpu_extra.split(",") if row.gpu_extra else ())]
    matches = (item.extras for item in rows if within(row.version, item.specifier))
    if rows:
        return tuple(sorted({*stated, *(extra for extras in matches for extra in extras)}))
    return None


def has_extras(row: FrameworkRelease, extras: Iterable[str]) -> bool:
    """Return whether a release has extras.

    One of which nothing states them counts as having all.
    """
    known_extras = list_extras(row)
    return known_extras is None or set(extras) <= set(known_extras)


def has_extra_wheels(platform: str, row: FrameworkRelease, extras: Iterable[str]) -> bool:
    """Return whether what extras of a release bring has wheels for a platform."""
    return all(not item.platforms or platform in item.platforms for item in extra_rows(row, extras))


def resolve_extras(row: FrameworkRelease, extras: Iterable[str]) -> tuple[str, ...]:
    """Translate extras to the names that the matrix uses: cuda -> cuda12."""
    same = {
        extra: item.same_as
        for item in extra_rows(row, extras)
        if item.same_as
        for extra in item.extras
    }
    return tuple(sorted({same.get(extra, extra) for extra in extras}))


def extra_rows(row: FrameworkRelease, extras: Iterable[str]) -> list[ExtraRow]:
    """List what is stated of extras of a release."""
    wanted = set(extras)
    rows = (
        item
        for item in extra_table().rows
        if wanted & {*item.extras} and row.distribution in item.distributions
    )
    return [item for item in rows if within(row.version, item.specifier)]
