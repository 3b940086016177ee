"""Convert facts and snapshots to plain JSON values and back; reject values that do not fit the types."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Any, Collection, Dict, Mapping, Tuple, Type, TypeVar, cast

from envcheck.model.facts import NOT_STATED, UNKNOWN_REASONS, Absent, Known, Source, Unknown
from envcheck.model.records import list_fields

M = TypeVar("M")
_PRIMITIVES: Dict[str, Tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}


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
    return _decode(annotation, owner, value, annotation)


def _decode_model(model: type, value: Any, where: str) -> Any:
    _expect(dict, "an object", value, where)
    _reject_unknown_fields(value, list_fields(model), where)
    annotations = model.__annotations__
    arguments = {name: _decode(annotations[name], model, item, f"{where}.{name}") for name, item in value.items()}
    try:
        return model(**arguments)
    except TypeError as error:
        raise CodecError(f"{where}: {error}") from None


def _decode(annotation: str, owner: type, value: Any, where: str) -> Any:
    generic, inner = _split_annotation(annotation)
    if generic == "Fact":
        return _decode_fact(inner, owner, value, where)
    if generic == "Tuple":
        _expect(list, "a list", value, where)
        item = inner.rsplit(",", 1)[0]
        return tuple(_decode(item, owner, entry, f"{where}[{index}]") for index, entry in enumerate(value))
    if generic == "Mapping":
        _expect(dict, "an object", value, where)
        item = inner.split(",", 1)[1].strip()
        return {str(key): _decode(item, owner, entry, f"{where}[{key}]") for key, entry in value.items()}
    if annotation not in _PRIMITIVES:
        return _decode_model(getattr(sys.modules[owner.__module__], annotation), value, where)
    if not isinstance(value, _PRIMITIVES[annotation]) or (isinstance(value, bool) and annotation != "bool"):
        raise CodecError(f"{where}: expected {annotation}, found {type(value).__name__}")
    return value


@lru_cache(maxsize=256)  # there are about 30 annotations
def _split_annotation(annotation: str) -> Tuple[str, str]:
    """Split "Fact[str]" into "Fact" and "str"; the first is "" for other annotations."""
    match = re.match(r"(\w+)\[(.*)\]$", annotation)
    return (match.group(1), match.group(2)) if match else ("", annotation)


def _decode_fact(inner: str, owner: type, value: Any, where: str) -> Any:
    _expect(dict, "a fact", value, where)
    if "known" in value:
        _reject_unknown_fields(value, ("known", "source"), where)
        source = _decode_model(Source, value.get("source"), f"{where}.source")
        return Known(_decode(inner, owner, value["known"], where), source)
    if "absent" in value:
        _reject_unknown_fields(value, ("absent",), where)
        return Absent(_decode_strings(value["absent"], where))
    _reject_unknown_fields(value, ("unknown", "detail", "tried"), where)
    why, detail = value.get("unknown"), value.get("detail", "")
    if why not in UNKNOWN_REASONS or not isinstance(detail, str):
        raise CodecError(f"{where}: expected known, absent, or unknown with one of {', '.join(UNKNOWN_REASONS)}")
    return Unknown(str(why), detail, _decode_strings(value.get("tried", []), where))


def _decode_strings(value: Any, where: str) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CodecError(f"{where}: expected a list of strings")
    return tuple(value)


def _expect(kind: type, name: str, value: Any, where: str) -> None:
    if not isinstance(value, kind):
        raise CodecError(f"{where}: expected {name}, found {type(value).__name__}")


def _reject_unknown_fields(value: Mapping[str, Any], fields: Collection[str], where: str) -> None:
    for name in value:
        if name not in fields:
            raise CodecError(f"{where}: unknown field {name!r}")
