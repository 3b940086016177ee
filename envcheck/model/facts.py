"""A fact about a machine is known, absent or unknown, and says where it comes from."""

from __future__ import annotations

from typing import Any, Callable, Generic, Optional, Tuple, TypeVar, Union

from envcheck.model.records import dataclass

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SOURCE_KINDS = ("command", "file", "env", "library", "override", "report", "matrix")
UNKNOWN_REASONS = ("timeout", "denied", "failed", "unparsable", "conflict", "crashed")


@dataclass
class Source:
    """Where a value was read.

    A command, file, variable, library, override, report or the matrix.
    """

    kind: str
    where: str
    excerpt: str = ""


@dataclass
class Known(Generic[T_co]):
    """A value and its source. The value is never None."""

    value: T_co
    source: Source


@dataclass
class Absent:
    """A thing that is in none of the places `tried`."""

    tried: Tuple[str, ...] = ()
    value = None  # no field: see `Fact`


@dataclass
class Unknown:
    """A thing that could not be determined.

    One of UNKNOWN_REASONS, and what happened as a clause.
    """

    why: str
    detail: str
    tried: Tuple[str, ...] = ()
    value = None


# `fact.value` is the plain value, or None where the thing is absent or could not be read. 0, False
# and "" are values.
Fact = Union[Known[T], Absent, Unknown]

NOT_STATED = Unknown("failed", "not stated in this snapshot")
# What a file that builds an environment leaves to the machine that runs it: its driver, its GPUs,
# its loader.
AT_RUN = Unknown("failed", "it shows when the environment runs")
NOT_COLLECTED = Unknown("failed", "not collected: an older envcheck recorded this machine")


def from_file(value: T, path: str, excerpt: str = "") -> Known[T]:
    """State what a file says."""
    return Known(value, Source("file", path, excerpt))


def choose_reading(*readings: Fact[T]) -> Fact[T]:
    """Return the first known reading, else the first unknown one, else absent."""
    for kind in (Known, Unknown):
        for reading in readings:
            if isinstance(reading, kind):
                return reading
    return Absent(collect_tried(*readings))


def collect_tried(*readings: Fact[Any]) -> Tuple[str, ...]:
    """Return the distinct places where absent and unknown readings looked, in order."""
    places = [
        place for reading in readings if not isinstance(reading, Known) for place in reading.tried
    ]
    return tuple(dict.fromkeys(places))


def parse_fact(text: Fact[str], parse: Callable[[str], Optional[T]], what: str) -> Fact[T]:
    """Apply `parse` to a known text.

    Where it returns None the fact is unknown and names `what` is missing.
    """
    if not isinstance(text, Known):
        return text
    value = parse(text.value)
    where = text.source.where
    if value is None:
        return Unknown("unparsable", f"{where}: no {what} in {text.value[:80].strip()!r}", (where,))
    return Known(value, text.source)
