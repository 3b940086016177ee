"""Load the signatures: the messages that envcheck knows, and what one match holds."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.model import dataclass, make_record


@dataclass(frozen=True)
class Signature:
    """One machine-made message, as data/signatures.json describes it."""

    name: str  # kebab-case, unique: "cannot-open-shared-object"
    fragments: tuple[str, ...]  # literals; a line without any of them cannot match (the prefilter's needles)
    pattern: str  # linear-time expression with named groups, searched in the cleaned line
    finding: str  # the finding id it points to; "" when only reasoning over its captures decides
    severity: str  # error, warning, note; what the message is worth when nothing else speaks
    proves: tuple[str, ...] = ()  # captures whose value is a fact about the machine or the build that wrote the line
    role: str = "cause"  # cause, symptom (asks for a cause), context (only its captures count), noise, healthy, remedy
    weight: int = 50  # how well the message alone tells the root cause, 0 to 100: the heaviest claim is primary
    means: str = ""  # what it says about the machine, one sentence; {names} stand for captures


@dataclass(frozen=True)
class Event:
    """One message seen in a log, with what it captured; repeated messages are counted, not kept."""

    signature: str
    captures: tuple[tuple[str, str], ...]
    text: str  # the cleaned line, at most 500 characters
    file: str  # where it was read; "-" is standard input
    line: int  # 1-based number of the first such line
    last_line: int
    count: int = 1
    worker: str = ""  # the rank, pod or container a prefix named

    @property
    def captured(self) -> dict[str, str]:
        """Map capture names to what they matched."""
        return dict(self.captures)


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
    return make_record(Signature, row)
