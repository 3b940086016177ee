"""What an installation needs beside the plan: the room its packages take."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.model.plans import Plan

_MIB = 1 << 20


@lru_cache(maxsize=1)
def install_data() -> dict[str, Any]:
    """Read data/install.json."""
    loaded: dict[str, Any] = json.loads(read_data("install.json"))
    return loaded


def room_for(plan: Plan) -> int:
    """Return the bytes that a plan's packages take, unpacked, with what their installation needs for a while."""
    rows = install_data()["room"]["rows"]
    named = {(row["framework"], row["build"]): int(row["mib"]) for row in rows}
    return sum(named[release.framework, release.build] for release in plan.releases) * _MIB
