"""Find the known messages of logs of any size in constant memory."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice

from envcheck.explain.answers import answers
from envcheck.explain.broken import KEPT, Broken, broken_lines
from envcheck.explain.collected import Captures, Collected
from envcheck.explain.decoding import spellings
from envcheck.explain.events import Event, Signature
from envcheck.explain.lines import Cutter, Line, clean_line
from envcheck.explain.needles import finder, line_end
from envcheck.model.records import dataclass

Found = tuple[tuple[int, Captures, int], ...]  # (signature, captures, offset in the text) ...

_WINDOW = 2048  # bytes of a line looked at around a message; what no log writes longer
_BEFORE = 512  # ... of which this many may precede the first fragment
_AFTER = 512  # ... and this many follow the last one, unless the line ends: what does not fit is in the next window
_PER_LINE = 8  # messages of one kind in a line: what several processes wrote before one of them ended the line
_REMEMBERED = 4096  # messages whose meaning is kept: logs repeat themselves


@dataclass(frozen=True)
class Scan:
    """What logs hold: the known messages in the order they were first seen, and how much was read."""

    events: tuple[Event, ...]
    lines: int
    bytes: int
    unkept: int  # lines of messages told apart from those kept by their captures only, over the limit per message


class Scanner:
    """Collect known messages from any number of streams, block by block."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.collected = Collected(signatures)
        self.lines = 0
        self.bytes = 0
        self._signatures = signatures
        self._patterns: dict[int, re.Pattern[str]] = {}
        self._meanings: dict[tuple[str, tuple[int, ...]], Found] = {}
        numbers = [number for number, item in enumerate(signatures) for _ in item.fragments]
        fragments = "\0".join([fragment for item in signatures for fragment in item.fragments])
        literals = fragments.encode().split(b"\0") if numbers else []
        last = dict(zip(literals, numbers, strict=True))
        owners = {literal: [number] for literal, number in last.items()}
        if len(last) < len(literals):  # few belong to several
            for literal, number in zip(literals, numbers, strict=True):
                if last[literal] != number:
                    owners[literal].insert(-1, number)
        self._literals = list(owners)
        self._owners = list(owners.values())
        self._encodings: dict[int, str] = {}
        self._find = finder(self._literals, self._other_spellings)

    def _other_spellings(self) -> list[bytes]:
        """Add, and list, the literals of fragments in the encodings that are not UTF-8."""
        owners: dict[tuple[bytes, str], list[int]] = {}
        for number, signature in enumerate(self._signatures):
            for fragment in signature.fragments:
                for spelling in () if fragment.isascii() else spellings(fragment).items():
                    owners.setdefault(spelling, []).append(number)
        added = [(literal, encoding) for literal, encoding in owners if encoding]
        self._encodings.update(enumerate((encoding for _, encoding in added), len(self._literals)))
        self._literals += [literal for literal, _ in added]
        self._owners += [owners[spelling] for spelling in added]
        return [literal for literal, _ in added]

    def stream(self, name: str) -> Stream:
        """Begin a stream; `name` is the file its events will name."""
        return Stream(self, name)

    def result(self) -> Scan:
        """Return what was found so far."""
        return Scan(self.collected.events(), self.lines, self.bytes, self.collected.unkept)

    def hits(self, chunk: bytes) -> list[tuple[int, int]]:
        """List the literals in a chunk of lines with their offsets."""
        return self._find(chunk)

    def within(self, raw: bytes, numbers: Iterable[int]) -> list[int]:
        """List those of some literals that stand in a line."""
        return [number for number in numbers if self._literals[number] in raw]

    def encoding(self, numbers: Iterable[int]) -> str:
        """Name the encoding in which one of these literals is what it is; "" for the usual one."""
        found = (self._encodings.get(number, "") for number in numbers)
        return next(filter(None, found), "")

    def candidates(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """List the signatures that have one of these literals."""
        return tuple(sorted({owner for number in set(numbers) for owner in self._owners[number]}))

    def is_harmless(self, signatures: Iterable[int]) -> bool:
        """Tell whether one of these is known to mean no harm."""
        return any(self._signatures[number].role == "noise" for number in signatures)

    def is_context(self, signature: int) -> bool:
        """Tell whether only what a message captures counts."""
        return self._signatures[signature].role == "context"

    def meaning(self, text: str, candidates: tuple[int, ...]) -> Found:
        """Match a message against the candidates, or remember what an equal one matched."""
        key = (text, candidates)
        found = self._meanings.get(key)
        if found is None:
            found = self._matches(text, candidates)
            if len(self._meanings) >= _REMEMBERED:
                self._meanings.clear()
            self._meanings[key] = found
        return found

    def _matches(self, text: str, candidates: tuple[int, ...]) -> Found:
        found = []
        for number in candidates:
            pattern = self._patterns.get(number)
            if pattern is None:
                pattern = self._patterns[number] = re.compile(self._signatures[number].pattern)
            seen: dict[Captures, int] = {}
            for match in islice(pattern.finditer(text), _PER_LINE):
                captures = tuple((name, value) for name, value in match.groupdict().items() if value is not None)
                seen.setdefault(captures, match.start())
            found += [(number, captures, offset) for captures, offset in seen.items()]
        return tuple(found)


class Stream:
    """One log on its way through a scanner."""

    def __init__(self, scanner: Scanner, name: str) -> None:
        self._scanner = scanner
        self._name = name
        self._cutter = Cutter()
        self._line = 1
        self._start: bytearray | None = bytearray()  # None: there was more than is looked at again
        self._rejoined: set[tuple[int, Captures]] = set()

    def feed(self, block: bytes) -> None:
        """Scan the lines that a block of bytes completes."""
        self._scanner.bytes += len(block)
        self._scan(self._cutter.feed(block))

    def finish(self) -> None:
        """Scan what follows the last line end."""
        chunk = self._cutter.finish()
        self._scanner.lines += bool(chunk.strip()) and not chunk.endswith(b"\n")
        self._scan(chunk)
        start = bytes(self._start or b"")
        self._look_again([*broken_lines(start), *answers(start)])

    def _scan(self, chunk: bytes) -> None:
        if self._start is not None:
            self._start += chunk
            self._start = self._start if len(self._start) <= KEPT else None
        counted, at, end = 0, 0, 0  # `counted` line ends stand before `at`
        hits = self._scanner.hits(chunk) if chunk else []
        position = 0
        while position < len(hits):
            start = hits[position][1]
            counted, at = counted + chunk.count(b"\n", at, start), start
            begin = max(_line_begin(chunk, start), end - _AFTER, start - _BEFORE)
            whole = line_end(chunk, start)
            end = min(whole, begin + _WINDOW)
            last = end if end == whole else end - _AFTER
            numbers = []
            while position < len(hits) and hits[position][1] < last:
                numbers.append(hits[position][0])
                position += 1
            self._examine(chunk[begin:end], self._line + counted, numbers)
        ends = counted + chunk.count(b"\n", at)
        self._line += ends
        self._scanner.lines += ends

    def _examine(self, raw: bytes, number: int, literals: Sequence[int]) -> None:
        line, found = self._read(raw, literals)
        for signature, captures, offset in found:
            self._scanner.collected.add(signature, captures, line, offset, (self._name, number))

    def _read(self, raw: bytes, literals: Sequence[int]) -> tuple[Line, Found]:
        """Match a line against the signatures that have one of these literals."""
        line, candidates = clean_line(raw, self._scanner.encoding(literals)), self._scanner.candidates(literals)
        found = self._scanner.meaning(line.text, candidates)
        if not found and line.bare != line.text:  # what looked like a prefix was part of the message
            line = Line(line.bare, line.bare, line.worker)
            return line, self._scanner.meaning(line.bare, candidates)
        if line.bare != line.text:  # a prompt or a prefix may still tell of the machine
            told = self._scanner.meaning(line.bare, candidates)
            found += tuple(one for one in told if self._scanner.is_context(one[0]) and one not in found)
        return line, found

    def _look_again(self, broken: Sequence[Broken]) -> None:
        texts = [one.text.encode()[:_WINDOW] for one in broken]
        hits = self._scanner.hits(b"\n".join(texts)) if texts else []
        places = [start for _, start in hits]
        begin = 0
        for one, text in zip(broken, texts, strict=True):
            end = begin + len(text) + 1
            literals = [number for number, _ in hits[bisect_left(places, begin) : bisect_left(places, end)]]
            if literals:
                self._put_together(one, text, literals)
            begin = end

    def _put_together(self, broken: Broken, text: bytes, literals: Sequence[int]) -> None:
        """Add what only the lines put together say, instead of what each of them said of the same message."""
        line, found = self._read(text, literals)
        read = [self._read_part(piece, literals) for piece in broken.pieces if found]
        said = [(piece.worker, *one) for piece, of_piece in read for one in of_piece]
        if self._scanner.is_harmless(signature for _, signature, *_ in said):
            return  # a line known by itself ends where it ends; what stands beside it would pass for harmless, too
        known = self._rejoined | {(signature, captures) for _, signature, captures, _ in said}
        loose = set() if broken.is_sure else {one[0] for one in self._read_part(broken.torn, literals)[1]}
        for signature, captures, offset in found:
            if (signature, captures) in known or signature in loose:
                continue
            self._rejoined.add((signature, captures))
            self._scanner.collected.add(signature, captures, line, offset, (self._name, broken.number))
            for worker, other, half, _ in said:
                if other == signature:
                    self._scanner.collected.forget(signature, half, worker)

    def _read_part(self, text: str, literals: Sequence[int]) -> tuple[Line, Found]:
        raw = text.encode()[:_WINDOW]
        return self._read(raw, self._scanner.within(raw, literals))


def _line_begin(chunk: bytes, start: int) -> int:
    begin = chunk.rfind(b"\n", 0, start) + 1
    return max(begin, chunk.rfind(b"\r", begin, start) + 1)


def scan(sources: Iterable[tuple[str, Iterable[bytes]]], signatures: Sequence[Signature]) -> Scan:
    """Scan logs, each a name and its bytes in blocks of any size and cut anywhere."""
    scanner = Scanner(signatures)
    for name, blocks in sources:
        stream = scanner.stream(name)
        for block in blocks:
            stream.feed(block)
        stream.finish()
    return scanner.result()
