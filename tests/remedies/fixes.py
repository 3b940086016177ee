"""One record of each kind of fix, for tests that look at all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

from envcheck.model import Fix, fixes, list_fields

# "8" is a word, a number, a requirement
SAMPLES: dict[Any, Any] = {str: "8", bool: True, tuple[str, ...]: ("8",)}


# Fields that hold one of a few words.
WORDS = {
    "framework": "torch",
    "capability": "8.9",
    "InstallKernelModule.kind": "open",
    "InstallCudaExtra.framework": "tensorflow",
    "InstallCudaLibraries.index": "https://download.pytorch.org/whl/cu126",
    "InstallRequirements.index": "https://download.pytorch.org/whl/cu130",
}


def kinds_of_fixes() -> list[type[Fix]]:
    """List every record of `envcheck.model.fixes`."""
    kinds = [
        each for each in vars(fixes).values() if isinstance(each, type) and issubclass(each, Fix)
    ]
    return sorted((each for each in kinds if hasattr(each, "__record_fields__")), key=_name)


def _name(kind: type[Fix]) -> tuple[str, str]:
    return kind.subject, kind.__name__


def samples(kind: type[Fix]) -> Iterator[Fix]:
    """Make a record with all its fields filled, and one with those alone that it cannot do without."""
    hints = {name: _plain(hint) for name, hint in get_type_hints(kind).items()}
    words = {name: WORDS.get(f"{kind.__name__}.{name}") or WORDS.get(name) for name in hints}
    filled = {name: words[name] or SAMPLES.get(hint, ()) for name, hint in hints.items()}
    needed = {name: value for name, value in filled.items() if not hasattr(kind, name)}
    assert set(filled) == set(list_fields(kind))
    yield kind(**filled)
    if needed != filled:
        yield kind(**needed)


def _plain(hint: Any) -> Any:
    return tuple[str, ...] if str(hint) in ("typing.Tuple[str, ...]", "tuple[str, ...]") else hint
