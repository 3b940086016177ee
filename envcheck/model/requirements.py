"""Read requirements as PEP 508 writes them: torch[extra]>=2.6,<3; marker.

A plain one is read here. Anything else is read by packaging, which takes as long to import as all
of this program.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Mapping, Optional, Tuple

from envcheck.model.records import dataclass, replace
from envcheck.model.specifiers import Clause, clauses, within
from envcheck.model.text import RequestError, canonical_name

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

    def joined(self, other: "Requirement") -> "Requirement":
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
