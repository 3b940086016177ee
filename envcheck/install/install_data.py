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
    compiled = 1 + install_data()["room"]["compiled_percent"] / 100
    return sum(
        max(int(row["wheels_mib"] + row["unpacked_mib"] * compiled) for row in _measured(release)) * _MIB
        for release in plan.releases
    )


def packed_room_for(plan: Plan) -> int:
    """Return the bytes that the wheels of a plan's packages take by themselves."""
    return sum(max(int(row["wheels_mib"]) for row in _measured(release)) * _MIB for release in plan.releases)


def _measured(release: PlannedRelease) -> list[dict[str, Any]]:
    """List the rows of a release, or where it was not measured those of its kind."""
    rows = install_data()["room"]["rows"]
    same = [row for row in rows if (row["framework"], row["build"]) == (release.framework, release.build)]
    return [row for row in same if row["release"] == release.version.partition("+")[0]] or same
