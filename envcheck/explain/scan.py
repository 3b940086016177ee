"""Find the known messages of logs of any size in constant memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

from envcheck.explain.ending import TAIL_BYTES, Ending, read_ending
from envcheck.explain.signatures import Event, Signature, compile_pattern
from envcheck.explain.text import (
    KEPT_BYTES,
    MARKER,
    Cutter,
    Line,
    WrappedLine,
    clean_line,
    encode_fragment,
    is_shown,
    join_wrapped_lines,
    list_answers,
    list_spread_lines,
)
from envcheck.host.system import has_sse42
from envcheck.model import dataclass, replace

Hit = tuple[int, int]  # (number of the literal, offset of its first byte)
Find = Callable[[bytes], list[Hit]]

_SIMPLE_SEARCH_BYTES = (
    48 << 10
)  # bytes in which looking for each literal by itself takes less time than any preparation
_CALL = 1 << 10  # ... and what one call costs beside its bytes, in bytes
_HEAD = 5  # bytes of a literal that are looked for first; the rest where they stand
_CACHE_BYTES = 4 << 20  # bytes of lines whose hits are remembered
_LONGEST_CACHED_LINE = 4 << 10  # bytes of a line that is not remembered
# Line ends are alike, and digits are: lines of a log differ in their numbers, and no fragment is
# shorter for it.
_KIND = bytes(
    0x0A if byte == 0x0D else 0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256)
)


def build_finder(
    literals: Sequence[bytes], list_other_literals: Callable[[], Sequence[bytes]] = tuple
) -> Find:
    """Return a function that lists the hits of `literals` in a block, first bytes first.

    `list_other_literals` makes literals that cannot stand in UTF-8, numbered after the first ones.

    Little is built before more than a few lines came. Then Hyperscan finds them, where it is
    installed; else an automaton, where that is, or the same as before: they are slow and therefore
    see each kind of line only once.
    """
    byte_count, is_prepared, known = 0, False, literals
    find = build_head_finder(literals)

    def find_hits(block: bytes) -> list[Hit]:
        nonlocal byte_count, is_prepared, known, find
        byte_count += len(block) + _CALL
        is_long = byte_count > _SIMPLE_SEARCH_BYTES
        if known is literals and (is_long or not _is_utf8(block)):
            known = [*literals, *list_other_literals()]
            find = build_head_finder(known)
        if is_long and not is_prepared:
            is_prepared = True
            find = _build_hyperscan_finder(known) or _build_line_cache_finder(known)
        return find(block)

    return find_hits


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _offset_first(hit: Hit) -> Hit:
    return hit[1], hit[0]


def build_head_finder(literals: Sequence[bytes]) -> Find:
    """Return a function that looks for the literals whose first bytes stand in a block."""
    heads: dict[bytes, list[tuple[int, bytes]]] = {}
    for number, literal in enumerate(literals):
        heads.setdefault(literal[:_HEAD], []).append((number, literal))
    short = [head for head in heads if len(head) < _HEAD]

    def find(block: bytes) -> list[Hit]:
        stands = {block[offset : offset + _HEAD] for offset in range(len(block) - _HEAD + 1)}
        hits: list[Hit] = []
        for head in (heads.keys() & stands).union(short):
            for number, literal in heads[head]:
                start = block.find(literal)
                while start >= 0:
                    hits.append((number, start))
                    start = block.find(literal, start + 1)
        return sorted(hits, key=_offset_first)

    return find


def _build_hyperscan_finder(literals: Sequence[bytes]) -> Find | None:
    if not has_sse42():
        return None  # it would end this program with an illegal instruction
    try:
        import hyperscan
    except ImportError:
        return None
    database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    numbers = range(len(literals))
    try:
        database.compile(
            expressions=list(literals), ids=list(numbers), elements=len(literals), literal=True
        )
    except hyperscan.HyperscanError:
        return None
    lengths = [len(literal) for literal in literals]

    def find(block: bytes) -> list[Hit]:
        hits: list[Hit] = []

        def report_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((number, end - lengths[number]))

        database.scan(block, match_event_handler=report_match)
        return sorted(hits, key=_offset_first)

    return find


def _build_automaton_finder(literals: Sequence[bytes]) -> Find | None:
    try:
        from ahocorasick import Automaton
    except ImportError:
        return None
    automaton: Any = Automaton()
    numbers: dict[bytes, list[int]] = {}
    for number, literal in enumerate(literals):
        numbers.setdefault(literal, []).append(number)
    for literal, numbers_of_literal in numbers.items():
        automaton.add_word(literal.decode("latin-1"), (len(literal) - 1, numbers_of_literal))
    automaton.make_automaton()

    def find(block: bytes) -> list[Hit]:
        # a character for each byte: offsets stay what they are
        matches = automaton.iter(block.decode("latin-1"))
        return sorted(
            [
                (number, end - last)
                for end, (last, numbers_of_literal) in matches
                for number in numbers_of_literal
            ],
            key=_offset_first,
        )

    return find


def _build_line_cache_finder(literals: Sequence[bytes]) -> Find:
    """Compare lines that differ in digits alone once, and only where a literal was found."""
    kinds = [literal.translate(_KIND) for literal in literals]
    search = _build_automaton_finder(kinds) or build_head_finder(kinds)
    numbered = [literal if re.search(rb"\d", literal) else b"" for literal in literals]
    cache: dict[bytes, list[Hit]] = {}
    cache_size = 0

    def find_in_kind(kind: bytes) -> list[Hit]:
        nonlocal cache_size
        hits = search(kind)
        if len(kind) <= _LONGEST_CACHED_LINE:
            if cache_size > _CACHE_BYTES:
                cache.clear()
                cache_size = 0
            cache[kind] = hits
            cache_size += len(kind)
        return hits

    def find(block: bytes) -> list[Hit]:
        found: list[Hit] = []
        begin = 0
        for kind in block.translate(_KIND).split(b"\n"):
            hits = cache.get(kind)
            if hits is None:
                hits = find_in_kind(kind)
            for number, offset in hits:
                if block.startswith(numbered[number], begin + offset):
                    found.append((number, begin + offset))
            begin += len(kind) + 1
        return found

    return find


def find_line_end(block: bytes, start: int) -> int:
    """Return where the line, or the state of a progress bar, that holds `start` ends."""
    end = block.find(b"\n", start)
    end = len(block) if end < 0 else end
    carriage_return = block.find(b"\r", start, end)
    return end if carriage_return < 0 else carriage_return


# of one message, told apart by captures and worker; a training run may invent any number
KINDS = 48
_TEXT = 500  # characters of a line that are kept
_CAPTURE = 300

Captures = tuple[tuple[str, str], ...]
Place = tuple[str, int]


class _Kind:
    """A message with one set of captures, as often as it was seen."""

    def __init__(self, order: int, event: Event) -> None:
        self.order, self.event = order, event
        self.last_line, self.count = event.line, 0


class EventCollector:
    """The messages seen so far, in bounded memory."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.dropped_lines = 0
        self._signatures = signatures
        self._kinds_by_signature: dict[int, dict[tuple[Captures, str], _Kind]] = {}
        self._latest: dict[int, _Kind] = {}
        self.kinds = 0  # grows when a message is seen that no earlier one equals

    def add(
        self, signature: int, captures: Captures, line: Line, offset: int, place: Place
    ) -> None:
        """Count one message; `offset` is where in the line's text its match begins."""
        captures = tuple((name, value[:_CAPTURE]) for name, value in captures)
        kinds = self._kinds_by_signature.setdefault(signature, {})
        kind = kinds.get((captures, line.worker))
        if kind is None:
            self.kinds += 1
            name, text = self._signatures[signature].name, _shorten(line.text, offset)
            event = Event(name, captures, text, *place, last_line=place[1], worker=line.worker)
            kind = _Kind(self.kinds, event)
            if len(kinds) < KINDS:
                kinds[captures, line.worker] = kind
            else:
                kind = self._add_beyond_limit(signature, kind)
        kind.count += 1
        if kind.event.file == place[0]:
            kind.last_line = place[1]

    def remove(self, signature: int, captures: Captures, worker: str) -> None:
        """Take back one message that was half of another one."""
        kinds = self._kinds_by_signature.get(signature, {})
        kind = kinds.get((captures, worker))
        if kind is not None:
            kind.count -= 1
            if not kind.count:
                del kinds[captures, worker]

    def events(self) -> tuple[Event, ...]:
        """Return the messages in the order in which they were first seen."""
        found = list(self._latest.values())
        for kinds in self._kinds_by_signature.values():
            found += kinds.values()
        found.sort(key=lambda kind: kind.order)
        return tuple(
            replace(kind.event, last_line=kind.last_line, count=kind.count) for kind in found
        )

    def _add_beyond_limit(self, signature: int, kind: _Kind) -> _Kind:
        """Keep of all further kinds the last one, unless only the worker is new."""
        captures, worker = kind.event.captures, kind.event.worker
        for existing in self._kinds_by_signature[signature].values():
            if existing.event.captures == captures:
                return existing
        latest = self._latest.get(signature)
        if latest is not None:
            if (latest.event.captures, latest.event.worker) == (captures, worker):
                return latest
            self.dropped_lines += latest.count
        self._latest[signature] = kind
        return kind


