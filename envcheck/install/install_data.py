"""What an installation needs beside the plan: the room its packages take."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.model.plans import Plan, PlannedRelease

_MIB = 1 << 20


@lru_cache(maxsize=1)
def install_data() -> dict[str, Any]:
    """Read data/install.json."""
    loaded: dict[str, Any] = json.loads(read_data("install.json"))
    return loaded


def room_for(plan: Plan) -> int:
    """Return the bytes that a plan's packages take, packed and unpacked: of the release, or the largest measured."""
    return sum(_mib(release) for release in plan.releases) * _MIB


def _mib(release: PlannedRelease) -> int:
    room = install_data()["room"]
    rows = [row for row in room["rows"] if (row["framework"], row["build"]) == (release.framework, release.build)]
    measured = [row for row in rows if row["release"] == release.version.partition("+")[0]] or rows
    compiled = 1 + room["compiled_percent"] / 100
    return max(int(row["wheels_mib"] + row["unpacked_mib"] * compiled) for row in measured)
