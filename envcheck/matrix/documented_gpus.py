"""The oldest GPUs that projects document, beside the GPU code that their files hold."""

from __future__ import annotations

from functools import lru_cache

from envcheck.host.data_files import load_data
from envcheck.model import Citation, dataclass, numbers
from envcheck.model.versions import matches


@dataclass
class DocumentedGpus:
    """The lowest compute capability that the documents of some releases name."""

    distributions: tuple[str, ...]
    versions: str  # specifier
    minimum: str  # "7.5"
    statement: str  # of the document, in its words
    citation: Citation
    platform: str = ""  # "" for all

    def excludes(self, capability: str) -> bool:
        """Return whether a GPU is older than the document asks for."""
        return numbers(capability) < numbers(self.minimum)


@dataclass
class DocumentedGpusTable:
    """The content of data/packages/documented_gpus.json."""

    rows: tuple[DocumentedGpus, ...]


@lru_cache(maxsize=1)
def _rows_of() -> dict[str, list[DocumentedGpus]]:
    """Map each distribution to its rows: one that has none is asked about most."""
    rows: dict[str, list[DocumentedGpus]] = {}
    for row in load_data("packages/documented_gpus", DocumentedGpusTable).rows:
        for name in row.distributions:
            rows.setdefault(name, []).append(row)
    return rows


def documented_gpus(distribution: str, version: str, platform: str) -> DocumentedGpus | None:
    """Return what is documented for a release; None where nothing is known to be.

    That of its platform comes first.
    """
    for row in _rows_of().get(distribution, ()):
        if row.platform in ("", platform) and matches(version, row.versions):
            return row
    return None
