"""A row's evidence, read when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from envcheck.model import Citation


class DeferredCitations(Sequence[Citation]):
    """Citations that are read on first use."""

    def __init__(self, read: Callable[[], Iterable[Citation]]) -> None:
        self._read = read

    @cached_property
    def _items(self) -> tuple[Citation, ...]:
        return tuple(self._read())

    def __getitem__(self, at: Any) -> Any:
        return self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._items == tuple(other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class DeferredTable(Mapping[str, Any]):
    """A table that is read on first use."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]) -> None:
        self._read = read

    @cached_property
    def _table(self) -> Mapping[str, Any]:
        return self._read()

    def __getitem__(self, name: str) -> Any:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return repr(self._table)
