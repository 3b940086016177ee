"""What the matrix knows of the binaries in a wheel, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.render.inert import inert

_WORDS = {
    "architectures": "GPU code",
    "needed": "needs",
    "opens": "may open",
    "runpath": "looks in",
    "symbols": "asks for",
    "compilers": "compiled by",
}


def binary_lines(label: str, binaries: Mapping[str, Any]) -> Iterator[str]:
    """Yield which wheel and how much of it was read, then one line a binary."""
    if not binaries:
        return
    read = binaries["read"]
    yield inert(f"{label} binaries: {len(read)} of the {binaries['binaries']} in {binaries['wheel']} were read:")
    for name, facts in read.items():
        told = [f"{words} {_joined(facts[fact])}" for fact, words in _WORDS.items() if facts.get(fact)]
        yield inert(f"  {name}: {'; '.join(told)}")


def _joined(fact: Any) -> str:
    if isinstance(fact, dict):
        return " ".join(f"{family}_{version}" for family, version in fact.items())
    return (", " if any(" " in item for item in fact) else " ").join(fact)
