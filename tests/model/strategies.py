"""Generate model values from their type annotations, for property tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from hypothesis import strategies as st

from envcheck.model import UNKNOWN_REASONS, Absent, Known, Source, Unknown
from tests.model.snapshot_schema import SOURCE_KINDS

TEXT = st.text(max_size=8)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "int": st.integers(-(2**70), 2**70),
    "bool": st.booleans(),
    "float": st.floats(0, 1e6),
}


def instances(model: type) -> st.SearchStrategy[Any]:
    """Generate instances of a dataclass of the model."""
    if model is Source:
        return st.builds(Source, st.sampled_from(SOURCE_KINDS), TEXT, TEXT)
    assert is_dataclass(model)
    return st.builds(model, **{field.name: _of(str(field.type), model) for field in fields(model)})


def _of(annotation: str, owner: type) -> st.SearchStrategy[Any]:
    if annotation in _PRIMITIVES:
        return _PRIMITIVES[annotation]
    if "[" not in annotation:
        return instances(getattr(sys.modules[owner.__module__], annotation))
    name, inner = annotation[:-1].split("[", 1)
    return _GENERICS[name](inner, owner)


def _fact(inner: str, owner: type) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(Known, _of(inner, owner), instances(Source)),
        st.builds(Absent, TEXTS),
        st.builds(Unknown, st.sampled_from(UNKNOWN_REASONS), TEXT, TEXTS),
    )


def _tuple(inner: str, owner: type) -> st.SearchStrategy[Any]:
    return st.lists(_of(inner.rsplit(",", 1)[0], owner), max_size=2).map(tuple)


def _mapping(inner: str, owner: type) -> st.SearchStrategy[Any]:
    return st.dictionaries(TEXT, _of(inner.split(",", 1)[1].strip(), owner), max_size=2)


_GENERICS: dict[str, Callable[[str, type], st.SearchStrategy[Any]]] = {
    "Fact": _fact,
    "Tuple": _tuple,
    "Mapping": _mapping,
}
