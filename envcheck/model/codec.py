"""Turn facts and snapshots into plain JSON values and back, refusing what does not fit the types."""

from __future__ import annotations

import sys
from typing import Any, Callable, Collection, Dict, List, Mapping, Tuple, Type, TypeVar, cast

from envcheck.model.facts import NOT_STATED, UNKNOWN_REASONS, Absent, Known, Source, Unknown
from envcheck.model.records import adopted, constant_defaults, field_names

M = TypeVar("M")
Decoder = Callable[[Any], Any]


class CodecError(ValueError):
    """A JSON value does not have the shape its type asks for; the message says where."""

    def __init__(self, reason: str, place: str = "") -> None:
        """Keep the reason apart from the place, which grows as the error leaves nested values."""
        super().__init__(f"{place}: {reason}")
        self.reason, self.place = reason, place

    def within(self, place: str) -> CodecError:
        """Return this error as seen from the value that holds `place`: ".driver", "[3]"."""
        return CodecError(self.reason, place + self.place)


def encode(value: Any) -> Any:  # noqa: PLR0911 - one return a kind of value
    """Return the JSON form of a fact, a model value or a container of them."""
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
    """Build `model` from its JSON form; raises CodecError where a name or type does not fit.

    A field may be named with a trailing underscore where its name is a word of Python: `as_` reads "as".
    """
    try:
        return cast("M", _model_decoder(model)(value))
    except CodecError as error:
        raise error.within(model.__name__) from None


def decode_as(annotation: str, owner: type, value: Any) -> Any:
    """Build a value from an annotation such as "Fact[Tuple[Gpu, ...]]", names taken from `owner`'s module."""
    try:
        return _decoder(annotation, owner)(value)
    except CodecError as error:
        raise error.within(annotation) from None


_model_decoders: Dict[type, Decoder] = {}
_decoders: Dict[Tuple[str, str], Decoder] = {}


def _model_decoder(model: type) -> Decoder:
    if model not in _model_decoders:
        _model_decoders[model] = _compile_model(model)
    return _model_decoders[model]


def _compile_model(model: type) -> Decoder:
    """Make the decoder of a record: thousands of rows are read with one, so what is told by the type is told here."""
    annotations = {name: str(model.__annotations__[name]) for name in field_names(model)}
    columns = {
        name.rstrip("_"): (name, _EXACT.get(annotation), _decoder(annotation, model))
        for name, annotation in annotations.items()
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
            return model(**cells)  # makes what is left, or says what is missing
        except TypeError as error:
            raise CodecError(str(error)) from None

    return build


def _refuse_others(value: Mapping[str, Any], known: Collection[str]) -> None:
    for name in value:
        if name not in known:
            raise CodecError(f"unknown field {name!r}")


def _decoder(annotation: str, owner: type) -> Decoder:
    key = (owner.__module__, annotation)
    if key not in _decoders:
        _decoders[key] = _compile(annotation, owner)
    return _decoders[key]


def _compile(annotation: str, owner: type) -> Decoder:
    if annotation in _PRIMITIVES:
        return _primitive(annotation)
    if annotation.endswith(" | None"):
        return _optional(annotation[: -len(" | None")], owner)
    generic, _, inner = annotation.partition("[")
    if inner:
        return _GENERICS[generic.lower()](inner[:-1], owner)
    return _model_decoder(getattr(sys.modules[owner.__module__], annotation))


_PRIMITIVES: Dict[str, Tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
_EXACT: Dict[str, type] = {"str": str, "int": int, "bool": bool, "float": float}  # values that need no further look


def _primitive(name: str) -> Decoder:
    accepted = _PRIMITIVES[name]

    def check(value: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and name != "bool"):
            raise CodecError(f"expected {name}, found {type(value).__name__}")
        return value

    return check


def _optional(inner: str, owner: type) -> Decoder:
    item = _decoder(inner, owner)
    return lambda value: None if value is None else item(value)


def _fact(inner: str, owner: type) -> Decoder:
    item, source = _decoder(inner, owner), _model_decoder(Source)

    def build(value: Any) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"expected a fact, found {type(value).__name__}")
        if "known" in value:
            _refuse_others(value, ("known", "source"))
            try:
                seen = source(value.get("source"))
            except CodecError as error:
                raise error.within(".source") from None
            return Known(item(value["known"]), seen)
        if "absent" in value:
            _refuse_others(value, ("absent",))
            return Absent(_strings(value["absent"]))
        return _unknown(value)

    return build


def _unknown(value: Dict[str, Any]) -> Unknown:
    _refuse_others(value, ("unknown", "detail", "tried"))
    why, detail = value.get("unknown"), value.get("detail", "")
    if why not in UNKNOWN_REASONS or not isinstance(detail, str):
        raise CodecError(f"a fact is known, absent or unknown for one of {', '.join(UNKNOWN_REASONS)}")
    return Unknown(str(why), detail, _strings(value.get("tried", [])))


def _strings(value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CodecError("expected a list of strings")
    return tuple(value)


def _tuple(inner: str, owner: type) -> Decoder:
    annotation = inner.rsplit(",", 1)[0]
    item, exact = _decoder(annotation, owner), _EXACT.get(annotation)

    def build(value: Any) -> Any:
        if not isinstance(value, list):
            raise CodecError(f"expected a list, found {type(value).__name__}")
        if exact and all(type(entry) is exact for entry in value):
            return tuple(value)
        made: List[Any] = []
        try:
            made.extend(map(item, value))
        except CodecError as error:
            raise error.within(f"[{len(made)}]") from None
        return tuple(made)

    return build


def _mapping(inner: str, owner: type) -> Decoder:
    annotation = inner.split(",", 1)[1].strip()
    item, exact = _decoder(annotation, owner), _EXACT.get(annotation)

    def build(value: Any) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"expected an object, found {type(value).__name__}")
        made, key = {}, ""
        try:
            for key, entry in value.items():
                made[key] = entry if type(entry) is exact else item(entry)
        except CodecError as error:
            raise error.within(f"[{key}]") from None
        return made

    return build


_GENERICS: Dict[str, Callable[[str, type], Decoder]] = {
    "fact": _fact,
    "mapping": _mapping,
    "optional": _optional,
    "tuple": _tuple,
}
