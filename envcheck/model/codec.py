"""Convert facts, snapshots and data files to plain JSON values and back.

Reject values that do not fit the types.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
    cast,
)

from envcheck.model.machine import NOT_STATED, UNKNOWN_REASONS, Absent, Known, Source, Unknown
from envcheck.model.records import constant_defaults, list_fields, make_record

M = TypeVar("M")


class CodecError(ValueError):
    """A JSON value does not have the shape of its type; the message names the place."""

    def __init__(self, reason: str, place: str = "") -> None:
        """Keep the place apart from the reason: it grows as the error leaves nested values."""
        super().__init__(f"{place}: {reason}")
        self.reason, self.place = reason, place

    def within(self, place: str) -> CodecError:
        """Return this error as seen from the value that holds `place`: ".driver", "[3]"."""
        return CodecError(self.reason, place + self.place)


def encode(value: Any) -> Any:  # noqa: PLR0911 - one return per kind of value
    """Return the JSON form of a fact, a record or a container of them."""
    if isinstance(value, Known):
        return {"known": encode(value.value), "source": _encode_fields(value.source)}
    if isinstance(value, Absent):
        return {"absent": list(value.tried)}
    if isinstance(value, Unknown):
        return {"unknown": value.why, "detail": value.detail, "tried": list(value.tried)}
    if list_fields(value):
        return _encode_fields(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [encode(item) for item in value]
    return value


def _encode_fields(value: Any) -> Dict[str, Any]:
    pairs = ((name, getattr(value, name)) for name in list_fields(value))
    return {name: encode(item) for name, item in pairs if item is not NOT_STATED}


def decode(model: Type[M], value: Any) -> M:
    """Build a record from its JSON form.

    Raises CodecError for an unknown or missing field, or a wrong type.

    A field with a trailing underscore reads the key without it: `or_` reads "or".
    """
    try:
        return cast("M", _decode_record(model, value))
    except CodecError as error:
        raise error.within(model.__name__) from None


class _ParsedType(NamedTuple):
    """An annotation that is read once: some files have a thousand rows."""

    decode: Callable[[Any, Any], Any]  # takes `inner` and the JSON value
    inner: Any  # type of the items, class of a record, or name of a primitive
    exact: Optional[type] = None  # values of exactly this class need no decoding


_PRIMITIVES: Dict[str, Tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
}


@lru_cache(maxsize=None)
def _parse_annotation(annotation: str, owner: type) -> _ParsedType:
    if annotation in _PRIMITIVES:
        return _ParsedType(_decode_primitive, annotation, _PRIMITIVES[annotation][-1])
    if annotation == "Any":
        return _ParsedType(_keep, None)
    if annotation.endswith(" | None"):
        annotation = f"Optional[{annotation[: -len(' | None')]}]"
    generic, _, inner = annotation.partition("[")
    if not inner:
        return _ParsedType(_decode_record, getattr(sys.modules[owner.__module__], annotation))
    decode_container, select = _CONTAINERS[generic.lower()]
    return _ParsedType(decode_container, _parse_annotation(select(inner[:-1]), owner))


def _decode_primitive(name: str, value: Any) -> Any:
    if not isinstance(value, _PRIMITIVES[name]) or (isinstance(value, bool) and name != "bool"):
        raise CodecError(f"expected {name}, found {type(value).__name__}")
    return value


def _keep(_: None, value: Any) -> Any:
    return value


def _decode_record(model: type, value: Any) -> Any:
    _expect(dict, "an object", value)
    columns, defaults = _read_columns(model)
    cells, key = dict(defaults), ""
    try:
        for key, item in value.items():
            name, (decode_cell, inner, exact) = columns[key]
            cells[name] = item if type(item) is exact else decode_cell(inner, item)
    except KeyError:
        raise CodecError(f"unknown field {key!r}") from None
    except CodecError as error:
        raise error.within(f".{key}") from None
    if len(cells) == len(columns):
        return make_record(model, cells)
    try:
        return model(**cells)  # adds the other defaults, or names the missing fields
    except TypeError as error:
        raise CodecError(str(error)) from None


@lru_cache(maxsize=None)
def _read_columns(model: type) -> Tuple[Dict[str, Tuple[str, _ParsedType]], Dict[str, Any]]:
    """Return the name and type of each key of a record, and its constant defaults."""
    columns = {
        name.rstrip("_"): (name, _parse_annotation(str(model.__annotations__[name]), model))
        for name in list_fields(model)
    }
    return columns, constant_defaults(model)


def _decode_fact(item: _ParsedType, value: Any) -> Any:
    _expect(dict, "a fact", value)
    if "known" in value:
        _reject_unknown_fields(value, ("known", "source"))
        try:
            source = _decode_record(Source, value.get("source"))
        except CodecError as error:
            raise error.within(".source") from None
        return Known(item.decode(item.inner, value["known"]), source)
    if "absent" in value:
        _reject_unknown_fields(value, ("absent",))
        return Absent(_decode_strings(value["absent"]))
    _reject_unknown_fields(value, ("unknown", "detail", "tried"))
    why, detail = value.get("unknown"), value.get("detail", "")
    if why not in UNKNOWN_REASONS or not isinstance(detail, str):
        raise CodecError(
            f"expected known, absent, or unknown with one of {', '.join(UNKNOWN_REASONS)}"
        )
    return Unknown(str(why), detail, _decode_strings(value.get("tried", [])))


def _decode_strings(value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CodecError("expected a list of strings")
    return tuple(value)


def _decode_tuple(item: _ParsedType, value: Any) -> Any:
    _expect(list, "a list", value)
    decode_item, inner, exact = item
    items: List[Any] = []
    try:
        for entry in value:
            items.append(entry if type(entry) is exact else decode_item(inner, entry))  # noqa: PERF401 - counts them
    except CodecError as error:
        raise error.within(f"[{len(items)}]") from None
    return tuple(items)


def _decode_mapping(item: _ParsedType, value: Any) -> Any:
    _expect(dict, "an object", value)
    decode_item, inner, exact = item
    items, key = {}, ""
    try:
        for key, entry in value.items():
            items[key] = entry if type(entry) is exact else decode_item(inner, entry)
    except CodecError as error:
        raise error.within(f"[{key}]") from None
    return items


def _decode_optional(item: _ParsedType, value: Any) -> Any:
    return None if value is None else item.decode(item.inner, value)


# For each container its decoder, and how its brackets name the type of an item.
_CONTAINERS: Dict[str, Tuple[Callable[[Any, Any], Any], Callable[[str], str]]] = {
    "fact": (_decode_fact, str),
    "mapping": (_decode_mapping, lambda inner: inner.split(",", 1)[1].strip()),
    "optional": (_decode_optional, str),
    "tuple": (_decode_tuple, lambda inner: inner.rsplit(",", 1)[0]),
}


def _expect(kind: type, name: str, value: Any) -> None:
    if not isinstance(value, kind):
        raise CodecError(f"expected {name}, found {type(value).__name__}")


def _reject_unknown_fields(value: Mapping[str, Any], fields: Collection[str]) -> None:
    for name in value:
        if name not in fields:
            raise CodecError(f"unknown field {name!r}")
