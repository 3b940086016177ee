"""Choose the root cause among the claims, put its consequences under it, and name what fits as well."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.explain.log import Claim
from envcheck.explain.signatures import rivals as rival_rows
from envcheck.model.facts import Source
from envcheck.model.findings import ERROR, INCOMPATIBLE, NOTE, UNDETERMINED, WARNING, Command, Evidence, Finding, Fix
from envcheck.rules.catalogue import catalogue

_LEAST = 20  # lighter claims are symptoms that name no cause
_SHOWN = 6  # lines shown of one claim


def strongest(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Join the claims of one cause and order them: heaviest first, then by the catalogue; never by the log's order."""
    grouped: dict[str, list[Claim]] = {}
    for claim in claims:
        grouped.setdefault(claim.id, []).append(claim)
    joined = map(_join, grouped.values())
    return tuple(sorted(joined, key=lambda claim: (-claim.weight, catalogue()[claim.id].rank)))


def _join(same: list[Claim]) -> Claim:
    """Join the claims of one cause under the heaviest; the first by its words where two weigh the same."""
    ordered = sorted(same, key=lambda claim: (-claim.weight, claim.message))
    first = ordered[0]
    events = tuple(dict.fromkeys(event for claim in ordered for event in claim.events))
    return Claim(first.id, first.weight, first.message, events, first.severity, first.rivals)


def root_of(claims: tuple[Claim, ...]) -> Claim | None:
    """Return the heaviest claim that names a cause."""
    return claims[0] if claims and claims[0].weight >= _LEAST else None


def consequence(claim: Claim, root: Claim) -> bool:
    """Tell whether a cause makes what another claim saw: by the catalogue, or as the lighter reading of one failure."""
    explained = claim.id in catalogue()[root.id].explains
    return explained or claim.weight < 60 or bool(set(claim.events) & set(root.events))


def second_reading(claim: Claim, root: Claim) -> bool:
    """Tell whether a claim only reads the root's own lines in a weaker way: it says nothing more."""
    lines = {(event.file, event.line) for event in root.events}
    return claim is not root and bool(claim.events) and all((event.file, event.line) in lines for event in claim.events)


def evidence(claim: Claim) -> tuple[Evidence, ...]:
    """Show the lines of the log that speak for a claim."""
    return tuple(
        Evidence("log", event.text, Source("file", f"{event.file}:{event.line}", event.text))
        for event in claim.events[:_SHOWN]
    )


def finding_of(claim: Claim, root: Claim, fix: Fix | None) -> Finding:
    """Turn a claim into a finding; what the root explains is linked to it, the rest is a warning beside it."""
    if claim is root:
        severity = ERROR if claim.severity == ERROR else WARNING
        return Finding(claim.id, INCOMPATIBLE, severity, claim.message, evidence(claim), fix)
    cause = root.id if consequence(claim, root) else None
    beside = WARNING if root.severity == ERROR else NOTE  # never above the root
    return Finding(claim.id, INCOMPATIBLE, beside, claim.message, evidence(claim), fix, caused_by=cause)


def rival_findings(root: Claim, known: Iterable[str]) -> tuple[Finding, ...]:
    """Name each cause that fits the root's messages as well, with the command that tells them apart."""
    seen = set(known)
    return tuple(
        Finding(
            other,
            UNDETERMINED,
            WARNING,
            f"Fits the same lines. {catalogue()[other].headline}",
            (),
            _question(root, other),
        )
        for other in dict.fromkeys(root.rivals)
        if other not in seen
    )


def _question(root: Claim, other: str) -> Fix | None:
    for row in rival_rows():
        if other in row["either"] and (root.id in row["or"] or not row["or"]):
            return Fix(str(row["tells"]), (Command(tuple(row["command"]), "environment", "tells the two apart"),))
        if root.id in row["either"] and other in row["or"]:
            return Fix(str(row["tells"]), (Command(tuple(row["command"]), "environment", "tells the two apart"),))
    return None
