"""No line, however it is filled, makes a signature or a prefix take long: counted in steps, never in seconds."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from envcheck.explain import text as cleaning
from envcheck.explain.signatures import load_signatures
from envcheck.explain.text import clean_line, strip_markup
from tests.explain.backtracking import Search
from tests.explain.pathological import lines_for
from tests.work import count_lines

# of the shorter of two lines; a search of the longer takes 2, 4 or 8 times the steps, by its power
LENGTH = 48
# what grows with the square of the length is borne: a line is cut; what grows with its cube is not
SQUARE = 5.5
# a cube of fewer steps takes a fifth of a second for a line of a thousand characters
FEW = LENGTH**2

SIGNATURES = load_signatures()
PARTS = 8  # so that the work is shared by several processes


def most_steps(search: Search, pattern: str, length: int) -> tuple[int, str]:
    """Return the steps of the longest search on the lines made against an expression, which finds what `re` finds."""
    most = (0, "")
    for line in lines_for(pattern, length):
        search.steps = 0
        assert search.spans(line) == [found.span() for found in re.finditer(pattern, line)], (
            "counted is another search"
        )
        most = max(most, (search.steps, line))
    return most


def growth(pattern: str) -> tuple[float, str]:
    """Return how much longer a search takes on lines of twice the length; 0 where no search can be long."""
    search = Search(pattern)
    if search.repeats < 2:  # at each place of a line, once along the line: a square
        return 0, ""
    short, _ = most_steps(search, pattern, LENGTH)
    if short < FEW:
        return 0, ""
    long, line = most_steps(search, pattern, 2 * LENGTH)
    return long / short, line


@pytest.mark.parametrize("part", range(PARTS))
def test_no_signature_takes_long_on_a_line_made_against_it(part: int) -> None:
    found = {signature.name: growth(signature.expression) for signature in SIGNATURES[part::PARTS]}
    assert {name: times for name, times in found.items() if times[0] > SQUARE} == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\s*(?:x\S*)?\s*(?P<user>\S+)?\s+(?P<pid>\d+)\s+F",
        r"(?i)(?:msvcp140|vcruntime140)\w*(?:\.dll)?.*(?:missing|not found)",
    ],
)
def test_a_signature_that_takes_long_would_be_seen(pattern: str) -> None:
    assert growth(pattern)[0] > SQUARE


def test_what_is_made_for_an_expression_matches_it() -> None:
    missed = [
        item.name
        for item in SIGNATURES
        if not any(re.search(item.expression, x) for x in lines_for(item.expression, 400))
    ]
    assert len(missed) <= len(SIGNATURES) // 100, missed


class Counted:
    """In the place of `re`: finds the same, and counts the steps of each search."""

    def __init__(self) -> None:
        self.searches: dict[str, Search] = {}

    def match(self, pattern: str, text: str) -> Any:
        self._of(pattern).looks(text)
        return re.match(pattern, text)

    def search(self, pattern: str, text: str) -> Any:
        self._of(pattern).spans(text)
        return re.search(pattern, text)

    def sub(self, pattern: bytes, instead: Any, text: bytes) -> bytes:
        self._of(pattern.decode("latin-1")).spans(text.decode("latin-1"))
        return re.sub(pattern, instead, text)

    def _of(self, pattern: str) -> Search:
        return self.searches.setdefault(pattern, Search(pattern))

    def steps(self) -> int:
        return sum(search.steps for search in self.searches.values())


@pytest.mark.parametrize(
    "filling",
    [
        b" ",
        b"a",
        b"1",
        b"1.",
        b"[",
        b"(",
        b"> ",
        b"\x1b[",
        b"\x1b]0;",
        b"\x08",
        b"{",
        b"-",
        b"@",
        b":",
    ],
)
def test_no_prefix_or_escape_takes_long(filling: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def clean(length: int) -> tuple[int, int]:
        counted = Counted()
        instead = SimpleNamespace(match=counted.match, search=counted.search, sub=counted.sub)
        monkeypatch.setattr(cleaning, "re", instead)
        for begin in BEGINNINGS:
            clean_line(strip_markup(begin + (filling * length)[:length]))
        monkeypatch.undo()
        lines = sum(
            count_lines(
                lambda begin=begin: clean_line(  # type: ignore[misc]
                    strip_markup(begin + (filling * length)[:length])
                )
            )
            for begin in BEGINNINGS
        )
        return counted.steps(), lines

    clean(1)
    (short, few), (long, many) = clean(200), clean(400)
    assert long <= SQUARE * short, "steps of searches"
    assert many <= 2.2 * few, "lines of Python"


BEGINNINGS = (
    b"",
    b"a",
    b"[",
    b"(",
    b"user@host",
    b"2026-11-20 ",
    b"trainer-",
    b"E0000 ",
    b"\x1b]0;",
    b"Nov 20 ",
)
