"""Fill in the variables of a Dockerfile or a compose file; one that is not known stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\\\$|\$(\w+)|\$\{(\w+)(?:(:?[-+])([^{}]*))?\}")
_PAIR = re.compile(r"""(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|(?:[^\s"'\\]|\\.)*)""")


def substituted(text: str, known: Mapping[str, str]) -> str:
    """Fill in $NAME, ${NAME}, ${NAME:-default} and ${NAME:+other}."""

    def value(found: re.Match[str]) -> str:
        name, how, other = found[1] or found[2], found[3] or "", found[4] or ""
        if not name:
            return "$"
        said = known.get(name)
        if how.endswith("+"):
            return other if said else ""
        if how.endswith("-") and (said is None or (how == ":-" and not said)):
            return other
        return found[0] if said is None else said

    return _VARIABLE.sub(value, text)


def is_open(text: str) -> bool:
    """Tell whether a variable is left in a text."""
    found = _VARIABLE.search(text)
    return found is not None and found[0] != "\\$"


def assignments(value: str) -> Iterator[tuple[str, str]]:
    """Read the pairs of ENV and ARG: A=1 B="two words", and the old form ENV A two words."""
    pairs = [(name, _bare(said)) for name, said in _PAIR.findall(value)]
    if pairs and re.match(r"\w+=", value):
        yield from pairs
    elif re.match(r"\w+\s+\S", value):
        name, _, said = value.partition(" ")
        yield name, said.strip()


def _bare(said: str) -> str:
    return said[1:-1] if said[:1] in {'"', "'"} else re.sub(r"\\(.)", r"\1", said)
