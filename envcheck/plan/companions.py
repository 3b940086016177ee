"""What people install beside a framework: which release of it goes with which of the framework's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.query import Matrix
from envcheck.matrix.versions import within
from envcheck.model.records import replaced
from envcheck.model.releases import FrameworkRelease
from envcheck.plan.candidates import candidates
from envcheck.plan.choose import Choice
from envcheck.plan.constraints import python_minor
from envcheck.rules.builds import label_cuda
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


def on_index(context: Context, release: FrameworkRelease, texts: Iterable[str], local: str) -> bool:
    """Tell whether the index of a build (cu126) holds what goes beside it: as for the first torch that it was for."""
    cuda = label_cuda(local)
    known = {name: _known(context, release, name) for name in map(name_of, texts)} if cuda else {}
    return all(
        any(cuda in _built_for(context, name, item) for item in known[name] or ()) for name in known if known[name]
    )


def _built_for(context: Context, name: str, version: str) -> Iterable[str]:
    fits = _row(name)["fits"]
    first = next((torch for torch in reversed(fits) if version in fits[torch]), "")
    row = context.matrix.release("torch", first, context.platform, "torch")
    return row.variants if row else ()


def unknown(context: Context, release: FrameworkRelease, texts: Iterable[str]) -> tuple[str, ...]:
    """List the names of which nothing here tells what goes with a release."""
    return tuple(name for name in map(name_of, texts) if _known(context, release, name) is None)


def held_back(context: Context, choice: Choice) -> Iterator[str]:
    """Say that a newer release was left out for what is asked for beside it."""
    newest = next(candidates(context, replaced(choice.request, beside=())), None)
    taken = choice.best.candidate.row.version if choice.best else ""
    told = {item.requirement.partition("==")[2].partition("+")[0] for item in choice.rejected}
    if newest is not None and newest.row.version not in (taken, *told):
        row, names = newest.row, " and ".join(map(name_of, choice.request.beside))
        yield f"{row.distribution} {row.version} is newer: no {names} known here has a wheel for it and this Python."


def _known(context: Context, release: FrameworkRelease, name: str) -> tuple[str, ...] | None:
    """List the versions that go with a release here, newest first; None where nothing tells."""
    listed = _row(name)["fits"].get(release.version)
    if listed:
        return tuple(item for item in listed if _has_wheel(context, name, item))
    if release.framework != "tensorflow":
        return None
    required, minor = release.requires.get(name, ""), python_minor(context)
    rows = _going_with(context.matrix, name, release.version, context.platform)
    same = (row for row in rows if within(row.version, required))
    found = tuple(row.version for row in same if row.platform == "any" or minor in row.pythons)
    return found if found or _is_closed(context.matrix, name) else None


@lru_cache(maxsize=512)
def _going_with(matrix: Matrix, name: str, tensorflow: str, platform: str) -> tuple[FrameworkRelease, ...]:
    """List the matrix's releases of it that go with a TensorFlow: many Pythons may be tried for each."""
    return tuple(row for row in matrix.companions_of(tensorflow, platform) if row.distribution == name)


def _has_wheel(context: Context, name: str, version: str) -> bool:
    """Tell whether a release of it has a wheel for this platform and Python; what is not listed has all."""
    listed = [row for row in _row(name).get("wheels", ()) if version in row["versions"]]
    here = (row for row in listed if context.platform in row["platforms"])
    return not listed or any(python_minor(context) in row["pythons"] for row in here)


@lru_cache(maxsize=16)
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
