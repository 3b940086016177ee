"""Put lines together again that a terminal's edge or a mail program has broken, as far as the text shows it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from envcheck.explain.lines import clean_line
from envcheck.model.records import dataclass

KEPT = 256 << 10  # bytes of a log that are looked at again: who pastes from a terminal pastes no more
_WIDTHS = (72, 79, 80, 100, 120, 132)  # what terminals and mail programs break at, whatever else the log holds
_NARROWEST, _WIDEST = 40, 400
_SCREEN = 72  # no terminal is narrower: a table's lines of one width may be
_LINES = 12  # of one message
# The end of a table's row or rule: such lines are all of one width, and none of them goes on in the next.
_BORDERS = ("|", "+", "-", "=", "_", "#", "*", "\u2502", "\u2503", "\u2551", "\u2524", "\u256e", "\u256f", "\u2518")


@dataclass(frozen=True)
class Broken:
    """Lines that may be one line, put together."""

    number: int  # of the first of them
    pieces: tuple[str, ...]
    text: str
    is_sure: bool  # the log's widest lines are all this wide: they end at an edge

    @property
    def torn(self) -> str:
        """Put a character that no message has where the pieces meet: what matches this as well does not need them."""
        return "\x01".join(self.pieces)


def broken_lines(chunk: bytes) -> Iterator[Broken]:
    """List the lines of a log that may go on in the next one, each with what follows it."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in chunk.decode("utf-8", "replace").split("\n")]
    often = Counter(map(len, {re.sub(r"\d", "0", line) for line in lines}))  # a line repeated with other numbers is one
    widest = max(often)
    edge = widest if _SCREEN <= widest <= _WIDEST and often[widest] > 1 else 0
    often_cut = {width for width, count in often.items() if count > 2 and _NARROWEST <= width <= _WIDEST}
    usual = {
        width for width in (*_WIDTHS, *often_cut) if sum(map(width.__lt__, map(len, lines))) <= max(2, len(lines) // 5)
    }
    yield from _joined(lines, [len(line) in {*usual, edge} for line in lines], "", edge)
    wraps = [_wraps(line, following, {*usual, edge}) for line, following in pairwise(lines)]
    yield from _joined(lines, [*wraps, False], " ", 0)


def _wraps(line: str, following: str, widths: set[int]) -> bool:
    """Tell whether a line ends where the next word would not have fitted."""
    word = len(following.split(None, 1)[0]) if following.strip() else 0
    return bool(word) and len(line) >= _NARROWEST and any(len(line) <= width < len(line) + 1 + word for width in widths)


def _joined(lines: Sequence[str], goes_on: Sequence[bool], glue: str, edge: int) -> Iterator[Broken]:
    position = 0
    while position < len(lines) - 1:
        last = position
        while goes_on[last] and last - position < _LINES and _may_follow(lines[last : last + 2]):
            last += 1
        if last > position:
            pieces = tuple(line.strip() if glue else line for line in lines[position : last + 1])
            yield Broken(position + 1, pieces, glue.join(pieces), is_sure=bool(edge) and len(pieces[0]) == edge)
        position = last + 1 if last > position else position + 1


def _may_follow(lines: Sequence[str]) -> bool:
    """Tell whether the second of two lines may be the rest of the first: no timestamp or rank begins it."""
    if len(lines) < 2 or not lines[1].strip() or lines[0].endswith(_BORDERS):
        return False
    found = clean_line(lines[1].encode())
    return found.text == found.bare
