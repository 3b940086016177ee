"""The finding catalogue: ids, layers, meanings and which cause explains which consequence."""

from __future__ import annotations

from functools import lru_cache

from envcheck.host.data_files import load_data
from envcheck.model import dataclass, replace


@dataclass(frozen=True)
class Entry:
    """One finding id; `rank` is its place in the catalogue, lower layers first."""

    id: str
    layer: str
    headline: str  # what is wrong, one plain sentence
    means: str  # what belongs to it
    explains: tuple[str, ...]
    rank: int = 0


@dataclass(frozen=True)
class Catalogue:
    """The content of data/findings.json: lower layers first."""

    findings: tuple[Entry, ...]


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Entry]:
    """Read data/findings.json."""
    entries = load_data("findings", Catalogue).findings
    return {entry.id: replace(entry, rank=rank) for rank, entry in enumerate(entries)}
