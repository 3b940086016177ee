"""What the name of a public container image says of its contents, by data/base_images.json."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from envcheck.frameworks import framework, framework_names
from envcheck.host.data_files import read_data


@lru_cache(maxsize=1)
def conventions() -> dict[str, Any]:
    """Return the table of naming conventions."""
    table: dict[str, Any] = json.loads(read_data("base_images.json"))
    return table


def parse_reference(reference: str) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Read an image reference such as pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime; None for one of no known kind.

    Returns the row of the table and the parts by its names: torch 2.4.0, cuda 12.4, cudnn 9, flavor runtime.
    """
    name = reference.split("@", 1)[0]
    repository, _, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "")
    for row in conventions()["images"]:
        place = re.fullmatch(row["repository"], repository)
        said = re.fullmatch(row["tag"], tag)
        if place and said:
            return row, {key: value or "" for key, value in {**said.groupdict(), **place.groupdict()}.items()}
    return None


def framework_in(reference: str) -> tuple[str, str, str] | None:
    """Name the distribution, its version and its CUDA that an image is made of; None where its name tells none.

    The CUDA is "" where the name does not tell it, and "cpu" for an image without.
    """
    found = parse_reference(reference)
    parts = found[1] if found else {}
    name = next((name for name in framework_names() if parts.get(name)), "")
    if not name:
        return None
    is_for_gpu = bool(parts.get("gpu") or parts.get("cuda"))
    known = framework(name)
    if known.index:
        return name, parts[name], parts.get("cuda", "")
    return known.distribution_in_image(parts[name], for_gpu=is_for_gpu), parts[name], "" if is_for_gpu else "cpu"
