"""The environment variables that decide anything: what they do, and what is kept of them."""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Variables
from envcheck.model import Citation, dataclass

HIDDEN = "<set>"  # the value of an unknown variable: it could be a secret


@dataclass
class VariableEffect:
    """What some values of variables do to a package.

    End its import or its first use, change results, or rescue it.
    """

    names: Tuple[str, ...]
    package: str  # the distribution that reads them; "python": the interpreter
    effect: str  # import, use, results, rescue
    grammar: str  # which values it takes, in words
    citation: Citation
    accepts: str = ""  # pattern of the values it takes: each other one has the effect
    default: str = ""  # the framework that a package takes by itself, where it takes one of several
    values: str = ""  # or pattern of the values that have it
    fails: str = ""  # what it says then
    releases: str = ""  # of the package; "" all
    frameworks: Tuple[str, ...] = ()  # whose import loads the package
    may_work: bool = False  # some other values are right, too: which, nobody knows
    needs: str = ""  # distribution of its frameworks' minor, beside which nothing of this happens


@dataclass
class WordList:
    """A variable that names what a release has.

    A word that no file of it holds ends the program.
    """

    name: str
    package: str
    words: str  # pattern of the words in its value
    usual: Tuple[str, ...]  # not looked up
    files: Tuple[str, ...]  # below site-packages; the first that is there holds them all


@dataclass
class KnownVariables:
    """The content of data/program/environment_variables.json."""

    prefixes: Tuple[str, ...]  # of other variables with these prefixes, only the name is kept
    variables: Mapping[str, str]  # name -> what it does
    effects: Tuple[VariableEffect, ...]
    words: Tuple[WordList, ...]


def load_known_variables() -> KnownVariables:
    """Load the one table of variables."""
    return load_data("program/environment_variables", KnownVariables)


def keep_known_variables(environment: Variables) -> Dict[str, str]:
    """Return the known variables with their values, and others with a known prefix without."""
    data = load_known_variables()
    kept: Dict[str, str] = {}
    for name, value in sorted(environment.items()):
        if name in data.variables:
            kept[name] = value
        elif name.startswith(data.prefixes):
            kept[name] = HIDDEN
    return kept
