"""Count equal messages instead of keeping them; keep the first kinds and the last of each."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.explain.events import Event, Signature
from envcheck.explain.lines import Line

KINDS = 48  # of one message, told apart by captures and worker; a training run may invent any number
_TEXT = 500  # characters of a line that are kept
_CAPTURE = 300

Captures = tuple[tuple[str, str], ...]
Place = tuple[str, int]


class _Kind:
    """A message with one set of captures."""

    def __init__(self, order: int, worker: str, text: str, place: Place) -> None:
        self.order, self.worker, self.text = order, worker, text
        self.file, self.line = place
        self.last_line, self.count = self.line, 0


class Collected:
    """The messages seen so far, in bounded memory."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.unkept = 0
        self._signatures = signatures
        self._kept: list[dict[tuple[Captures, str], _Kind]] = [{} for _ in signatures]
        self._latest: dict[int, tuple[Captures, _Kind]] = {}
        self.kinds = 0  # grows when a message is seen that no earlier one equals

    def add(self, signature: int, captures: Captures, line: Line, offset: int, place: Place) -> None:
        """Count one message; `offset` is where in the line's text its match begins."""
        captures = tuple((name, value[:_CAPTURE]) for name, value in captures)
        kinds = self._kept[signature]
        kind = kinds.get((captures, line.worker))
        if kind is None:
            self.kinds += 1
            kind = _Kind(self.kinds, line.worker, _shortened(line.text, offset), place)
            if len(kinds) < KINDS:
                kinds[captures, line.worker] = kind
            else:
                kind = self._crowded(signature, captures, kind)
        kind.count += 1
        kind.last_line = place[1] if kind.file == place[0] else kind.last_line

    def forget(self, signature: int, captures: Captures, worker: str) -> None:
        """Take back one message that was half of another one."""
        kind = self._kept[signature].get((captures, worker))
        if kind is not None:
            kind.count -= 1
            if not kind.count:
                del self._kept[signature][captures, worker]

    def events(self) -> tuple[Event, ...]:
        """Return the messages in the order in which they were first seen."""
        rows = [
            (number, captures, kind) for number, kinds in enumerate(self._kept) for (captures, _), kind in kinds.items()
        ]
        rows += [(number, captures, kind) for number, (captures, kind) in self._latest.items()]
        rows.sort(key=lambda row: row[2].order)
        return tuple(_event(self._signatures[number].name, captures, kind) for number, captures, kind in rows)

    def _crowded(self, signature: int, captures: Captures, kind: _Kind) -> _Kind:
        """Keep of all further kinds the last one, unless only the worker is new."""
        for (known, _), kept in self._kept[signature].items():
            if known == captures:
                return kept
        before = self._latest.get(signature)
        if before is not None:
            if before[0] == captures and before[1].worker == kind.worker:
                return before[1]
            self.unkept += before[1].count
        self._latest[signature] = (captures, kind)
        return kind


def _event(name: str, captures: Captures, kind: _Kind) -> Event:
    return Event(name, captures, kind.text, kind.file, kind.line, kind.last_line, kind.count, kind.worker)


def _shortened(text: str, offset: int) -> str:
    if len(text) <= _TEXT:
        return text
    begin = max(0, min(offset - 60, len(text) - _TEXT + 4))
    return ("..." if begin else "") + text[begin : begin + _TEXT - 4].strip()
