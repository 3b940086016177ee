"""The catalogue of findings, and their order: one primary cause, its consequences under it, the rest by severity."""

from __future__ import annotations

from functools import lru_cache

from envcheck.host.data_files import load_data
from envcheck.model import ERROR, INCOMPATIBLE, NOTE, UNDETERMINED, WARNING, Finding, dataclass, replace


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


_SEVERITIES = {ERROR: 0, WARNING: 1, NOTE: 2}


def rank_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Link each finding to the one that explains it and put the root cause first.

    Only an incompatibility can be primary: what could not be read is never the cause of anything.
    """
    findings = [replace(finding, primary=False) if finding.primary else finding for finding in findings]
    findings_with_causes = [_link(finding, findings) for finding in findings]
    findings_with_causes.sort(key=_order)
    roots = [
        item
        for item in findings_with_causes
        if item.verdict == INCOMPATIBLE and item.severity != NOTE and not item.caused_by
    ]
    if not roots:
        return tuple(findings_with_causes)
    return (replace(roots[0], primary=True), *(item for item in findings_with_causes if item is not roots[0]))


def _link(finding: Finding, findings: list[Finding]) -> Finding:
    if finding.caused_by is not None or finding.verdict == UNDETERMINED:
        return finding
    causes = [
        other
        for other in findings
        if other.verdict == INCOMPATIBLE
        and other.id != finding.id
        and finding.id in catalogue()[other.id].explains
        and _SEVERITIES[other.severity] <= _SEVERITIES[finding.severity]
    ]
    if not causes:
        return finding
    return replace(finding, caused_by=min(causes, key=lambda cause: catalogue()[cause.id].rank).id)


def _order(finding: Finding) -> tuple[int, int, int, int]:
    undetermined = finding.verdict == UNDETERMINED
    return (
        _SEVERITIES[finding.severity] + (1 if undetermined and finding.severity != ERROR else 0),
        undetermined,
        finding.caused_by is not None,
        catalogue()[finding.id].rank,
    )
