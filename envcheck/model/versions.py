"""Read and compare versions, what admits them, and what asks for them.

Versions are compared by their numbers, as far as these are stated: of drivers, CUDA, cuDNN,
compilers, Python minors. Specifiers such as ">=2.15,<3" and requirements such as
torch[extra]>=2.6,<3; marker are read here where they are plain. Anything else is read by packaging,
which takes as long to import as all of this program.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Iterable, Iterator, Mapping, Match, NamedTuple, Optional, Set, Tuple

from envcheck.model.records import dataclass, replace
from envcheck.model.text import RequestError, canonical_name

# a longer number is no version, and slow to read
_NUMBERS = r"\s*(\d{1,18}(?:\.\d{1,18})*)"


@lru_cache(maxsize=1 << 14)
def numbers(version: Optional[str]) -> Tuple[int, ...]:
    """Read the leading numbers of a version.

    "12.4.1-1+x" -> (12, 4, 1), "390.x" -> (390,); () where there are none, or no version is known.
    """
    found = re.match(_NUMBERS, version or "")
    return tuple(map(int, found.group(1).split("."))) if found else ()


def major(version: Optional[str]) -> str:
    """Cut a version to its first part: "12.6.77" -> "12"; "" where it is not known."""
    return (version or "").partition(".")[0]


def major_minor(version: Optional[str]) -> str:
    """Cut a version to its first two parts: "12.6.77" -> "12.6"; "12" stays, "" is not known."""
    return ".".join((version or "").split(".")[:2])


def cuda_of_digits(digits: str) -> str:
    """Read a CUDA version as labels and names of files write it.

    "126" -> "12.6", "92" -> "9.2"; "12" stays: from CUDA 10 on, two digits are a major alone.
    """
    if len(digits) < 2 or (len(digits) == 2 and digits[0] == "1"):
        return digits
    return f"{digits[:-1]}.{digits[-1]}"


def cuda_of_number(number: int) -> str:
    """Read a CUDA version as its header and the driver write it: 12040 -> "12.4"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def public_version(version: str) -> str:
    """Cut the local label from a version: "2.7.1+cu126" -> "2.7.1"."""
    return version.partition("+")[0]


def at_least(version: str, floor: str) -> Optional[bool]:
    """Return whether a version reaches a floor.

    Return None where that depends on parts that are not stated: 550 and 550.54.
    """
    have, want = numbers(version), numbers(floor)
    if not have:
        return None
    for ours, theirs in zip(have, want):
        if ours != theirs:
            return ours > theirs
    return True if len(have) >= len(want) else None


def at_least_minor(version: str, floor: str) -> bool:
    """Return whether a version reaches a floor by major and minor.

    A bare major counts as its .0.
    """
    return _parse_two(version) >= _parse_two(floor)


def is_older(version: str, than: str) -> bool:
    """Return whether a version is below another by major and minor, as far as both state them.

    11 is not below 11.8.
    """
    return at_least(major_minor(version), major_minor(than)) is False


def same_release(one: str, other: str) -> bool:
    """Return whether two spellings may name one release: 515.48.7 is 515.48.07, and 515 may be."""
    return all(ours == theirs for ours, theirs in zip(numbers(one), numbers(other)))


def _parse_two(version: str) -> Tuple[int, ...]:
    return (*numbers(version)[:2], 0, 0)[:2]


# Specifiers.

