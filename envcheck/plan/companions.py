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
from envcheck.plan.constraints import python_minor
from envcheck.rules.context import Context
from envcheck.rules.known_problems import name_of


def frameworks_beside(name: str) -> tuple[str, ...]:
    """List the frameworks that a distribution comes beside, the usual one first; () for any other."""
    return tuple(_row(name).get("frameworks", ()))


def required_name(text: str) -> str:
    """Return the one name under which something beside a framework requires it; "" where it takes any or says none.

    tf-keras requires tensorflow: beside tensorflow-cpu it would bring a second one into the same folder.
    """
    return str(_row(name_of(text)).get("requires", ""))


def fitting(context: Context, release: FrameworkRelease, texts: Iterable[str]) -> tuple[str, ...] | None:
    """Write what goes with a release here for each text asked for; None where none of one of them does."""
    found = []
    for text in texts:
        name = name_of(text)
        asked, known = text.removeprefix(name), _known(context, release, name)
        fits = not (asked and _row(name)["fits"]) if known is None else any(within(item, asked) for item in known)
        if not fits:
            return None
        # The one that fits is named; what leaves several is left to their own requirement on the framework.
        found.append(f"{name}=={known[0]}" if known and len(known) == 1 else text)
    return tuple(found)


def unknown(context: Context, release: FrameworkRelease, texts: Iterable[str]) -> tuple[str, ...]:
    """List the names of which nothing here tells what goes with a release."""
    return tuple(name for name in map(name_of, texts) if _known(context, release, name) is None)


def _known(context: Context, release: FrameworkRelease, name: str) -> tuple[str, ...] | None:
    """List the versions that go with a release here, newest first; None where nothing tells."""
    listed = _row(name)["fits"].get(release.version)
    if listed:
        return tuple(item for item in listed if _has_wheel(context, name, item))
    if release.framework != "tensorflow":
        return None
    required, minor = release.requires.get(name, ""), python_minor(context)
    rows = context.matrix.companions_of(release.version, context.platform)
    same = (row for row in rows if row.distribution == name and within(row.version, required))
    found = tuple(row.version for row in same if row.platform == "any" or minor in row.pythons)
    return found if found or _is_closed(context.matrix, name) else None


def _has_wheel(context: Context, name: str, version: str) -> bool:
    """Tell whether a release of it has a wheel for this platform and Python; what is not listed has all."""
    listed = [row for row in _row(name).get("wheels", ()) if version in row["versions"]]
    here = (row for row in listed if context.platform in row["platforms"])
    return not listed or any(python_minor(context) in row["pythons"] for row in here)


def _is_closed(matrix: Matrix, name: str) -> bool:
    """Tell whether the matrix says of every release of it which TensorFlow it goes with: there are no others."""
    body = matrix.companion_of(name)
    rows = [row for row in matrix.releases(body) if row.distribution == name] if body else []
    return bool(rows) and all(row.tensorflow for row in rows)


def _row(name: str) -> dict[str, Any]:
    return next((row for row in _rows() if name in row["names"]), {})


@lru_cache(maxsize=1)
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(read_data("companions.json"))["rows"]
    return rows
