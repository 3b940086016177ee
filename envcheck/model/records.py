"""Frozen dataclasses that are cheap to define.

`@dataclass` of this package is `dataclasses.dataclass(frozen=True)`.

The standard one generates and compiles source for every class: forty classes cost as much as three
interpreter starts. These records look the same to a type checker and to `fields()`, `replace()` and
`is_dataclass()`, but share one `__init__`, `__eq__`, `__hash__` and `__repr__`. The `Field` objects
are created on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple, Type, TypeVar

__all__ = ["constant_defaults", "dataclass", "field", "list_fields", "make_record", "replace"]

R = TypeVar("R")


class _DefaultFactory:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


if TYPE_CHECKING:
    from dataclasses import field

    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def dataclass(cls: Type[R]) -> Type[R]:
        """Make a class a frozen record."""
        return cls

else:

    def field(*, default_factory: Callable[[], Any]) -> Any:
        """Give a field a default that is created for each record."""
        return _DefaultFactory(default_factory)

    def dataclass(cls: type) -> type:
        """Make a class a frozen record."""
        names = tuple(getattr(cls, "__annotations__", {}))
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        cls.__init__ = _make_init(names, defaults)
        cls.__match_args__ = names
        cls.__record_fields__ = names
        cls.__dataclass_fields__ = _LazyFields()
        cls.__setattr__ = cls.__delattr__ = _reject_change
        cls.__eq__, cls.__hash__ = _equal, _hash
        if cls.__repr__ is object.__repr__:  # a base may say less than all of its fields
            cls.__repr__ = _repr
        return cls

    def _make_init(names: Tuple[str, ...], defaults: Dict[str, Any]) -> Callable[..., None]:
        factories = [
            (name, value.make)
            for name, value in defaults.items()
            if isinstance(value, _DefaultFactory)
        ]
        allowed = frozenset(names)

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - becomes a method
            values = self.__dict__
            values.update(defaults)
            for name, make in factories:
                if name not in kwargs:
                    values[name] = make()
            values.update(zip(names, args))
            values.update(kwargs)
            if (
                len(values) != len(names)
                or len(args) > len(names)
                or not allowed.issuperset(kwargs)
            ):
                raise TypeError(_describe_argument_error(type(self).__name__, names, values, args))

        return __init__

    def _describe_argument_error(
        record: str, names: Tuple[str, ...], values: Dict[str, Any], args: Tuple[Any, ...]
    ) -> str:
        if len(args) > len(names):
            return f"{record} takes {len(names)} values but {len(args)} were given"
        missing = [name for name in names if name not in values]
        extra = [name for name in values if name not in names]
        if missing:
            return f"{record} lacks {', '.join(missing)}"
        return f"{record} has no field {', '.join(extra)}"

    class _LazyFields:
        """Create `__dataclass_fields__` on first use and take its place."""

        def __get__(self, instance: Any, owner: type) -> Dict[str, Any]:
            import dataclasses

            annotations = owner.__annotations__
            columns = [
                (name, annotations[name], _make_dataclass_field(owner, name))
                for name in owner.__record_fields__
            ]
            twin = dataclasses.make_dataclass(
                owner.__name__, columns, frozen=True, repr=False, eq=False
            )
            owner.__dataclass_fields__ = twin.__dataclass_fields__
            return twin.__dataclass_fields__

    def _make_dataclass_field(owner: type, name: str) -> Any:
        import dataclasses

        if name not in owner.__dict__:
            return dataclasses.field()
        value = owner.__dict__[name]
        if isinstance(value, _DefaultFactory):
            return dataclasses.field(default_factory=value.make)
        return dataclasses.field(default=value)

    def _reject_change(_: Any, name: str, *__: Any) -> None:
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


def list_fields(record: object) -> Tuple[str, ...]:
    """List the field names of a record or record class in order; () for any other object."""
    return getattr(record, "__record_fields__", ())


def constant_defaults(kind: type) -> Dict[str, Any]:
    """Map a record's fields to their defaults, except those created for each record."""
    defaults = ((name, vars(kind)[name]) for name in list_fields(kind) if name in vars(kind))
    return {name: value for name, value in defaults if not isinstance(value, _DefaultFactory)}


def make_record(kind: Type[R], values: Dict[str, Any]) -> R:
    """Create a record from all its field values, unchecked: fast enough to create thousands."""
    record = object.__new__(kind)
    object.__setattr__(record, "__dict__", values)
    return record


def replace(record: R, **changes: Any) -> R:
    """Return a copy of a record with some fields changed."""
    return type(record)(**{**record.__dict__, **changes})
