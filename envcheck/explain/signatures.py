"""Load the signatures: which fragments of machine-made messages envcheck knows."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Any

from envcheck.explain.events import Signature
from envcheck.host.data_files import read_data
from envcheck.model.records import adopted


@lru_cache(maxsize=1)
def load_signatures() -> tuple[Signature, ...]:
    """Read data/signatures.json; patterns stay text, see `compiled`."""
    return tuple(map(_signature, _document()["signatures"]))


@lru_cache(maxsize=1)
def signatures_by_name() -> dict[str, Signature]:
    """Map the names of the signatures to them."""
    return {item.name: item for item in load_signatures()}


@cache
def compiled(name: str) -> re.Pattern[str]:
    """Compile the pattern of a signature, once and only when a line holds one of its fragments."""
    return re.compile(signatures_by_name()[name].pattern)


@lru_cache(maxsize=1)
def noise() -> tuple[Signature, ...]:
    """List the signatures of lines that complain and mean no harm."""
    return tuple(item for item in load_signatures() if item.role == "noise")


def rivals() -> tuple[dict[str, Any], ...]:
    """List the pairs of causes that one message may have, with the command that tells them apart."""
    return tuple(_document()["rivals"])


def driver_errors() -> dict[str, str]:
    """Map the numbers with which CUDA's start may end to finding ids."""
    return dict(_document()["driver_errors"])


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(read_data("signatures.json"))
    return loaded


def _signature(row: dict[str, Any]) -> Signature:
    row["fragments"] = tuple(row["fragments"])
    row["proves"] = tuple(row.get("proves", ()))
    return adopted(Signature, row)