def _shorten(text: str, offset: int) -> str:
    if len(text) <= _TEXT:
        return text
    begin = max(0, min(offset - 60, len(text) - _TEXT + 4))
    return ("..." if begin else "") + text[begin : begin + _TEXT - 4].strip()


Matches = tuple[tuple[int, Captures, int], ...]  # (signature, captures, offset in the text) ...

_WINDOW = 2048  # bytes of a line looked at around a message; what no log writes longer
_BEFORE = 512  # ... of which this many may precede the first fragment
# ... and this many follow the last one, unless the line ends: what does not fit is in the next
# window
_AFTER = 512
# messages of one kind in a line: what several processes wrote before one of them ended the line
_PER_LINE = 8
_CACHED_MESSAGES = 4096  # messages whose meaning is kept: logs repeat themselves


@dataclass
class Scan:
    """What logs hold: the known messages in order of first sight, and how much was read."""

    events: tuple[Event, ...]
    lines: int
    bytes: int
    dropped_lines: (
        # lines of messages told apart from those kept by their captures only, over the limit per
        # message
        int
    )
    ending: Ending = Ending()


class Scanner:
    """Collect known messages from any number of streams, block by block."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.collector = EventCollector(signatures)
        self.lines = 0
        self.bytes = 0
        self.ending = Ending()  # of the only stream
        self._streams = 0
        self._signatures = signatures
        # logs repeat themselves
        self.match_message = lru_cache(maxsize=_CACHED_MESSAGES)(self._match_signatures)
        owners: dict[bytes, list[int]] = {}
        for number, item in enumerate(signatures):
            for fragment in item.fragments:
                owners.setdefault(fragment.encode().lower(), []).append(number)
        self._literals, self._owners = list(owners), list(owners.values())
        self._encodings: dict[int, str] = {}
        self._find_literals = build_finder(self._literals[:], self._add_other_encodings)

    def _add_other_encodings(self) -> list[bytes]:
        """Add, and list, the literals of fragments in the encodings that are not UTF-8."""
        owners: dict[tuple[bytes, str], list[int]] = {}
        for number, item in enumerate(self._signatures):
            for fragment in item.fragments:
                for literal, encoding in encode_fragment(fragment).items():
                    if encoding:
                        owners.setdefault((literal.lower(), encoding), []).append(number)
        additions = [literal for literal, _ in owners]
        self._encodings.update(enumerate((name for _, name in owners), len(self._literals)))
        self._literals += additions
        self._owners += owners.values()
        return additions

    def stream(self, name: str) -> Stream:
        """Begin a stream; `name` is the file its events will name."""
        self._streams += 1
        return Stream(self, name)

    def add_ending(self, ending: Ending) -> None:
        """Keep how a stream ended; how several ended is not known."""
        if self._streams > 1:
            ending = (ending if ending.says_why else self.ending).failure
        self.ending = ending

    def result(self) -> Scan:
        """Return what was found so far."""
        return Scan(
            self.collector.events(),
            self.lines,
            self.bytes,
            self.collector.dropped_lines,
            self.ending,
        )

    def find_hits(self, chunk: bytes) -> list[tuple[int, int]]:
        """List the literals in a chunk of lines with their offsets.

        Letters count alike, small or capital.
        """
        return self._find_literals(chunk.lower())

    def select_present(self, raw: bytes, numbers: Iterable[int]) -> list[int]:
        """List those of some literals that stand in a line."""
        lower = raw.lower()
        return [number for number in numbers if self._literals[number] in lower]

    def find_encoding(self, numbers: Iterable[int]) -> str:
        """Name the encoding in which one of these literals is what it is; "" for the usual one."""
        encodings = (self._encodings.get(number, "") for number in numbers)
        return next(filter(None, encodings), "")

    def list_signatures(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """List the signatures that have one of these literals."""
        return tuple(sorted({owner for number in set(numbers) for owner in self._owners[number]}))

    def has_role(self, signature: int, *roles: str) -> bool:
        """Return whether a message is of one of some roles."""
        return self._signatures[signature].role in roles

    def _match_signatures(self, text: str, candidates: tuple[int, ...]) -> Matches:
        matches = []
        for number in candidates:
            pattern = compile_pattern(self._signatures[number].expression)
            offsets: dict[Captures, int] = {}
            for match in islice(pattern.finditer(text), _PER_LINE):
                offsets.setdefault(_read_captures(match), match.start())
            matches += [(number, captures, offset) for captures, offset in offsets.items()]
        return tuple(matches)


def _read_captures(match: re.Match[str]) -> Captures:
    """Return what a message states by name.

    A pattern numbers a name that several of its wordings state: cuda_wanted, cuda_wanted2.
    """
    values = {name: value for name, value in match.groupdict().items() if value is not None}
    for name in tuple(values):
        first = name.rstrip("234")
        if first not in values and first in match.re.groupindex:
            values[first] = values.pop(name)
    return tuple(values.items())


class Stream:
    """One log on its way through a scanner."""

    def __init__(self, scanner: Scanner, name: str) -> None:
        self._scanner = scanner
        self._name = name
        self._cutter = Cutter()
        self._line = 1
        self._start: bytearray | None = bytearray()  # None: there was more than is looked at again
        self._tail = b""
        self._joined_matches: set[tuple[int, Captures]] = set()

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
        self._scan_joined_lines(
            [*list_spread_lines(start), *join_wrapped_lines(start), *list_answers(start)]
        )
        self._scanner.add_ending(
            read_ending(start, self._tail, self._line - (not chunk), self._name)
        )

    def _scan(self, chunk: bytes) -> None:
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self._start is not None:
            self._start += chunk
            self._start = self._start if len(self._start) <= KEPT_BYTES else None
        line_count, line_count_end, end = 0, 0, 0  # `counted` line ends stand before `at`
        hits = self._scanner.find_hits(chunk) if chunk else []
        position = 0
        while position < len(hits):
            start = hits[position][1]
            line_count, line_count_end = (
                line_count + chunk.count(b"\n", line_count_end, start),
                start,
            )
            begin = max(_find_line_begin(chunk, start), end - _AFTER, start - _BEFORE)
            whole_end = find_line_end(chunk, start)
            end = min(whole_end, begin + _WINDOW)
            last = end if end == whole_end else end - _AFTER
            numbers = []
            while position < len(hits) and hits[position][1] < last:
                numbers.append(hits[position][0])
                position += 1
            before = chunk[chunk.rfind(b"\n", 0, max(begin - 1, 0)) + 1 : begin]
            self._collect_events(chunk[begin:end], self._line + line_count, numbers, before)
        line_ends = line_count + chunk.count(b"\n", line_count_end)
        self._line += line_ends
        self._scanner.lines += line_ends

    def _collect_events(
        self, raw: bytes, number: int, literals: Sequence[int], before: bytes
    ) -> None:
        line, matches = self._match_line(raw, literals, before)
        for signature, captures, offset in matches:
            self._scanner.collector.add(signature, captures, line, offset, (self._name, number))

    def _match_line(
        self, raw: bytes, literals: Sequence[int], before: bytes = b""
    ) -> tuple[Line, Matches]:
        """Match a line against the signatures that have one of these literals.

        A remark, and what a line only shows, states facts and claims nothing.
        """
        line, matches = self._match_text(raw, literals)
        if line.is_remark or is_shown(line.text, before):
            has_role = self._scanner.has_role
            matches = tuple(row for row in matches if not has_role(row[0], "cause", "symptom"))
        return line, matches

    def _match_text(self, raw: bytes, literals: Sequence[int]) -> tuple[Line, Matches]:
        line = clean_line(raw, self._scanner.find_encoding(literals))
        candidates = self._scanner.list_signatures(literals)
        matches = self._scanner.match_message(line.text, candidates)
        if line.bare == line.text:
            return line, matches
        bare_matches = self._scanner.match_message(line.bare, candidates)
        if not matches:  # what looked like a prefix was part of the message
            return Line(line.bare, line.bare, line.worker, line.is_remark), bare_matches
        known = {match[:2] for match in matches}
        for match in bare_matches:  # a prompt or a prefix may still tell of the machine
            if match[:2] not in known and self._scanner.has_role(match[0], "context"):
                matches += (match,)
        return line, matches

    def _scan_joined_lines(self, wrapped: Sequence[WrappedLine]) -> None:
        texts = [line.text.encode()[:_WINDOW] for line in wrapped]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        literals: dict[int, list[int]] = {}
        for number, offset in self._scanner.find_hits(b"\n".join(texts)):
            literals.setdefault(bisect_right(starts, offset) - 1, []).append(number)
        for place, numbers in literals.items():
            self._add_joined_matches(wrapped[place], texts[place], numbers)

    def _add_joined_matches(
        self, wrapped: WrappedLine, text: bytes, literals: Sequence[int]
    ) -> None:
        """Add what only several lines together say, instead of what each of them said."""
        line, matches = self._match_line(text, literals)
        if not matches:
            return
        parts = list(self._match_pieces(wrapped.pieces, literals))
        if any(self._scanner.has_role(signature, "noise") for signature, *_ in parts):
            # a line known by itself ends where it ends; what stands beside it would pass for
            # harmless, too
            return
        known = self._joined_matches.union(part[:2] for part in parts)
        spans_break = set()
        if not wrapped.is_certain:
            joined = self._match_pieces((wrapped.joined_with_marker,), literals)
            for signature, captures, _ in joined:
                known.add((signature, captures))
                if any(MARKER in value for _, value in captures):
                    spans_break.add(signature)
        collector = self._scanner.collector
        for signature, captures, offset in matches:
            if (signature, captures) in known or signature in spans_break:
                continue
            self._joined_matches.add((signature, captures))
            collector.add(signature, captures, line, offset, (self._name, wrapped.number))
            for of_part in parts:
                if of_part[0] == signature or self._scanner.has_role(signature, "noise"):
                    collector.remove(*of_part)

    def _match_pieces(
        self, pieces: Iterable[str], literals: Sequence[int]
    ) -> Iterator[tuple[int, Captures, str]]:
        """Yield what each piece of a line matches by itself, with its worker."""
        for piece in pieces:
            raw = piece.encode()[:_WINDOW]
            line, found = self._match_line(raw, self._scanner.select_present(raw, literals))
            for signature, captures, _ in found:
                yield signature, captures, line.worker


def _find_line_begin(chunk: bytes, start: int) -> int:
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
