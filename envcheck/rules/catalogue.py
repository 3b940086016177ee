"""The finding catalogue: ids, layers, meanings and which cause explains which consequence."""

from __future__ import annotations

import json
from functools import lru_cache

from envcheck.host.data_files import read_data
from envcheck.model import dataclass


@dataclass(frozen=True)
class Entry:
    """One finding id; `rank` is its place in the catalogue, lower layers first."""

    id: str
    layer: str
    headline: str  # what is wrong, one plain sentence
    means: str  # what belongs to it
    explains: tuple[str, ...]
    rank: int


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Entry]:
    """Read data/findings.json."""
    rows = json.loads(read_data("findings.json"))["findings"]
    return {row["id"]: Entry(rank=rank, **{**row, "explains": tuple(row["explains"])}) for rank, row in enumerate(rows)}
