"""Convert facts and snapshots to plain JSON values and back; reject values that do not fit the types."""

from __future__ import annotations

import re
import sys
from typing import Any, Callable, Collection, Dict, Mapping, Tuple, Type, TypeVar, cast

from envcheck.model.facts import NOT_STATED, UNKNOWN_REASONS, Absent, Known, Source, Unknown
from envcheck.model.records import list_fields

M = TypeVar("M")
Decoder = Callable[[Any, str], Any]
_PRIMITIVES: Dict[str, Tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
_decoders: Dict[Tuple[str, str], Decoder] = {}


class CodecError(ValueError):
    """A JSON value does not have the shape of its type; the message names the place."""


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
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def _encode_fields(value: Any) -> Dict[str, Any]:
    pairs = ((name, getattr(value, name)) for name in list_fields(value))
    return {name: encode(item) for name, item in pairs if item is not NOT_STATED}


def decode(model: Type[M], value: Any) -> M:
    """Build a record from its JSON form; raises CodecError for an unknown field or a wrong type."""
    return cast("M", _decode_model(model, value, model.__name__))


def decode_as(annotation: str, owner: type, value: Any) -> Any:
    """Build a value of an annotation such as "Fact[Tuple[Gpu, ...]]"; names resolve in `owner`'s module."""
    return _get_decoder(annotation, owner)(value, annotation)


def _decode_model(model: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise CodecError(f"{where}: expected an object, found {type(value).__name__}")
    annotations = {name: str(model.__annotations__[name]) for name in list_fields(model)}
    _reject_unknown_fields(value, annotations, where)
    arguments = {name: _get_decoder(annotations[name], model)(item, f"{where}.{name}") for name, item in value.items()}
    try:
        return model(**arguments)
    except TypeError as error:
        raise CodecError(f"{where}: {error}") from None


def _reject_unknown_fields(value: Mapping[str, Any], fields: Collection[str], where: str) -> None:
    for name in value:
        if name not in fields:
            raise CodecError(f"{where}: unknown field {name!r}")


def _get_decoder(annotation: str, owner: type) -> Decoder:
    key = (owner.__module__, annotation)
    if key not in _decoders:
        _decoders[key] = _make_decoder(annotation, owner)
    return _decoders[key]


def _make_decoder(annotation: str, owner: type) -> Decoder:
    if annotation in _PRIMITIVES:
        return _make_primitive_decoder(annotation)
    generic = re.match(r"(\w+)\[(.*)\]$", annotation)
    if generic is None:
        model = getattr(sys.modules[owner.__module__], annotation)
        return lambda value, where: _decode_model(model, value, where)
    return _GENERICS[generic.group(1)](generic.group(2), owner)


def _make_primitive_decoder(name: str) -> Decoder:
    accepted = _PRIMITIVES[name]

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and name != "bool"):
            raise CodecError(f"{where}: expected {name}, found {type(value).__name__}")
        return value

    return check


def _make_fact_decoder(inner: str, owner: type) -> Decoder:
    item = _get_decoder(inner, owner)

    def build(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"{where}: expected a fact, found {type(value).__name__}")
        if "known" in value:
            _reject_unknown_fields(value, ("known", "source"), where)
            source = _decode_model(Source, value.get("source"), f"{where}.source")
            return Known(item(value["known"], where), source)
        if "absent" in value:
            _reject_unknown_fields(value, ("absent",), where)
            return Absent(_decode_strings(value["absent"], where))
        return _decode_unknown(value, where)

    return build


def _decode_unknown(value: Dict[str, Any], where: str) -> Unknown:
    _reject_unknown_fields(value, ("unknown", "detail", "tried"), where)
    why, detail = value.get("unknown"), value.get("detail", "")
    if why not in UNKNOWN_REASONS or not isinstance(detail, str):
        raise CodecError(f"{where}: expected known, absent, or unknown with one of {', '.join(UNKNOWN_REASONS)}")
    return Unknown(str(why), detail, _decode_strings(value.get("tried", []), where))


def _decode_strings(value: Any, where: str) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CodecError(f"{where}: expected a list of strings")
    return tuple(value)


def _make_tuple_decoder(inner: str, owner: type) -> Decoder:
    item = _get_decoder(inner.rsplit(",", 1)[0], owner)

    def build(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise CodecError(f"{where}: expected a list, found {type(value).__name__}")
        return tuple(item(entry, f"{where}[{index}]") for index, entry in enumerate(value))

    return build


def _make_mapping_decoder(inner: str, owner: type) -> Decoder:
    item = _get_decoder(inner.split(",", 1)[1].strip(), owner)

    def build(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"{where}: expected an object, found {type(value).__name__}")
        return {str(key): item(entry, f"{where}[{key}]") for key, entry in value.items()}

    return build


_GENERICS: Dict[str, Callable[[str, type], Decoder]] = {
    "Fact": _make_fact_decoder,
    "Tuple": _make_tuple_decoder,
    "Mapping": _make_mapping_decoder,
}
