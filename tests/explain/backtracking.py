"""Search for an expression as Python's `re` does, by trying and going back, and count the characters it looks at."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser as parser
else:
    import sre_parse as parser

# from a place, yields the places where a match may end, in the order of trying
Part = Callable[[int], Iterable[int]]
_OF_ONE_CHARACTER = ("LITERAL", "NOT_LITERAL", "IN", "ANY")
_REPEATED = 8  # what may stand more often than this is worth a long line


class Search:
    """One expression; `steps` counts what its searches looked at."""

    def __init__(self, pattern: str) -> None:
        tree: Any = parser.parse(pattern)
        self.repeats = _repeats(tree)
        self.steps = 0
        self._folds = bool(tree.state.flags & re.IGNORECASE)
        self._text = ""
        self._groups: dict[int | None, str] = {}
        self._match = self._sequence(tree)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Find all matches, each behind the one before."""
        self._text = text.lower() if self._folds else text
        found, start, empty_at = [], 0, -1
        while start <= len(text):
            end = next((end for end in self._match(start) if end != start or end != empty_at), None)
            if end is None:
                start += 1
            else:
                found.append((start, end))
                start = empty_at = end
        return found

    def looks(self, text: str) -> None:
        """Try to match at the beginning alone."""
        self._text = text.lower() if self._folds else text
        next(iter(self._match(0)), None)

    def _sequence(self, nodes: Any) -> Part:
        parts = [self._part(str(kind), value) for kind, value in nodes]
        if len(parts) == 1:
            return parts[0]

        def ends(at: int, number: int = 0) -> Iterator[int]:
            if number == len(parts):
                yield at
            else:
                for end in parts[number](at):
                    yield from ends(end, number + 1)

        return ends

    def _part(self, kind: str, value: Any) -> Part:
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inner = int(value[0]), int(value[1]), value[2]
            if len(inner) == 1 and str(inner[0][0]) in _OF_ONE_CHARACTER:
                fits = _test(str(inner[0][0]), inner[0][1], folds=self._folds)
                return (
                    self._run(fits, low, high)
                    if kind == "MAX_REPEAT"
                    else self._short_run(fits, low, high)
                )
            return self._repeated(self._sequence(inner), low, high, is_greedy=kind == "MAX_REPEAT")
        if kind == "SUBPATTERN":
            number, added, removed, inner = value
            assert added == removed == 0, "flags inside an expression are not counted here"
            return self._group(number, self._sequence(inner))
        if kind == "BRANCH":
            branches = [self._sequence(branch) for branch in value[1]]
            return lambda at: (end for branch in branches for end in branch(at))
        if kind == "GROUPREF":
            return lambda at: self._again(value, at)
        if kind in ("ASSERT", "ASSERT_NOT"):
            direction, inner = value
            assert direction == 1, "what looks behind is not counted here"
            part = self._ahead(self._sequence(inner), is_there=kind == "ASSERT")
        elif kind == "AT":
            part = self._place(str(value))
        else:
            part = self._one(_test(kind, value, folds=self._folds))
        return part

    def _ahead(self, inner: Part, *, is_there: bool) -> Part:
        def ends(at: int) -> tuple[int, ...]:
            found = next(iter(inner(at)), None) is not None
            return (at,) if found == is_there else ()

        return ends

    def _group(self, number: int | None, inner: Part) -> Part:
        def ends(at: int) -> Iterator[int]:
            for end in inner(at):
                self._groups[number] = self._text[at:end]
                yield end

        return inner if number is None else ends

    def _again(self, number: int, at: int) -> tuple[int, ...]:
        said = self._groups.get(number, "")
        self.steps += len(said) + 1
        return (at + len(said),) if self._text.startswith(said, at) else ()

    def _one(self, fits: Callable[[str], bool]) -> Part:
        def ends(at: int) -> tuple[int, ...]:
            self.steps += 1
            return (at + 1,) if at < len(self._text) and fits(self._text[at]) else ()

        return ends

    def _run(self, fits: Callable[[str], bool], low: int, high: int) -> Part:
        def ends(at: int) -> Iterable[int]:
            text, end, last = self._text, at, min(len(self._text), at + high)
            while end < last and fits(text[end]):
                end += 1
            self.steps += end - at + 1
            return range(end, at + low - 1, -1)

        return ends

    def _short_run(self, fits: Callable[[str], bool], low: int, high: int) -> Part:
        def ends(at: int) -> Iterator[int]:
            text, last = self._text, min(len(self._text), at + high)
            for end in range(at, last + 1):
                if end - at >= low:
                    yield end
                self.steps += 1
                if end == last or not fits(text[end]):
                    return

        return ends

    def _repeated(self, inner: Part, low: int, high: int, *, is_greedy: bool) -> Part:
        def more(at: int, count: int) -> Iterator[int]:
            for end in inner(at) if count < high else ():
                if end > at or count < low:  # what matches nothing is not repeated without end
                    yield from ends(end, count + 1)

        def ends(at: int, count: int = 0) -> Iterator[int]:
            if is_greedy:
                yield from more(at, count)
            if count >= low:
                yield at
            if not is_greedy:
                yield from more(at, count)

        return ends

    def _place(self, where: str) -> Part:
        def stands(at: int) -> bool:
            self.steps += 1
            if where in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
                return at == 0
            if where in ("AT_END", "AT_END_STRING"):
                return at == len(self._text) or (where == "AT_END" and self._text[at:] == "\n")
            assert where in ("AT_BOUNDARY", "AT_NON_BOUNDARY"), f"{where} is not counted here"
            before, behind = (
                at > 0 and _is_word(self._text[at - 1]),
                _is_word(self._text[at : at + 1]),
            )
            return (before != behind) == (where == "AT_BOUNDARY")

        return lambda at: (at,) if stands(at) else ()


def _test(kind: str, value: Any, *, folds: bool) -> Callable[[str], bool]:
    """Return what tells whether one character fits."""
    known: dict[str, bool] = {}

    def fits(character: str) -> bool:
        if character not in known:
            known[character] = _fits(kind, value, character, folds=folds)
        return known[character]

    return fits


def _fits(kind: str, value: Any, character: str, *, folds: bool) -> bool:
    if kind == "IN":
        is_negated = str(value[0][0]) == "NEGATE"
        return is_negated != any(
            _fits(str(one), of, character, folds=folds) for one, of in value[is_negated:]
        )
    if kind == "CATEGORY":
        tests = {"DIGIT": str.isdigit, "SPACE": str.isspace, "WORD": _is_word}
        name = str(value).removeprefix("CATEGORY_")
        return tests[name.removeprefix("NOT_")](character) == (not name.startswith("NOT_"))
    if kind == "RANGE":
        return any(
            value[0] <= ord(case) <= value[1]
            for case in {character, character.upper() if folds else character}
        )
    if kind == "ANY":
        return character != "\n"
    assert kind in ("LITERAL", "NOT_LITERAL"), f"{kind} is not counted here"
    return (character == (chr(value).lower() if folds else chr(value))) == (kind == "LITERAL")


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _repeats(tree: Any) -> int:
    """Count the places where an expression may match many times in a row: each makes a search one power longer."""
    found = 0
    for kind, value in tree:
        if str(kind) in ("MAX_REPEAT", "MIN_REPEAT"):
            found += (int(value[1]) > _REPEATED) + _repeats(value[2])
        elif str(kind) == "SUBPATTERN":
            found += _repeats(value[3])
        elif str(kind) in ("ASSERT", "ASSERT_NOT"):
            found += _repeats(value[1])
        elif str(kind) == "BRANCH":
            found += max(map(_repeats, value[1]))
    return found
