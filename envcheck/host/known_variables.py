"""The environment variables that decide anything.

What is kept of them, and of others by their names alone.
"""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

from envcheck.host.data_files import load_data
from envcheck.model import dataclass

HIDDEN = "<set>"  # the value of an unknown variable: it could be a secret


@dataclass
class KnownVariables:
    """The content of data/program/environment_variables.json."""

    prefixes: Tuple[str, ...]  # of other variables with these prefixes, only the name is kept
    variables: Mapping[str, str]  # name -> what it does


def keep_known_variables(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the known variables with their values, and others with a known prefix without."""
    data = load_data("program/environment_variables", KnownVariables)
    kept: Dict[str, str] = {}
    for name, value in sorted(environment.items()):
        if name in data.variables:
            kept[name] = value
        elif name.startswith(data.prefixes):
            kept[name] = HIDDEN
    return kept
