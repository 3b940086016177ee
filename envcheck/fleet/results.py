"""Keep a fleet's answers: one file per host, a snapshot or the reason why there is none."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from envcheck.fleet.collector import MARK
from envcheck.host.file_changes import write_atomically
from envcheck.host.process import map_in_processes
from envcheck.model import SCHEMA_VERSION, Snapshot, dataclass
from envcheck.model.codec import CodecError, decode, encode

FAILURE = "envcheck/fleet-failure/1"
SNAPSHOT = f"envcheck/snapshot/{SCHEMA_VERSION}"
LIMIT = 16 << 20  # bytes of one host's file; real ones are below one megabyte
_LONGEST_NAME = 200  # characters of a file's name before its ending; file systems take 255
UNREACHABLE, HUNG, TOO_OLD, BROKEN = "unreachable", "hung", "too-old", "broken"


@dataclass(frozen=True)
class Failure:
    """Why a host has no snapshot: its kind, and the words of whoever saw it."""

    kind: str  # unreachable, hung, too-old, broken
    reason: str


@dataclass(frozen=True)
class HostResult:
    """What one host of the inventory answered."""

    host: str
    answer: Snapshot | Failure


def file_name(host: str) -> str:
    """Name a host's file; an inventory name can hold anything, also ../."""
    safe = quote(host, safe="", errors="surrogatepass")
    safe = safe.replace(".", "%2E", 1) if safe.startswith(".") else safe
    if len(safe) > _LONGEST_NAME:
        whole = hashlib.sha256(safe.encode()).hexdigest()
        safe = f"{safe[: _LONGEST_NAME - 20]}~{whole[:16]}"
    return safe + ".json"


def known_as(host: str) -> str:
    """Return the name a host bears in a folder: its own, unless that is too long for a file's."""
    return _host_of(file_name(host))


def _host_of(name: str) -> str:
    return unquote(name[: -len(".json")])


def write_result(folder: Path, result: HostResult) -> None:
    """Write one host's file, whole or not at all."""
    if isinstance(result.answer, Snapshot):
        document: dict[str, Any] = {"schema": SNAPSHOT, **encode(result.answer)}
    else:
        document = {"schema": FAILURE, "host": result.host, "kind": result.answer.kind, "reason": result.answer.reason}
    write_atomically(folder / file_name(result.host), json.dumps(document) + "\n")


def result_files(folder: Path) -> list[Path]:
    """List the hosts' files, in the order of their names."""
    return sorted(folder.glob("*.json"))


def read_result(path: Path) -> HostResult:
    """Read a host's file; one that is no result is a broken host, never an error."""
    return HostResult(_host_of(path.name), _read(path))


def answered(folder: Path) -> set[str]:
    """List the hosts whose snapshot is there: a further run need not ask them again."""
    return set(filter(None, map_in_processes(_answered, result_files(folder))))


def _answered(path: Path) -> str:
    result = read_result(path)
    return result.host if isinstance(result.answer, Snapshot) else ""


def has_snapshot(folder: Path, host: str) -> bool:
    """Tell whether a host's snapshot lies in the folder."""
    return isinstance(_read(folder / file_name(host)), Snapshot)


def _read(path: Path) -> Snapshot | Failure:
    if not path.is_file():
        return Failure(BROKEN, "its file is missing, or no regular file")
    try:
        with path.open("rb") as stream:
            data = stream.read(LIMIT + 1)
        if len(data) > LIMIT:
            return Failure(BROKEN, f"its file is larger than {LIMIT >> 20} MiB: no snapshot is")
        return parse_answer(json.loads(data))
    except OSError as error:
        return Failure(BROKEN, f"its file cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return Failure(BROKEN, f"its file is not JSON: {str(error)[:200]}")


def parse_answer(document: object) -> Snapshot | Failure:
    """Check a host's document and take it in; what is no snapshot is refused with the reason."""
    if not isinstance(document, dict):
        return Failure(BROKEN, "it answered no JSON object")
    body = {key: value for key, value in document.items() if key != "schema"}
    if document.get("schema") == FAILURE:
        kind = str(body.get("kind"))
        known = kind if kind in (UNREACHABLE, HUNG, TOO_OLD, BROKEN) else BROKEN
        return Failure(known, str(body.get("reason", ""))[:2000])
    if document.get("schema", SNAPSHOT) != SNAPSHOT:
        return Failure(BROKEN, f"its document has another schema: {str(document['schema'])[:100]}")
    try:
        return decode(Snapshot, body)
    except (CodecError, RecursionError) as error:
        return Failure(BROKEN, f"its answer is no valid snapshot: {str(error)[:300]}")


def answer_of(output: str, words: str) -> Snapshot | Failure:
    """Find the collector's line among what login scripts print; without one, `words` tell why."""
    lines = [line for line in output.splitlines() if MARK in line]  # the answer comes last, after what logins print
    found = lines[-1].split(MARK, 1)[1] if lines else ""
    if not found:
        return failure_of(words)
    try:
        return parse_answer(json.loads(found))
    except (ValueError, RecursionError) as error:
        return Failure(BROKEN, f"its answer is not JSON: {str(error)[:200]}")


def failure_of(words: str) -> Failure:
    """Tell the kinds of failure apart by what was printed."""
    text = " ".join(words.split())[:2000] or "it ended without an answer"
    if re.search(r"no Python [\d.]+ or newer on this host", text):
        return Failure(TOO_OLD, text)
    timed = re.search(r"expected time frame|timed? ?out|DUE TO TIME LIMIT", text, re.IGNORECASE)
    return Failure(HUNG if timed else BROKEN, text)


class EngineError(RuntimeError):
    """The engine itself failed, or names no host; the message says what it said."""


@dataclass(frozen=True)
class Asked:
    """What to ask, and how long to wait."""

    inventory: str = ""  # of Ansible
    partition: str = ""  # of Slurm
    pattern: str = "all"  # an Ansible host pattern
    forks: int = 50  # hosts at a time
    connect_seconds: int = 10
    host_seconds: int = 60  # for one host, from its start to its answer
    become: bool = False
    python: str = ""  # the interpreter to inspect there; what each host finds by itself when empty
    skip: frozenset[str] = frozenset()  # hosts that have answered before, by the names they bear in the folder
    environment: Mapping[str, str] | None = None  # for the engine's own programs


@dataclass(frozen=True)
class Listener:
    """Who is told: the hosts that are asked, each answer as it comes, and what the engine itself has to say."""

    heard_of: Callable[[list[str]], None]
    told: Callable[[HostResult], None]
    warned: Callable[[str], None]
