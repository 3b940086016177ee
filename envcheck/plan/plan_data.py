"""What the planner knows beside the matrix: where older CUDA libraries come from, images, exceptions."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data


@lru_cache(maxsize=1)
def plan_data() -> dict[str, Any]:
    """Read data/plan.json."""
    loaded: dict[str, Any] = json.loads(read_data("plan.json"))
    return loaded