_ANY_CLAUSE = r"\s*(~=|===?|!=|<=|>=|<|>)\s*([A-Za-z0-9.*+!_-]+?)\s*"
_LABEL = r"(?:\+([a-z][a-z0-9]*))?"  # of a build: +cu118
_FINAL = rf"(\d+(?:\.\d+)*)(?:(\.post\d+)|{_LABEL})"
_PRERELEASE = r"\d+(?:\.\d+)*(?:a|b|rc|\.dev)\d+"
_PLAIN_CLAUSE = (
    r"\s*(==|!=|<=|>=|<|>|~=)\s*(\d+(?:\.\d+)*)"
    rf"(?:(\.\*)|{_LABEL}|(\.post\d+)|((?:a|b|rc|\.dev)\d+))\s*"
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
    if re.fullmatch(_PRERELEASE, version):
        if not prereleases:
            return False
        if specifier == f"=={version}":
            return True
    final, plain = _read_final(version), _read_plain(specifier)
    if final is None or plain is None:
        return _by_packaging(version, specifier, prereleases=prereleases)
    return all(_admits(clause, final) for clause in plain)


@lru_cache(maxsize=1 << 13)
def _read_final(version: str) -> Optional[Match[str]]:
    return re.fullmatch(_FINAL, version)


@lru_cache(maxsize=1 << 13)
def _read_plain(specifier: str) -> Optional[Tuple[Match[str], ...]]:
    """Read the clauses of a specifier; None where packaging must read it."""
    found = [re.fullmatch(_PLAIN_CLAUSE, text) for text in specifier.split(",") if text.strip()]
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
        match = re.fullmatch(_ANY_CLAUSE, text)
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


def _is_plain(clause: Match[str]) -> bool:
    if clause[1] == "~=" and "." not in clause[2]:
        return False  # packaging says that it needs two numbers
    if clause[6]:
        return clause[1] == "=="
    if clause[5]:
        return clause[1] not in ("~=", ">")
    return clause[1] in _EXACT or not (clause[3] or clause[4])


def _admits(clause: Match[str], final: Match[str]) -> bool:
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


def _read_post(text: Optional[str]) -> Tuple[int, ...]:
    """Read the number of a post-release.

    .post1 is (1,), which comes after the () of the release itself.
    """
    return numbers(text[len(".post") :]) if text else ()


def _pad(release: Tuple[int, ...], length: int) -> Tuple[int, ...]:
    return (*release, *(0,) * length)[:length]


@lru_cache(maxsize=1 << 14)
def without_zeros(version: str) -> Tuple[int, ...]:
    """Return a release without its trailing zeros, which mean nothing: 2.15.0 -> (2, 15)."""
    release = numbers(version)
    while release and not release[-1]:
        release = release[:-1]
    return release


def _by_packaging(version: str, specifier: str, *, prereleases: bool) -> bool:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    return SpecifierSet(specifier).contains(Version(version), prereleases=prereleases)


# Requirements.

_NAME = r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_EXTRAS = rf"\[[ \t]*({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)[ \t]*\]"
_CLAUSE = (
    r"(?:(?:<=|>=|<|>)[ \t]*\d+(?:\.\d+)*|(?:==|!=)["
    r" \t]*\d+(?:\.\d+)*(?:\.\*|\.post\d+|\+[a-z][a-z0-9]*)?)"
)
# Two runs of blanks never meet: a long one would be tried in every division.
_PLAIN = (
    rf"[ \t]*{_NAME}(?:[ \t]*{_EXTRAS})?(?:[ \t]*({_CLAUSE}(?:[ \t]*,[ \t]*{_CLAUSE})*))?[ \t]*"
)
_BOUNDS = r"(?:\s*\(([^()]*)\)\s*|\s*([=<>!~@][^;()]*)|\s*)"
_LOOSE = rf"\s*{_NAME}(?:\s*\[([^\]]*)\])?{_BOUNDS}(?:;\s*(.*))?$"
_LONGEST = 4000  # characters: a lock file joins the conditions of many platforms
_DEEPEST = 50  # parentheses: packaging recurses for each


@dataclass
class Requirement:
    """What one requirement asks for."""

    text: str  # as it was written
    name: str  # as an index writes it: tensorflow-gpu
    extras: Tuple[str, ...] = ()  # sorted, each as an index writes it
    specifier: str = ""  # <3,>=2.15
    marker: str = ""
    url: str = ""

    @property
    def plain(self) -> str:
        """Write it without its marker and address: tensorflow[and-cuda]==2.15.*."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return self.name + extras + self.specifier

    @property
    def clauses(self) -> Tuple[Clause, ...]:
        """List its version clauses."""
        return tuple(clauses(self.specifier))

    @property
    def pin(self) -> str:
        """Return the one release that it names, with its label.

        2.7.1+cu118; "" where it admits several.
        """
        for clause in self.clauses:
            if clause.operator in ("==", "===") and not clause.version.endswith(".*"):
                return clause.version
        return ""

    @property
    def label(self) -> str:
        """Return the label of the build that it names.

        cu118 of torch==2.7.1+cu118; "" where it names none.
        """
        return self.pin.partition("+")[2]

    def joined(self, other: Requirement) -> Requirement:
        """Ask for what both ask for of one package; nothing may meet that."""
        both = dict.fromkeys((*self.specifier.split(","), *other.specifier.split(",")))
        return replace(
            self,
            extras=tuple(sorted({*self.extras, *other.extras})),
            specifier=",".join(filter(None, both)),
        )

    def admits(self, version: str, *, prereleases: bool) -> bool:
        """Return whether a version lies in all of its clauses."""
        return within(version, self.specifier, prereleases=prereleases)


@lru_cache(maxsize=1 << 12)
def read_requirement(text: str) -> Requirement:
    """Read a requirement that somebody asks for; raises RequestError for a text that is none."""
    _check_bounds(text)
    match = re.fullmatch(_PLAIN, text, re.ASCII)
    if match is None:
        return _read_by_packaging(text)
    parts = {re.sub(r"\s", "", part) for part in (match[5] or "").split(",") if part}
    return Requirement(
        text, canonical_name(match[1]), _split_extras(match[2]), ",".join(sorted(parts))
    )


def name_needs(lines: Iterable[str], *, by_extra: bool = False) -> Set[str]:
    """Name what lines of installed metadata require, plainly or by an extra."""
    texts = (line for line in lines if ("extra" in line.partition(";")[2]) is by_extra)
    return {need.name for need in map(find_requirement, texts) if need is not None}


@lru_cache(maxsize=1 << 12)
def find_requirement(line: str) -> Optional[Requirement]:
    """Read what installed metadata or a log states, unchecked.

    Return None for a line that names no distribution.

    nvidia-cudnn-cu12 (>=9.3) ; extra == 'and-cuda'
    """
    match = re.match(_LOOSE, line, re.ASCII) if len(line) <= _LONGEST else None
    if match is None:
        return None
    name = canonical_name(match[1])
    extras = _split_extras(match[2])
    marker = match[5] or ""
    bounds = re.sub(r"\s", "", match[3] or match[4] or "")
    if bounds.startswith("@"):
        return Requirement(line, name, extras, marker=marker, url=bounds[1:])
    return Requirement(line, name, extras, bounds, marker)


def write_pin(name: str, version: str, extras: Iterable[Optional[str]] = ()) -> str:
    """Write what pins a release, with the extras that are not empty: jax[cuda12]==0.10.0."""
    listed = ",".join(extra for extra in extras if extra)
    return f"{name}[{listed}]=={version}" if listed else f"{name}=={version}"


@lru_cache(maxsize=1 << 14)
def name_of(text: str) -> str:
    """Return the name that a requirement begins with: Numpy>=2 -> numpy; "" without one."""
    match = re.match(rf"\s*{_NAME}", text, re.ASCII)
    return canonical_name(match[1]) if match else ""


def evaluate_marker(marker: str, environment: Mapping[str, str]) -> bool:
    """Return whether a marker holds in an environment; one that cannot be evaluated does not."""
    from packaging.markers import (
        InvalidMarker,
        Marker,
        UndefinedComparison,
        UndefinedEnvironmentName,
    )
    from packaging.version import InvalidVersion

    try:
        return Marker(marker).evaluate({**environment})
    except (InvalidMarker, InvalidVersion, UndefinedComparison, UndefinedEnvironmentName):
        return False


def _split_extras(text: Optional[str]) -> Tuple[str, ...]:
    names = {canonical_name(part.strip()) for part in (text or "").split(",")}
    return tuple(sorted(names - {""}))


def _check_bounds(text: str) -> None:
    """Refuse what would take long to read, or never be a requirement."""
    shown = f"{text[:60]!r}"
    if len(text) > _LONGEST:
        raise RequestError(
            f"{shown} is not a requirement: it is longer than {_LONGEST} characters."
        )
    if "\0" in text or text.count("(") > _DEEPEST:
        raise RequestError(
            f"{shown} is not a requirement: it holds a NUL or more than {_DEEPEST} parentheses."
        )


def _read_by_packaging(text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Parsed

    try:
        parsed = Parsed(text)
    except InvalidRequirement as error:
        raise RequestError(_describe_unreadable(text, str(error).splitlines()[0])) from None
    extras = _split_extras(",".join(parsed.extras))
    marker = str(parsed.marker or "")
    return Requirement(
        text, canonical_name(parsed.name), extras, str(parsed.specifier), marker, parsed.url or ""
    )


def _describe_unreadable(text: str, reason: str) -> str:
    """Say why a text is no requirement; a single = is how conda and shells write it."""
    name, _, version = text.partition("=")
    if re.fullmatch(rf"\s*{_NAME}\s*", name, re.ASCII) and version and not version.startswith("="):
        return (
            f"{text[:60]!r} is not a requirement. Did you mean {name.strip()}=={version.strip()}?"
        )
    return f"{text[:60]!r} is not a requirement such as tensorflow==2.15.* ({reason})."
