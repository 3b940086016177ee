"""The environment variables that decide how a framework finds and uses a GPU."""

from __future__ import annotations

import json
from typing import Dict, Mapping

from envcheck.host.data_files import read_data
from envcheck.host.protocol import Host
from envcheck.model.facts import Fact, Known, Source

_DATA = "environment_variables.json"
HIDDEN = "<set>"  # stands for the value of a variable we do not know: it might be anything


def relevant_environment(host: Host) -> Fact[Mapping[str, str]]:
    """Return the known variables with their values, and by name only others that bear a known prefix."""
    data = json.loads(read_data(_DATA))
    known, prefixes = data["variables"], tuple(data["prefixes"])
    kept: Dict[str, str] = {}
    for name, value in sorted(host.environment().items()):
        if name in known:
            kept[name] = value
        elif name.startswith(prefixes):
            kept[name] = HIDDEN
    return Known(kept, Source("env", "environment"))
