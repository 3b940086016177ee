"""A fact about a machine: known, absent, or unknown, each with where it was looked for."""

from __future__ import annotations

from typing import Any, Callable, Generic, Optional, Tuple, TypeVar, Union

from envcheck.model.records import dataclass

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SOURCE_KINDS = ("command", "file", "env", "library", "override", "report", "matrix")
UNKNOWN_REASONS = ("timeout", "denied", "failed", "unparsable", "conflict", "crashed")


@dataclass(frozen=True)
class Source:
    """Name where a value was read: a command, file, variable, library, override or report."""

    kind: str
    where: str
    excerpt: str = ""


@dataclass(frozen=True)
class Known(Generic[T_co]):
    """Hold a value together with where it was read."""

    value: T_co
    source: Source


@dataclass(frozen=True)
class Absent:
    """State that a thing is not there, after looking in each of `tried`."""

    tried: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """State that a thing could not be told, with one of UNKNOWN_REASONS and what happened."""

    why: str
    detail: str
    tried: Tuple[str, ...] = ()


Fact = Union[Known[T], Absent, Unknown]

NOT_STATED = Unknown("failed", "not stated in this snapshot")


def get_value(fact: Fact[T]) -> Optional[T]:
    """Return the value of a known fact, else None: for display and optional narrowing only."""
    return fact.value if isinstance(fact, Known) else None


def choose_reading(*readings: Fact[T]) -> Fact[T]:
    """Return the first known reading, else the first unknown one, else absent after all of them."""
    for wanted in (Known, Unknown):
        for reading in readings:
            if isinstance(reading, wanted):
                return reading
    return Absent(collect_tried(*readings))


def collect_tried(*readings: Fact[Any]) -> Tuple[str, ...]:
    """Return where absent and unknown readings looked, in order, each place once."""
    places = [place for reading in readings if not isinstance(reading, Known) for place in reading.tried]
    return tuple(dict.fromkeys(places))


def parse_fact(text: Fact[str], parse: Callable[[str], Optional[T]], what: str) -> Fact[T]:
    """Apply `parse` to a known text; a text it cannot read is unknown, named as `what`."""
    if not isinstance(text, Known):
        return text
    value = parse(text.value)
    where = text.source.where
    if value is None:
        return Unknown("unparsable", f"{where}: no {what} in {text.value[:80].strip()!r}", (where,))
    return Known(value, text.source)
