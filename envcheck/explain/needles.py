"""Find which of many literals stand where in a block of bytes: the scan's prefilter."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Hit = tuple[int, int]  # (number of the literal, offset of its first byte)
Find = Callable[[bytes], list[Hit]]


def finder(literals: Sequence[bytes]) -> Find:
    """Return a function that lists the hits of `literals` in a block, in the order of their ends.

    Without ahocorasick_rs, which has no wheels for some platforms, an expression finds the lines, an order of magnitude
    slower; then each literal is listed once for a line.
    """
    try:
        from ahocorasick_rs import BytesAhoCorasick
    except ImportError:
        return _by_expression(literals)
    automaton: Any = BytesAhoCorasick(literals)

    def find(block: bytes) -> list[Hit]:
        return [(number, start) for number, start, _ in automaton.find_matches_as_indexes(block, overlapping=True)]

    return find


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
