"""Frozen dataclasses without the price of making them.

`dataclasses.dataclass` writes and compiles source for every class: forty of them cost three bare
interpreter starts before the first probe runs. These are the same to a type checker and to
`fields()`, `replace()` and `is_dataclass()`, but share one `__init__`, `__eq__`, `__hash__` and
`__repr__`; the `Field` objects are made when somebody asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple, Type, TypeVar

__all__ = ["adopted", "constant_defaults", "dataclass", "field", "field_names", "replaced"]

R = TypeVar("R")


class _Factory:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:

    def field(*, default_factory: Callable[[], Any]) -> Any:
        """Give a field a default that is made anew for each record."""
        return _Factory(default_factory)

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """Make a class a frozen record; the signature is that of `dataclasses.dataclass(frozen=True)`."""
        if not frozen:
            raise TypeError("records are frozen")
        return _make

    def _make(cls: type) -> type:
        names = tuple(getattr(cls, "__annotations__", {}))
        given = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        cls.__init__ = _initialiser(names, given)
        cls.__match_args__ = names
        cls.__record_fields__ = names
        cls.__dataclass_fields__ = _Fields()
        cls.__setattr__ = cls.__delattr__ = _refuse
        cls.__eq__, cls.__hash__, cls.__repr__ = _equal, _hash, _repr
        return cls

    def _initialiser(names: Tuple[str, ...], given: Dict[str, Any]) -> Callable[..., None]:
        factories = [(name, value.make) for name, value in given.items() if isinstance(value, _Factory)]
        allowed = frozenset(names)

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - becomes a method
            values = self.__dict__
            values.update(given)
            for name, make in factories:
                if name not in kwargs:
                    values[name] = make()
            values.update(zip(names, args))
            values.update(kwargs)
            if len(values) != len(names) or len(args) > len(names) or not allowed.issuperset(kwargs):
                raise TypeError(_complaint(type(self).__name__, names, values, args))

        return __init__

    def _complaint(record: str, names: Tuple[str, ...], values: Dict[str, Any], args: Tuple[Any, ...]) -> str:
        if len(args) > len(names):
            return f"{record} takes {len(names)} values, {len(args)} were given"
        missing = [name for name in names if name not in values]
        extra = [name for name in values if name not in names]
        return f"{record} misses {', '.join(missing)}" if missing else f"{record} has no field {', '.join(extra)}"

    class _Fields:
        """Make `__dataclass_fields__` on first use, then replace itself by it."""

        def __get__(self, instance: Any, owner: type) -> Dict[str, Any]:
            import dataclasses

            annotations = owner.__annotations__
            columns = [(name, annotations[name], _column(owner, name)) for name in owner.__record_fields__]
            made = dataclasses.make_dataclass(owner.__name__, columns, frozen=True, repr=False, eq=False)
            owner.__dataclass_fields__ = made.__dataclass_fields__
            return made.__dataclass_fields__

    def _column(owner: type, name: str) -> Any:
        import dataclasses

        if name not in owner.__dict__:
            return dataclasses.field()
        value = owner.__dict__[name]
        if isinstance(value, _Factory):
            return dataclasses.field(default_factory=value.make)
        return dataclasses.field(default=value)

    def _refuse(_: Any, name: str, *__: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")

    def _equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(self.__dict__[name] == other.__dict__[name] for name in self.__record_fields__)

    def _hash(self: Any) -> int:
        return hash(tuple(self.__dict__[name] for name in self.__record_fields__))

    def _repr(self: Any) -> str:
        values = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.__record_fields__)
        return f"{type(self).__qualname__}({values})"


def field_names(record: object) -> Tuple[str, ...]:
    """List the fields of a record or of its class, in their order; () for what is no record."""
    names: Tuple[str, ...] = getattr(record, "__record_fields__", ())
    return names


def constant_defaults(kind: type) -> Dict[str, Any]:
    """Map the fields of a record's class to their defaults, but for those that are made anew for each record."""
    given = ((name, vars(kind)[name]) for name in field_names(kind) if name in vars(kind))
    return {name: value for name, value in given if not isinstance(value, _Factory)}


def adopted(kind: Type[R], cells: Dict[str, Any]) -> R:
    """Make a record of cells that are every field of its kind, which is the caller's to know: thousands are made so."""
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", cells)
    return made


def replaced(record: R, **changes: Any) -> R:
    """Return a copy of a record with some fields changed."""
    return type(record)(**{**record.__dict__, **changes})
