"""Find which of many literals stand where in a block of bytes: the scan's prefilter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, compress
from typing import Any

from envcheck.host.system import has_sse42

Hit = tuple[int, int]  # (number of the literal, offset of its first byte)
Find = Callable[[bytes], list[Hit]]

_FEW = 48 << 10  # bytes in which looking for each literal by itself takes less time than any preparation
_CALL = 1 << 10  # ... and what one call costs beside its bytes, in bytes
_HEAD = 8  # bytes of a literal that the expression knows; the rest is compared where they stand
_KEPT = 4 << 20  # bytes of lines whose hits are remembered
_LONG = 4 << 10  # bytes of a line that is not remembered
# Line ends are alike, and digits are: lines of a log differ in their numbers, and no fragment is shorter for it.
_KIND = bytes(0x0A if byte == 0x0D else 0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))


def finder(literals: Sequence[bytes], others: Callable[[], Sequence[bytes]] = tuple) -> Find:
    """Return a function that lists the hits of `literals` in a block, in the order of their first bytes.

    `others` makes literals that cannot stand in UTF-8, numbered after the first ones.

    Nothing is built before more than a few lines came. Then Hyperscan finds them, where it is installed; else an
    automaton, where that is, or an expression: they are slow and therefore see each kind of line only once.
    """
    seen, find, known, whole = 0, None, literals, False

    def lazily(block: bytes) -> list[Hit]:
        nonlocal seen, find, known, whole
        seen += len(block) + _CALL
        if not whole and (seen > _FEW or not _is_utf8(block)):
            known, whole = [*literals, *others()], True
        if find is None and seen > _FEW:
            find = _by_hyperscan(known) or _by_kinds(known)
        return find(block) if find else sorted(_one_by_one(known, block), key=_by_place)

    return lazily


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _by_place(hit: Hit) -> Hit:
    return hit[1], hit[0]


def _one_by_one(literals: Sequence[bytes], block: bytes) -> Iterable[Hit]:
    """Look for the literals whose first bytes stand somewhere in the block."""
    width = min(map(len, literals))
    heads = {block[at : at + width] for at in range(len(block))}
    for number, literal in enumerate(literals):
        start = block.find(literal) if literal[:width] in heads else -1
        while start >= 0:
            yield number, start
            start = block.find(literal, start + 1)


def _by_hyperscan(literals: Sequence[bytes]) -> Find | None:
    if not has_sse42():
        return None  # it would end this program with an illegal instruction
    try:
        import hyperscan
    except ImportError:
        return None
    database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    numbers = range(len(literals))
    try:
        database.compile(expressions=list(literals), ids=list(numbers), elements=len(literals), literal=True)
    except hyperscan.HyperscanError:
        return None
    lengths = [len(literal) for literal in literals]

    def find(block: bytes) -> list[Hit]:
        hits: list[Hit] = []

        def found(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((number, end - lengths[number]))

        database.scan(block, match_event_handler=found)
        return sorted(hits, key=_by_place)

    return find


def _by_automaton(literals: Sequence[bytes]) -> Find | None:
    try:
        from ahocorasick import Automaton
    except ImportError:
        return None
    automaton: Any = Automaton()
    numbers: dict[bytes, list[int]] = {}
    for number, literal in enumerate(literals):
        numbers.setdefault(literal, []).append(number)
    for literal, same in numbers.items():
        automaton.add_word(literal.decode("latin-1"), (len(literal) - 1, same))
    automaton.make_automaton()

    def find(block: bytes) -> list[Hit]:
        found = automaton.iter(block.decode("latin-1"))  # a character for each byte: offsets stay what they are
        return sorted([(number, end - before) for end, (before, same) in found for number in same], key=_by_place)

    return find


def _by_kinds(literals: Sequence[bytes]) -> Find:
    """Let the automaton see lines that differ in their digits alone once, and compare only what it found there."""
    kinds = [literal.translate(_KIND) for literal in literals]
    search = _by_automaton(kinds) or _by_expression(kinds)
    numbered = [literal if re.search(rb"\d", literal) else b"" for literal in literals]
    known: dict[bytes, list[Hit]] = {}
    kept = 0

    def learned(kind: bytes) -> list[Hit]:
        nonlocal kept
        if kind in known:
            return known[kind]
        hits = search(kind)
        if len(kind) <= _LONG:
            if kept > _KEPT:
                known.clear()
                kept = 0
            known[kind] = hits
            kept += len(kind)
        return hits

    def find(block: bytes) -> list[Hit]:
        kinds = block.translate(_KIND).split(b"\n")
        found = [learned(kind) if hits is None else hits for kind, hits in zip(kinds, map(known.get, kinds))]
        if not any(found):
            return []
        places = zip(kinds, accumulate(map(len, kinds)), found)
        return [
            (number, start)
            for before, (kind, end, hits) in compress(enumerate(places), found)
            for number, start in ((number, before + end - len(kind) + at) for number, at in hits)
            if block.startswith(numbered[number], start)
        ]

    return find


def _by_expression(literals: Sequence[bytes]) -> Find:
    expression = re.compile(_trie([literal[:_HEAD] for literal in literals]))
    shortest = min(map(len, literals))
    heads: dict[bytes, list[tuple[int, bytes]]] = {}
    for number, literal in enumerate(literals):
        heads.setdefault(literal[:shortest], []).append((number, literal))

    def find(block: bytes) -> list[Hit]:
        hits: list[Hit] = []
        found = expression.search(block)
        while found:
            at = found.start()
            alike = heads.get(block[at : at + shortest], ())
            hits += [(number, at) for number, literal in alike if block.startswith(literal, at)]
            found = expression.search(block, at + 1)
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
