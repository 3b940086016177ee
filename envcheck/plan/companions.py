"""What people install beside a framework: which release of it goes with which of the framework's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.clauses import within
from envcheck.matrix.query import Matrix
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.known_problems import name_of


def frameworks_beside(name: str) -> tuple[str, ...]:
    """List the frameworks that a distribution comes beside, the usual one first; () for any other."""
    return tuple(_row(name).get("frameworks", ()))


def required_name(text: str) -> str:
    """Return the one name under which something beside a framework requires it; "" where it takes any or says none.

    tf-keras requires tensorflow: beside tensorflow-cpu it would bring a second one into the same folder.
    """
    return str(_row(name_of(text)).get("requires", ""))


def fitting(matrix: Matrix, release: FrameworkRelease, texts: Iterable[str]) -> tuple[str, ...] | None:
    """Write what goes with a release for each text asked for; None where one of them goes with others alone."""
    found = []
    for text in texts:
        name = name_of(text)
        asked, known = text.removeprefix(name), _known(matrix, release, name)
        fits = any(within(item, asked) for item in known) if known else not (asked and _row(name)["fits"])
        if not fits:
            return None
        # The one that fits is named; what leaves several is left to their own requirement on the framework.
        found.append(f"{name}=={known[0]}" if len(known) == 1 else text)
    return tuple(found)


def unknown(matrix: Matrix, release: FrameworkRelease, texts: Iterable[str]) -> tuple[str, ...]:
    """List the names of which nothing here tells what goes with a release."""
    return tuple(name for name in map(name_of, texts) if not _known(matrix, release, name))


def _known(matrix: Matrix, release: FrameworkRelease, name: str) -> tuple[str, ...]:
    """List the versions that go with a release, newest first; () where nothing tells."""
    listed = _row(name)["fits"].get(release.version)
    if listed:
        return tuple(listed)
    required = release.requires.get(name, "")
    rows = matrix.companions_of(release.version, "any") if release.framework == "tensorflow" else ()
    return tuple(item.version for item in rows if item.distribution == name and within(item.version, required))


def _row(name: str) -> dict[str, Any]:
    return next((row for row in _rows() if name in row["names"]), {})


@lru_cache(maxsize=1)
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(read_data("companions.json"))["rows"]
    return rows
