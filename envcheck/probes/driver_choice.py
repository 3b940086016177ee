"""Choose among several readings of one thing, and turn text facts into values."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple, TypeVar

from envcheck.model.facts import Absent, Fact, Known, Unknown

T = TypeVar("T")


def first_known(*readings: Fact[T]) -> Fact[T]:
    """Return the first known reading, else the first unknown one, else absent after all of them."""
    for wanted in (Known, Unknown):
        for reading in readings:
            if isinstance(reading, wanted):
                return reading
    return Absent(tried_of(*readings))


def tried_of(*readings: Fact[Any]) -> Tuple[str, ...]:
    """Return where absent and unknown readings looked, in order, each place once."""
    places = [place for reading in readings if not isinstance(reading, Known) for place in reading.tried]
    return tuple(dict.fromkeys(places))


def parsed(text: Fact[str], parse: Callable[[str], Optional[T]], what: str) -> Fact[T]:
    """Apply `parse` to a known text; a text it cannot read is unknown, named as `what`."""
    if not isinstance(text, Known):
        return text
    value = parse(text.value)
    where = text.source.where
    if value is None:
        return Unknown("unparsable", f"{where}: no {what} in {text.value[:80].strip()!r}", (where,))
    return Known(value, text.source)
