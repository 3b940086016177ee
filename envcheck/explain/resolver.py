"""Read from a resolver's words which two requirements exclude each other.

pip, uv, Poetry and PDM each word who requires what, in sentences of one form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envcheck.model import Remedy, dataclass
from envcheck.model.specifiers import can_be_met
from envcheck.model.text import canonical_name

_NAME = r"[A-Za-z][\w.-]*(?:\[[\w,.-]+\])?"
_BOUND = r"[<>=!~]{1,3} ?[\w.*+!]*\w"
_RANGE = rf"(?P<range>{_BOUND}(?:(?:, ?| and ){_BOUND})*)"
_OF = rf"(?: ?\({_BOUND}\)| \([\w.]+\)|{_BOUND}| \d[\w.+!]*)"  # which release it is
_WHAT = rf"(?P<what>{_NAME}) ?\(?{_RANGE}"
_DEMANDS = (
    # midware 1.0 depends on numpyx<2; vllm==0.6.0 depends on torch==2.4.0; tensorflow (2.12.0)
    # depends on numpy (<2.0); all versions of needs2 depend on numpyx>=2
    rf"(?P<who>{_NAME})(?P<release>{_OF}?) depends? on {_WHAT}",
    rf"(?P<what>{_NAME}){_RANGE} \(from (?P<who>{_NAME})(?P<release>@[\w.+!]+)?\)",
    rf"(?:you require|[Tt]he user requested(?: \(constraint\))?) {_WHAT}",
    rf"you require [^,]*? and {_WHAT}",
)
_CONCLUSION = r"we can conclude that .*?(?:\.(?= )|\.?$)"  # of uv: what follows from the demands
_DRAWN = "[\u2502\u2570\u2500\u25b6\u00d7|]"  # how uv draws its tree
_OWN = ("project", "root", "you")  # the user's own requirement


@dataclass
class Demand:
    """What one package, or the user, requires of another."""

    requirer: str  # "vllm 0.6.0"; "" for the user's own requirement
    package: str
    releases: str  # specifier: "==2.4.0"

    @property
    def text(self) -> str:
        """Write the demand as a clause."""
        asked = f"{self.package}{self.releases}"
        return f"{self.requirer} needs {asked}" if self.requirer else f"you ask for {asked}"


@dataclass
class Clash:
    """Two demands on one package that exclude each other."""

    first: Demand
    second: Demand

    @property
    def message(self) -> str:
        """Say which two requirements clash."""
        if not self.first.requirer and not self.second.requirer:
            asked = f"{self.second.package}{self.second.releases}"
            return f"Y{self.first.text[1:]} and for {asked}."
        text = f"{self.first.text}, but {self.second.text}."
        return text[0].upper() + text[1:] if text.startswith("you") else text

    @property
    def remedy(self) -> Remedy:
        """Say which of the two can give way."""
        package = self.first.package
        theirs = [item for item in (self.first, self.second) if item.requirer]
        if len(theirs) == 1:
            return Remedy(
                f"Ask for {package}{theirs[0].releases}, or for a release of"
                f" {theirs[0].requirer.split()[0]} that takes the {package} you want. Nothing was"
                " installed."
            )
        if not theirs:
            return Remedy(
                f"Keep one of your two requirements on {package}; one may stand in a constraints"
                " file. Nothing was installed."
            )
        names = " and ".join(item.requirer.split()[0] for item in theirs)
        return Remedy(
            f"Ask for releases of {names} that need the same {package}, or keep them in separate"
            " environments. Nothing was installed."
        )


def read_clash(lines: Sequence[str]) -> Clash | None:
    """Return the first two demands on one package that no release meets both.

    Sample: "Because vllm==0.6.0 depends on torch==2.4.0 and your project depends on torch>=2.6, we
    can conclude that your project's requirements are unsatisfiable."
    """
    whole = " ".join(lines)
    if not re.search(r" depends? on | \(from |you require | user requested ", whole):
        return None
    text = " ".join(re.sub(_DRAWN, " ", whole).split())
    found = list(_list_demands(re.sub(_CONCLUSION, ". ", text)))
    for number, first in enumerate(found):
        for second in found[number + 1 :]:
            if first.package == second.package and _exclude_each_other(first, second):
                return Clash(first, second)
    return None


def _list_demands(text: str) -> Iterator[Demand]:
    hits = [match for pattern in _DEMANDS for match in re.finditer(pattern, text)]
    for match in sorted(hits, key=lambda hit: hit.start()):
        parts = match.groupdict()
        who, release = parts.get("who") or "", (parts.get("release") or "").strip(" ()=@")
        requirer = "" if who in _OWN else f"{who} {release}".strip()
        package = canonical_name(parts["what"].partition("[")[0])
        yield Demand(requirer, package, parts["range"].replace(" and ", ",").replace(" ", ""))


def _exclude_each_other(first: Demand, second: Demand) -> bool:
    name = first.requirer.partition(" ")[0]
    if name and name == second.requirer.partition(" ")[0]:
        return False  # two releases of one package, of which either would do
    try:
        return not can_be_met(f"{first.releases},{second.releases}")
    except ValueError:  # a range that no tool would have read either
        return False
