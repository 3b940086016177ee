"""Refresh the built-in matrix from the local index as the command does, without printing."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from envcheck.host.pip_settings import IndexSettings
from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.reader import Cache, Reader
from envcheck.matrix.refresh.refresh import (
    RefreshResult,
    drop_unused_citations,
    first_releases,
    list_framework,
    refresh,
)
from tests.matrix.documents import changed_copy, document
from tests.matrix.index.server import LocalIndex, recorded
from tests.patience import PATIENCE

# companions, too
FRAMEWORKS = ("jax", "keras", "onnxruntime", "tensorflow", "tensorflow-metal", "tensorrt", "torch")


def reader(index: LocalIndex, cache: Path | None = None, **settings: Any) -> Reader:
    asked = {"connect_timeout": PATIENCE, "read_timeout": PATIENCE, "retries": 0, **settings}
    return Reader(IndexSettings(url=index.url, **asked), Cache(cache) if cache else None)


def renew(
    index: LocalIndex,
    old: dict[str, Any],
    *frameworks: str,
    since: str = "",
    cache: Path | None = None,
    today: str = "",
    **settings: Any,
) -> RefreshResult:
    opened = reader(index, cache, **settings)
    try:
        listings = [list_framework(opened, name, since) for name in frameworks or FRAMEWORKS]
        found = refresh(
            old, listings, opened, today or document()["checked"], lambda done, total: None
        )
        return found if today else dated_as_before(found)
    finally:
        opened.close()


def dated_as_before(found: RefreshResult) -> RefreshResult:
    """Give citations that say what the built-in matrix says their date there: rows were read on several days."""
    citations = found.document["citations"]
    for name, body in citations.items():
        known = document()["citations"].get(name, {})
        if {**body, "checked": ""} == {**known, "checked": ""}:
            citations[name] = known
    return found


@cache
def part(framework: str) -> str:
    """Return the built-in matrix with the releases of one framework, in canonical form."""
    changed = changed_copy()
    releases = changed["releases"]
    changed["releases"] = {name: releases[name] if name == framework else {} for name in releases}
    drop_unused_citations(changed)
    return format_document(changed)


def without(framework: str, *versions: str) -> dict[str, Any]:
    """Return the part of the built-in matrix on a framework, without some of its releases.

    A refresh of one framework leaves the others alone, so they would only be copied and written.
    """
    changed: dict[str, Any] = json.loads(part(framework))
    for version in versions:
        del changed["releases"][framework][version]
    drop_unused_citations(changed)
    return changed


def spoil_all(index: LocalIndex, start: str, ending: str) -> None:
    """Give every wheel of a group the METADATA of another release."""
    for name in [name for name in index.wheels if name.startswith(start) and name.endswith(ending)]:
        index.archives[name] = index.archive("tensorflow-2.20.0-cp313-cp313-win_amd64.whl")


def recorded_versions(framework: str) -> list[str]:
    """List the releases of a framework that the local index has."""
    distributions = first_releases(framework)
    parts = (name.split("-")[:2] for name in recorded()["wheels"])
    listed = {version for name, version in parts if canonicalize_name(name) in distributions}
    return sorted(set(document()["releases"][framework]) & listed)
