"""Which nvidia-* wheel holds which library, and which of them share a folder."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.rows import build_citation
from envcheck.model.findings import Citation


def wheel_of(soname: str) -> str:
    """Name the wheel of a library without its CUDA suffix: libcublasLt.so.12 -> nvidia-cublas; "" for none."""
    return str(_data()["libraries"].get(soname.partition(".so")[0], ""))


def sharing_wheels() -> tuple[str, ...]:
    """List the wheels, without CUDA suffix, whose builds for all CUDA majors lie in one folder."""
    return tuple(_data()["one_folder_for_all_majors"])


def bare_wheel(name: str) -> tuple[str, str]:
    """Split a wheel whose builds for all CUDA majors lie in one folder: nvidia-cudnn-cu12 -> ("nvidia-cudnn", "12").

    The CUDA of any other is "".
    """
    match = re.fullmatch(r"(.+?)-cu(\d+)", name)
    return (match[1], match[2]) if match and match[1] in sharing_wheels() else (name, "")


def wheels_citation() -> Citation:
    """Return what these names rest on."""
    return build_citation(_data()["citation"])


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(read_data("cuda_wheels.json"))
    return loaded
