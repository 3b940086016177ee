"""Weigh what a log says: how strong each kind of evidence is, and which claim is the root cause."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from envcheck.explain.signatures import Event
from envcheck.model import ERROR, dataclass
from envcheck.rules.catalogue import catalogue


class Strength(IntEnum):
    """The kinds of evidence, the strongest first, each with the reason why it stands above the next.

    Only the order counts. The recorded logs of tests/cases decided it, and hold it.
    """

    because: str

    def __new__(cls, place: int, because: str) -> Strength:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        """Make a member that compares by its place and keeps its reason."""
        member = int.__new__(cls, place)
        member._value_ = place
        member.because = because
        return member

    EMULATED = 24, "The program is for another processor, so whatever it says, even a final refusal, follows from that."
    FINAL = 23, "The check that ends the program states the cause, or a measured fact explains the message."
    BOTH_VALUES = 22, "It names both releases that clash, as read from the files themselves, not from a limit in code."
    LIMIT_AND_VALUE = 21, "It names a limit and the value that breaks it, so there is more to check than a refusal."
    REFUSED_PART = 20, "A tool refuses a part by name, which is a decision and not only a description."
    NAMED_CAUSE = 19, "It names the cause in words of its own, not only the part that is wrong."
    NAMED_PART = 18, "It names the part and what it lacks, not only the place where it fails."
    NAMED_PLACE = 17, "It names the place of the fault, and holds against facts that a log states in passing."
    DERIVED = 16, "It follows from the message and one more value, while a missing part may have several causes."
    MISSING_HERE = 15, "A part is missing in a known place, while a search that finds nothing may look elsewhere."
    NOT_FOUND = 14, "A search ends without the part, which a program reports only where it needs the part."
    LIKELY = 13, "One cause is common and the others are rare, and no working GPU excuses the message."
    USUAL = 12, "Two causes fit and this one is usual, while a decided message may be a side remark."
    DECIDED = 11, "The weakest message that tells its cause by itself, so the machine's facts need not support it."
    PROBABLE = 10, "Several causes fit and one is most frequent, as when only the machine's facts show a fault."
    OPEN = 9, "Several causes fit equally, but none of the other messages explains this one."
    FAILED_PART = 8, "It names the library that fails, so it says where, while a failed call says only when."
    FAILED_CALL = 7, "A call fails, which says more than that no GPU is used."
    UNUSED_GPU = 6, "No GPU is used, which is what went wrong, while a side effect is what came after."
    SIDE_EFFECT = 5, "Something else fails because of the cause, one step nearer to it than the end of the program."
    AFTERMATH = 4, "The program ends and points to the lines before it, so it is a claim where no other is."
    SYMPTOM = 3, "Something is wrong and nothing says what, so it never names a root cause."
    UNSUPPORTED = 2, "The machine's facts show a fault that the log's own decisive message does not depend on."

    @classmethod
    def named(cls, name: str) -> Strength:
        """Return the kind that data/signatures.json names: named-cause."""
        return cls[name.upper().replace("-", "_")]


@dataclass(frozen=True)
class Claim:
    """One cause that messages of the log speak for, and how strongly."""

    id: str  # finding id
    strength: Strength
    message: str  # what was seen and why it means that, one sentence or two
    events: tuple[Event, ...] = ()
    severity: str = ERROR
    rivals: tuple[str, ...] = ()  # finding ids that fit the same messages


def rank_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Join the claims of one cause and order them by strength, then by the catalogue; the log's order never counts."""
    grouped: dict[str, list[Claim]] = {}
    for claim in claims:
        grouped.setdefault(claim.id, []).append(claim)
    joined = map(_join, grouped.values())
    return tuple(sorted(joined, key=lambda claim: (-claim.strength, catalogue()[claim.id].rank)))


def _join(same: list[Claim]) -> Claim:
    """Join the claims of one cause under the strongest; the first by its words where two are equal."""
    ordered = sorted(same, key=lambda claim: (-claim.strength, claim.message))
    first = ordered[0]
    events = tuple(dict.fromkeys(event for claim in ordered for event in claim.events))
    return Claim(first.id, first.strength, first.message, events, first.severity, first.rivals)


def root_of(claims: tuple[Claim, ...]) -> Claim | None:
    """Return the strongest claim that names a cause."""
    return claims[0] if claims and claims[0].strength > Strength.SYMPTOM else None


def is_consequence(claim: Claim, root: Claim) -> bool:
    """Tell whether the root causes what a claim saw: by the catalogue, or as a weaker reading of one failure."""
    explained = claim.id in catalogue()[root.id].explains
    return explained or claim.strength < Strength.OPEN or bool(set(claim.events) & set(root.events))


def is_second_reading(claim: Claim, root: Claim) -> bool:
    """Tell whether a claim only reads the root's own lines in a weaker way."""
    lines = {(event.file, event.line) for event in root.events}
    return claim is not root and bool(claim.events) and all((event.file, event.line) in lines for event in claim.events)
