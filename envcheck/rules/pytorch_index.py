"""The CUDA variants of PyTorch on its own package index."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from packaging.version import InvalidVersion, Version

from envcheck.host.data_files import read_data
from envcheck.rules.builds import Build


def serves(version: str, platform: str) -> bool:
    """Tell whether the index has CUDA builds of a torch release for a platform."""
    first = _data()["served"].get(platform)
    try:
        return first is not None and Version(version) >= Version(first)
    except InvalidVersion:
        return False


def cuda_variants(version: str) -> tuple[str, ...]:
    """List the CUDA versions a torch release is published for, newest first; empty when not recorded."""
    line = ".".join(version.split(".")[:2])
    return tuple(reversed(_data()["variants"].get(line, ())))


def index_url(cuda: str) -> str:
    """Return the index of a CUDA variant: 12.6 -> .../cu126."""
    return f"{_data()['url']}cu{cuda.replace('.', '')}"


def local_index(build: Build) -> str:
    """Return the index that a torch build with a local version such as +cu126 came from; "" for the default one."""
    match = re.fullmatch(r"cu\d{2,3}", build.local)
    return f"{_data()['url']}{match.group()}" if match and build.framework == "torch" else ""


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(read_data("pytorch_index.json"))
    return loaded
