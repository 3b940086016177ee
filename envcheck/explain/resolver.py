"""Read from a resolver's words which two requirements exclude each other, and which releases fit.

pip, uv, Poetry, PDM and conda each word who requires what, in sentences of one form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from envcheck.matrix.query import Matrix
from envcheck.model import Remedy, dataclass
from envcheck.model.text import canonical_name
from envcheck.model.versions import can_be_met

_NAME = r"(?:__)?[A-Za-z][\w.-]*(?:\[[\w,.-]+\])?"
_BOUND = r"[<>=!~]{1,3} ?[\w.*+!]*\w"
_RANGE = rf"(?P<range>{_BOUND}(?:(?:, ?| and ){_BOUND})*)"
_OF = rf"(?: ?\({_BOUND}\)| \([\w.]+\)|{_BOUND}(?:,{_BOUND})*| \d[\w.+!]*)"  # which release it is
_WHAT = rf"(?P<what>{_NAME}) ?\(?{_RANGE}"
_BUILD = r"(?P<release>[<>=]{0,2}\d[\w.*|]*)"
_REQUIRES = r"(?:is not installable because it requires|would require)"
_ONE = rf"{_NAME}{_BOUND}(?:,{_BOUND})*"
_DEMANDS = (
    # midware 1.0 depends on numpyx<2; vllm==0.6.0 depends on torch==2.4.0; tensorflow (2.12.0)
    # depends on numpy (<2.0); all versions of needs2 depend on numpyx>=2
    rf"(?P<who>{_NAME})(?P<release>{_OF}?) depends? on {_WHAT}",
    rf"(?P<what>{_NAME}){_RANGE} \(from (?P<who>{_NAME})(?P<release>@[\w.+!]+)?\)",
    rf"(?:you require|[Tt]he user requested(?: \(constraint\))?) {_WHAT}",
    rf"you require [^,]*? and {_WHAT}",
    # uv: tensorflow==2.18.1 depends on one of: protobuf>=3.20.3,<4.21.0 protobuf>4.21.5,<6
    rf"(?P<who>{_NAME})(?P<release>{_OF}?) depends on one of: (?P<several>(?:{_ONE} )+)",
    # Poetry names one release alone: app depends on torch (2.4.0)
    rf"(?P<who>{_NAME})(?P<release>{_OF}?) depends on (?P<what>{_NAME}) \((?P<only>\d[\w.]*)\)",
    # conda: package pytorch-2.3.0-py3.12_0 requires pytorch-cuda >=12.1,<12.2, but none of ...;
    # python 3.13** is requested; pytorch 2.4.0 would require python >=3.11,<3.12.0a0
    rf"package (?P<who>{_NAME}?)-(?P<release>\d[\w.]*)-\S+ requires {_WHAT}",
    # pytorch-cuda =12.4 * is not installable because it requires __cuda >=12.4 *, which conflicts
    rf"(?P<who>{_NAME}) {_BUILD}(?: [\w*.]+)? {_REQUIRES} {_WHAT}",
    rf"(?P<what>{_NAME}) (?P<line>\d[\d.]*)\*\* is requested",
    # uv: the requested Python version (>=3.8) does not satisfy Python>=3.9
    r"requested (?P<what>Python) version \(>=(?P<line>3\.\d+)[^)]*\) does not satisfy",
    rf"(?P<what>{_NAME}) {_RANGE}(?: [\w*.]+)? is requested",
)
# Who speaks, by a word of its own.
_TOOLS = {
    "pip": r"\bResolutionImpossible\b|these package versions have conflicting dependencies",
    "conda": r"libmamba|would require|none of the providers|is not installable because",
    "poetry": r"version solving failed|is forbidden",
    "pdm": r"Unable to find a resolution|\(from (?:project|[\w.-]+@[\w.+!]+)\)",
    # what no project's file asks for was typed: uv pip install
    "uv pip": r"\buv pip\b|\byou require\b.*we can conclude|conclude that your requirements are",
    "uv": r"we can conclude|No solution found when resolving",
}
# of uv: what follows from the demands
_CONCLUSION = r"we can conclude that .*?(?:\.(?= )|(?= And because )|\.?$)"
_DRAWN = "[\u2502\u2570\u2500\u25b6\u00d7\u251c\u2514|]"  # how uv draws its tree
_OWN = ("project", "root", "you")  # the user's own requirement


@dataclass
class Demand:
    """What one package, or the user, requires of another."""

    requirer: str  # "vllm 0.6.0"; "" for the user's own requirement
    package: str
    releases: str  # specifier: "==2.4.0"

    @property
    def name(self) -> str:
        """Name the package that requires it; "" for the user."""
        return self.requirer.partition(" ")[0]

    @property
    def release(self) -> str:
        """Return the release of the package that requires it: "0.6.0", ">=0.20"."""
        return self.requirer.partition(" ")[2]

    @property
    def pin(self) -> str:
        """Write who requires it as a requirement; "" for the user."""
        return f"{self.name}{'==' if self.release[:1].isdigit() else ''}{self.release}"

    def is_alternative(self, other: Demand) -> bool:
        """Return whether a package requires one of several releases, and this is one of them."""
        return bool(self.name) and (self.name, self.package) == (other.name, other.package)

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
    tool: str = "pip"

    @property
    def demanded(self) -> Demand:
        """Return the demand of a package; the other one may be the user's, or the machine's."""
        return self.second if self.second.requirer else self.first

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
                f" {theirs[0].name} that takes the {package} you want. Nothing was"
                " installed."
            )
        if not theirs:
            return Remedy(
                f"Keep one of your two requirements on {package}; one may stand in a constraints"
                " file. Nothing was installed."
            )
        names = " and ".join(item.name for item in theirs)
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
    if not re.search(r" depends? on | \(from |you require | user requested | requires? ", whole):
        return None
    text = " ".join(re.sub(_DRAWN, " ", whole).split())
    tool = next((name for name, words in _TOOLS.items() if re.search(words, text)), "pip")
    found = list(_list_demands(re.sub(_CONCLUSION, ". ", text)))
    for number, first in enumerate(found):
        for second in found[number + 1 :]:
            if first.package == second.package and _exclude_each_other(first, second):
                sides = [
                    [item for item in found if item.is_alternative(side)] or [side]
                    for side in (first, second)
                ]
                if all(_exclude_each_other(one, other) for one, other in product(*sides)):
                    return Clash(sides[0][-1], sides[1][-1], tool)
    return None


def _list_demands(text: str) -> Iterator[Demand]:
    hits = [match for pattern in _DEMANDS for match in re.finditer(pattern, text)]
    for match in sorted(hits, key=lambda hit: hit.start()):
        parts = match.groupdict()
        who, release = parts.get("who") or "", (parts.get("release") or "").strip(" ()=@")
        requirer = "" if who in _OWN else f"{who} {release}".strip()
        asked = [(parts.get("what") or "", parts.get("range") or "")]
        if parts.get("several"):
            asked = re.findall(rf"({_NAME})({_BOUND}(?:,{_BOUND})*)", parts["several"])
        elif parts.get("only"):
            asked = [(parts["what"], f"=={parts['only']}")]
        elif parts.get("line"):
            asked = [(parts["what"], f"=={parts['line']}.*")]
        for what, releases in asked:
            package = what.partition("[")[0]
            package = package if package.startswith("__") else canonical_name(package)
            yield Demand(requirer, package, releases.replace(" and ", ",").replace(" ", ""))


def _exclude_each_other(first: Demand, second: Demand) -> bool:
    if first.requirer and first.name == second.name:
        return False  # two releases of one package, of which either would do
    try:
        return not can_be_met(f"{first.releases},{second.releases}")
    except ValueError:  # a range that no tool would have read either
        return False


def find_fitting_releases(clash: Clash, matrix: Matrix) -> tuple[str, ...]:
    """Name releases that fit each other: of a companion for the framework that is asked for.

    Where the matrix has none, what the statement itself leaves. Return () for neither.
    """
    demands = (clash.first, clash.second)
    for moved, kept in (demands, demands[::-1]):
        version = _find_companion(matrix, moved, kept) if moved.requirer else ""
        if version:
            there = kept.pin if kept.release else f"{kept.package}{kept.releases}"
            return (there, f"{moved.name}=={version}")
    theirs = [item for item in demands if item.requirer]
    if len(theirs) == 1 and theirs[0].release:
        return (theirs[0].pin, f"{theirs[0].package}{theirs[0].releases}")
    return ()


def _find_companion(matrix: Matrix, moved: Demand, kept: Demand) -> str:
    """Return the newest release of a companion that takes the framework which another keeps."""
    framework = matrix.framework_of(kept.package)
    if not framework or not matrix.companion_of(moved.name):
        return ""
    pins = matrix.companion_pins(framework, moved.name)
    fits = (
        version for version, pin in pins.items() if pin and can_be_met(f"{pin},{kept.releases}")
    )
    return next(fits, "")
