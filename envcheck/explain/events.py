"""What a log said: signatures that may match a line, and the events that did."""

from __future__ import annotations

from envcheck.model.records import dataclass


@dataclass(frozen=True)
class Signature:
    """One machine-made message, as data/signatures.json describes it."""

    name: str  # kebab-case, unique: "cannot-open-shared-object"
    fragments: tuple[str, ...]  # literals; a line without any of them cannot match (the prefilter's needles)
    pattern: str  # linear-time expression with named groups, searched in the cleaned line
    finding: str  # the finding id it points to; "" when only reasoning over its captures decides
    severity: str  # error, warning, note; what the message is worth when nothing else speaks
    proves: tuple[str, ...] = ()  # captures whose value is a fact about the machine or the build that wrote the line
    role: str = "cause"  # cause, symptom (asks for a cause), context (only its captures count), noise, healthy, remedy
    weight: int = 50  # how well the message alone tells the root cause, 0 to 100: the heaviest claim is primary
    means: str = ""  # what it says about the machine, one sentence; {names} stand for captures


@dataclass(frozen=True)
class Event:
    """One message seen in a log, with what it captured; repeated messages are counted, not kept."""

    signature: str
    captures: tuple[tuple[str, str], ...]
    text: str  # the cleaned line, at most 500 characters
    file: str  # where it was read; "-" is standard input
    line: int  # 1-based number of the first such line
    last_line: int
    count: int = 1
    worker: str = ""  # the rank, pod or container a prefix named

    @property
    def captured(self) -> dict[str, str]:
        """Map capture names to what they matched."""
        return dict(self.captures)
