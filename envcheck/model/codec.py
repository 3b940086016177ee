"""Convert facts, snapshots and data files to plain JSON values and back; reject values that do not fit the types."""

from __future__ import annotations

import sys
from typing import Any, Callable, Collection, Dict, List, Mapping, Tuple, Type, TypeVar, cast

from envcheck.model.facts import NOT_STATED, UNKNOWN_REASONS, Absent, Known, Source, Unknown
from envcheck.model.records import adopted, constant_defaults, field_names

M = TypeVar("M")
Decoder = Callable[[Any], Any]


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
    if field_names(value):
        return _encode_fields(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def _encode_fields(value: Any) -> Dict[str, Any]:
    pairs = ((name, getattr(value, name)) for name in field_names(value))
    return {name: encode(item) for name, item in pairs if item is not NOT_STATED}


def decode(model: Type[M], value: Any) -> M:
    """Build a record from its JSON form; raises CodecError for an unknown or missing field, or a wrong type.

    A field with a trailing underscore reads the key without it: `or_` reads "or".
    """
    try:
        return cast("M", _get_record_decoder(model)(value))
    except CodecError as error:
        raise error.within(model.__name__) from None


def decode_as(annotation: str, owner: type, value: Any) -> Any:
    """Build a value of an annotation such as "Fact[Tuple[Gpu, ...]]"; names resolve in `owner`'s module."""
    try:
        return _get_decoder(annotation, owner)(value)
    except CodecError as error:
        raise error.within(annotation) from None


_record_decoders: Dict[type, Decoder] = {}
_decoders: Dict[Tuple[str, str], Decoder] = {}


def _get_record_decoder(model: type) -> Decoder:
    if model not in _record_decoders:
        _record_decoders[model] = _make_record_decoder(model)
    return _record_decoders[model]


def _make_record_decoder(model: type) -> Decoder:
    """Look up once what the type says: some files have a thousand rows."""
    columns = {
        name.rstrip("_"): (name, _EXACT.get(annotation), _get_decoder(annotation, model))
        for name, annotation in ((name, str(model.__annotations__[name])) for name in field_names(model))
    }
    defaults = constant_defaults(model)

    def build(value: Any) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"expected an object, found {type(value).__name__}")
        cells, key = dict(defaults), ""
        try:
            for key, item in value.items():
                name, exact, decoder = columns[key]
                cells[name] = item if type(item) is exact else decoder(item)
        except KeyError:
            raise CodecError(f"unknown field {key!r}") from None
        except CodecError as error:
            raise error.within(f".{key}") from None
        if len(cells) == len(columns):
            return adopted(model, cells)
        try:
            return model(**cells)  # fills in the other defaults, or says what is missing
        except TypeError as error:
            raise CodecError(str(error)) from None

    return build


def _get_decoder(annotation: str, owner: type) -> Decoder:
    key = (owner.__module__, annotation)
    if key not in _decoders:
        _decoders[key] = _make_decoder(annotation, owner)
    return _decoders[key]


def _make_decoder(annotation: str, owner: type) -> Decoder:
    if annotation in _PRIMITIVES:
        return _make_primitive_decoder(annotation)
    if annotation == "Any":
        return _keep
    if annotation.endswith(" | None"):
        return _make_optional_decoder(annotation[: -len(" | None")], owner)
    generic, _, inner = annotation.partition("[")
    if inner:
        return _GENERICS[generic.lower()](inner[:-1], owner)
    return _get_record_decoder(getattr(sys.modules[owner.__module__], annotation))


_PRIMITIVES: Dict[str, Tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
_EXACT: Dict[str, type] = {"str": str, "int": int, "bool": bool, "float": float}  # values that need no further check


def _make_primitive_decoder(name: str) -> Decoder:
    accepted = _PRIMITIVES[name]

    def check(value: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and name != "bool"):
            raise CodecError(f"expected {name}, found {type(value).__name__}")
        return value

    return check


def _keep(value: Any) -> Any:
    return value


def _make_optional_decoder(inner: str, owner: type) -> Decoder:
    item = _get_decoder(inner, owner)
    return lambda value: None if value is None else item(value)


def _make_fact_decoder(inner: str, owner: type) -> Decoder:
    item, source = _get_decoder(inner, owner), _get_record_decoder(Source)

    def build(value: Any) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"expected a fact, found {type(value).__name__}")
        if "known" in value:
            _reject_unknown_fields(value, ("known", "source"))
            try:
                origin = source(value.get("source"))
            except CodecError as error:
                raise error.within(".source") from None
            return Known(item(value["known"]), origin)
        if "absent" in value:
            _reject_unknown_fields(value, ("absent",))
            return Absent(_decode_strings(value["absent"]))
        return _decode_unknown(value)

    return build


def _decode_unknown(value: Dict[str, Any]) -> Unknown:
    _reject_unknown_fields(value, ("unknown", "detail", "tried"))
    why, detail = value.get("unknown"), value.get("detail", "")
    if why not in UNKNOWN_REASONS or not isinstance(detail, str):
        raise CodecError(f"a fact is known, absent or unknown for one of {', '.join(UNKNOWN_REASONS)}")
    return Unknown(str(why), detail, _decode_strings(value.get("tried", [])))


def _reject_unknown_fields(value: Mapping[str, Any], fields: Collection[str]) -> None:
    for name in value:
        if name not in fields:
            raise CodecError(f"unknown field {name!r}")


def _decode_strings(value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CodecError("expected a list of strings")
    return tuple(value)


def _make_tuple_decoder(inner: str, owner: type) -> Decoder:
    annotation = inner.rsplit(",", 1)[0]
    item, exact = _get_decoder(annotation, owner), _EXACT.get(annotation)

    def build(value: Any) -> Any:
        if not isinstance(value, list):
            raise CodecError(f"expected a list, found {type(value).__name__}")
        if exact and all(type(entry) is exact for entry in value):
            return tuple(value)
        items: List[Any] = []
        try:
            items.extend(map(item, value))
        except CodecError as error:
            raise error.within(f"[{len(items)}]") from None
        return tuple(items)

    return build


def _make_mapping_decoder(inner: str, owner: type) -> Decoder:
    annotation = inner.split(",", 1)[1].strip()
    item, exact = _get_decoder(annotation, owner), _EXACT.get(annotation)

    def build(value: Any) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"expected an object, found {type(value).__name__}")
        items, key = {}, ""
        try:
            for key, entry in value.items():
                items[key] = entry if type(entry) is exact else item(entry)
        except CodecError as error:
            raise error.within(f"[{key}]") from None
        return items

    return build


_GENERICS: Dict[str, Callable[[str, type], Decoder]] = {
    "fact": _make_fact_decoder,
    "mapping": _make_mapping_decoder,
    "optional": _make_optional_decoder,
    "tuple": _make_tuple_decoder,
}
