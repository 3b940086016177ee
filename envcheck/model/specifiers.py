"""Read version specifiers.

">=2.15,<3" as packaging reads them, several times as fast where they are plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from envcheck.model import numbers

_CLAUSE = re.compile(r"\s*(~=|===?|!=|<=|>=|<|>)\s*([A-Za-z0-9.*+!_-]+?)\s*")
_LABEL = r"(?:\+([a-z][a-z0-9]*))?"  # of a build: +cu118
_FINAL = re.compile(rf"(\d+(?:\.\d+)*)(?:(\.post\d+)|{_LABEL})")
_PRERELEASE = re.compile(r"\d+(?:\.\d+)*(?:a|b|rc|\.dev)\d+")
_PLAIN = re.compile(
    rf"\s*(==|!=|<=|>=|<|>|~=)\s*(\d+(?:\.\d+)*)(?:(\.\*)|{_LABEL}|(\.post\d+)|((?:a|b|rc|\.dev)\d+))\s*"
)
_EXACT = ("==", "!=")  # operators that may stand before 2.15.* and 2.7.1+cu118


class Clause(NamedTuple):
    """One clause: ">=" and "2.15"."""

    operator: str
    version: str


@lru_cache(maxsize=1 << 16)  # a plan of several packages asks the same up to 800,000 times
def within(version: str, specifier: str, *, prereleases: bool = True) -> bool:
    """Return whether a version lies in a specifier; "" admits all.

    A version that nobody knows ("") lies in each. Raises packaging's errors for malformed input.
    """
    if not version:
        return True
    if not prereleases and _PRERELEASE.fullmatch(version):
        return False
    if specifier == f"=={version}" and _PRERELEASE.fullmatch(version):
        return True
    final, plain = _read_final(version), _read_plain(specifier)
    if final is None or plain is None:
        return _by_packaging(version, specifier, prereleases=prereleases)
    return all(_admits(clause, final) for clause in plain)


@lru_cache(maxsize=1 << 13)
def _read_final(version: str) -> re.Match[str] | None:
    return _FINAL.fullmatch(version)


@lru_cache(maxsize=1 << 13)
def _read_plain(specifier: str) -> tuple[re.Match[str], ...] | None:
    """Read the clauses of a specifier; None where packaging must read it."""
    found = [_PLAIN.fullmatch(text) for text in specifier.split(",") if text.strip()]
    plain = tuple(clause for clause in found if clause and _is_plain(clause))
    return plain if len(plain) == len(found) else None


def matches(version: str, specifier: str) -> bool:
    """Return whether a version lies in a specifier; a malformed version lies in none."""
    try:
        return within(version, specifier)
    except ValueError as error:
        from packaging.version import InvalidVersion

        if not isinstance(error, InvalidVersion):
            raise
        return False


def can_be_met(specifier: str) -> bool:
    """Return whether some version lies in a specifier.

    One of those it names, or one just beside it.
    """
    versions = [item.version for item in clauses(specifier)]
    return not versions or any(
        within(text, specifier) for version in versions for text in _list_neighbours(version)
    )


def admits_others(specifier: str, clause: str) -> bool:
    """Return whether a specifier admits a version that a clause refuses."""
    versions = [item.version for item in (*clauses(specifier), *clauses(clause))]
    candidates = [text for version in versions for text in _list_neighbours(version)]
    return any(within(text, specifier) and not within(text, clause) for text in candidates)


def clauses(specifier: str) -> Iterator[Clause]:
    """Yield the clauses of a specifier; malformed clauses are skipped."""
    for text in filter(None, specifier.split(",")):
        match = _CLAUSE.fullmatch(text)
        if match:
            yield Clause(match[1], match[2])


def _list_neighbours(version: str) -> Iterator[str]:
    """Yield versions next to one, as far as clauses can tell them apart.

    2.15 -> 2.15, 2.15.1, 2.16, 2.14.9999.
    """
    release = list(numbers(version))
    yield re.sub(r"[.][*]$", "", version)
    yield ".".join(map(str, (*release, 1)))
    yield ".".join(map(str, (*release[:-1], release[-1] + 1)))
    while release and not release[-1]:
        release.pop()
    if release:
        yield ".".join(map(str, (*release[:-1], release[-1] - 1, 9999)))


def _is_plain(clause: re.Match[str]) -> bool:
    if clause[1] == "~=" and "." not in clause[2]:
        return False  # packaging says that it needs two numbers
    if clause[6]:
        return clause[1] == "=="
    if clause[5]:
        return clause[1] not in ("~=", ">")
    return clause[1] in _EXACT or not (clause[3] or clause[4])


def _admits(clause: re.Match[str], final: re.Match[str]) -> bool:
    operator = clause[1]
    version = without_zeros(clause[2])
    release = without_zeros(final[1])
    if clause[6]:
        return False  # a pre-release is no final release
    if clause[3]:
        length = clause[2].count(".") + 1
        return (_pad(release, length) == _pad(version, length)) is (operator == "==")
    place = (release, _read_post(final[2]))
    bound = (version, _read_post(clause[5]))
    if operator in _EXACT:  # a clause without a label admits every label
        return (place == bound and clause[4] in (None, final[3])) is (operator == "==")
    if operator == "~=":  # 2.15.1 stands for >=2.15.1,==2.15.*
        line = numbers(clause[2])[:-1]
        return release >= version and _pad(release, len(line)) == line
    if operator in ("<", "<="):
        return place < bound or (place == bound and operator == "<=")
    return place >= bound if operator == ">=" else release > version  # 2.15.0.post1 is not >2.15.0


def _read_post(text: str | None) -> tuple[int, ...]:
    """Read the number of a post-release.

    .post1 is (1,), which comes after the () of the release itself.
    """
    return numbers(text[len(".post") :]) if text else ()


def _pad(release: tuple[int, ...], length: int) -> tuple[int, ...]:
    return (*release, *(0,) * length)[:length]


@lru_cache(maxsize=1 << 14)
def without_zeros(version: str) -> tuple[int, ...]:
    """Return a release without its trailing zeros, which mean nothing: 2.15.0 -> (2, 15)."""
    release = numbers(version)
    while release and not release[-1]:
        release = release[:-1]
    return release


def _by_packaging(version: str, specifier: str, *, prereleases: bool) -> bool:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    return SpecifierSet(specifier).contains(Version(version), prereleases=prereleases)
