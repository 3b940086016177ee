"""Read the lines of data/compat_matrix.json and data/packages/.

One line stands for several equal rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Line = Mapping[str, Any]


def unfold(line: Line) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a line, one for each of its releases and platforms, each after its release.

    "pythons": "2.7 3.8-3.12" is 2.7, 3.8, 3.9, 3.10, 3.11 and 3.12; in "tags" * stands for the
    platform's processor: manylinux_2_28_* of linux_x86_64 is manylinux_2_28_x86_64. A line without
    "cuda_build" is no build for CUDA.
    """
    cells = {"cuda_build": False, **line}
    releases, platforms = cells.pop("releases"), cells.pop("platforms")
    for name in ("pythons", "free_threaded"):
        if name in cells:
            cells[name] = []
            for part in line[name].split():
                first, _, last = part.partition("-")
                major, first_minor = first.split(".")
                last_minor = (last or first).split(".")[1]
                cells[name] += [
                    f"{major}.{minor}" for minor in range(int(first_minor), int(last_minor) + 1)
                ]
    for release in releases:
        for platform in platforms:
            processor = platform.partition("_")[2]
            tags = [tag.replace("*", processor) for tag in cells["tags"]]
            yield release, {**cells, "platform": platform, "tags": tags}


def group_lines(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Map each release, oldest first, to the lines that stand for it."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        for release in line["releases"]:
            found.setdefault(release, []).append(line)
    return {release: found[release] for release in sorted(found, key=_sort_key)}


def unfold_release(release: str, lines: Iterable[Line]) -> list[dict[str, Any]]:
    """List the rows of one release, by distribution and platform."""
    rows = [row for line in lines for _, row in unfold({**line, "releases": [release]})]
    return sorted(rows, key=lambda row: (row["distribution"], row["platform"]))


def _sort_key(version: str) -> tuple[int, ...]:
    """Return what orders final releases and their post-releases."""
    return tuple(map(int, re.findall(r"\d+", version)))
