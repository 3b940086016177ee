"""Find which of many literals stand where in a block of bytes: the scan's prefilter."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Hit = tuple[int, int]  # (number of the literal, offset of its first byte)
Find = Callable[[bytes], list[Hit]]


def finder(literals: Sequence[bytes]) -> Find:
    """Return a function that lists the hits of `literals` in a block, in the order of their ends.

    ahocorasick_rs, the fastest, has no wheels for musl; pyahocorasick has, at half the speed or more; where neither is
    installed an expression finds the lines, an order of magnitude slower, and each literal once for a line.
    """
    try:
        return _by_rust(literals)
    except ImportError:
        pass
    try:
        return _by_c(literals)
    except ImportError:
        return _by_expression(literals)


def _by_rust(literals: Sequence[bytes]) -> Find:
    from ahocorasick_rs import BytesAhoCorasick

    automaton: Any = BytesAhoCorasick(literals)

    def find(block: bytes) -> list[Hit]:
        return [(number, start) for number, start, _ in automaton.find_matches_as_indexes(block, overlapping=True)]

    return find


def _by_c(literals: Sequence[bytes]) -> Find:
    from ahocorasick import Automaton

    automaton: Any = Automaton()
    numbers: dict[bytes, list[int]] = {}
    for number, literal in enumerate(literals):
        numbers.setdefault(literal, []).append(number)
    for literal, same in numbers.items():
        automaton.add_word(literal.decode("latin-1"), (len(literal), same))
    automaton.make_automaton()

    def find(block: bytes) -> list[Hit]:
        found = automaton.iter(block.decode("latin-1"))  # a character for each byte: offsets stay what they are
        hits = [(number, end - length + 1, end) for end, (length, same) in found for number in same]
        return [(number, start) for number, start, _ in sorted(hits, key=_by_end)]

    return find


def _by_end(hit: tuple[int, int, int]) -> tuple[int, int]:
    return hit[2], -hit[1]


def _by_expression(literals: Sequence[bytes]) -> Find:
    expression = re.compile(_trie(literals))

    def find(block: bytes) -> list[Hit]:
        hits: list[Hit] = []
        found = expression.search(block)
        while found:
            end = line_end(block, found.end())
            places = ((block.find(literal, found.start(), end), number) for number, literal in enumerate(literals))
            hits += [(number, start) for start, number in sorted(places) if start >= 0]
            found = expression.search(block, end)
        return hits

    return find


def line_end(block: bytes, start: int) -> int:
    """Return where the line, or the state of a progress bar, that holds `start` ends."""
    end = block.find(b"\n", start)
    end = len(block) if end < 0 else end
    overwritten = block.find(b"\r", start, end)
    return end if overwritten < 0 else overwritten


def _trie(literals: Sequence[bytes]) -> bytes:
    """Write the literals as nested alternatives, so that few branches are tried at each byte."""
    tree: dict[int, Any] = {}
    for literal in literals:
        node = tree
        for byte in literal:
            node = node.setdefault(byte, {})
        node[_END] = {}
    return _alternatives(tree)


def _alternatives(node: dict[int, Any]) -> bytes:
    if _END in node:
        return b""  # a longer literal begins with this one: finding the shorter is enough
    branches = [re.escape(bytes([byte])) + _alternatives(below) for byte, below in node.items()]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


_END = -1
