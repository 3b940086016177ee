"""How commands and requirements files name what they install."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.host.data_files import load_data
from envcheck.model import dataclass


@dataclass
class Installers:
    """The content of data/program/installers.json: tables of words, by what they mean."""

    tables: Mapping[str, Mapping[str, tuple[str, ...]]]


def installer_words(table: str) -> Mapping[str, tuple[str, ...]]:
    """Return a table of data/program/installers.json."""
    return load_data("program/installers", Installers).tables[table]


def find_meaning(table: str, word: str) -> str:
    """Return what a word means in a table; "" where that does not hold it."""
    return next((name for name, words in installer_words(table).items() if word in words), "")


def kind_of_value(option: str, tool: str = "pip") -> str:
    """Say what an option's value is; "" for a flag."""
    own = find_meaning("conda_values", option) if tool == "conda" else ""
    return own or find_meaning("values", option)
