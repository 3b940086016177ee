"""The table of CUDA library names, read once."""

from __future__ import annotations

import functools
import json
from typing import Any, Mapping, Tuple

from envcheck.host.data_files import read_data


@functools.lru_cache(maxsize=1)
def cuda_data() -> Mapping[str, Any]:
    """Return data/cuda_libraries.json."""
    table: Mapping[str, Any] = json.loads(read_data("cuda_libraries.json"))
    return table


def framework_names() -> Tuple[str, ...]:
    """Return the names of all distributions that hold a framework; JAX's CUDA plugins are jax-cuda* besides."""
    data = cuda_data()
    return (*data["tensorflow"]["distributions"], *data["torch"]["distributions"], *data["jax"]["distributions"])
