"""Save the answers of a fleet.

One file per host, with a snapshot or the reason why there is none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from envcheck.fleet.collector import MARK
from envcheck.host.documents import parse_object
from envcheck.host.file_changes import write_atomically
from envcheck.host.process import map_in_processes
from envcheck.model import (
    SCHEMA_VERSION,
    Absent,
    CodecError,
    Known,
    Snapshot,
    Unknown,
    UserError,
    dataclass,
    decode,
    encode,
    list_fields,
    mark_uncollected,
)

HISTORY = "history.sqlite"  # in the folder of the hosts' files
FAILURE = "envcheck/fleet-failure/1"
SNAPSHOT = f"envcheck/snapshot/{SCHEMA_VERSION}"
LIMIT = 16 << 20  # bytes of one host's file; real ones have less than 1 MiB
_MAX_NAME = 200  # characters of a file name without its extension; file systems allow 255
UNREACHABLE, DENIED, UNWRITABLE, HUNG = "unreachable", "denied", "unwritable", "hung"
TOO_OLD, BROKEN = "too-old", "broken"
KINDS = (UNREACHABLE, DENIED, UNWRITABLE, HUNG, TOO_OLD, BROKEN)
_SECONDS_OF_A_HOST = 20  # for which the time limits of the probes are made


@dataclass
class Failure:
    """Why a host has no snapshot."""

    kind: str  # one of KINDS
    reason: str


@dataclass
class HostResult:
    """The answer of one host of the inventory."""

    host: str
    answer: Snapshot | Failure


def make_file_name(host: str) -> str:
    """Return the file name for a host, whose inventory name may contain anything, even ../."""
    safe = quote(host, safe="", errors="surrogatepass")
    safe = safe.replace(".", "%2E", 1) if safe.startswith(".") else safe
    if len(safe) > _MAX_NAME:
        whole = hashlib.sha256(safe.encode()).hexdigest()
        safe = f"{safe[: _MAX_NAME - 20]}~{whole[:16]}"
    return safe + ".json"


def get_saved_name(host: str) -> str:
    """Return the name of a host in a folder: its own, unless that is too long for a file name."""
    return _parse_file_name(make_file_name(host))


def get_host(path: Path) -> str:
    """Return the host that a file is about."""
    return _parse_file_name(path.name)


def _parse_file_name(name: str) -> str:
    return unquote(name[: -len(".json")])


def write_result(folder: Path, result: HostResult) -> None:
    """Write the file of one host atomically.

    A failure never replaces a snapshot: it lies beside it until the host answers.
    """
    path = folder / make_file_name(result.host)
    failed = _failure_beside(path)
    if isinstance(result.answer, Failure) and isinstance(_read(path), Snapshot):
        failed.parent.mkdir(exist_ok=True)
        path = failed
    else:
        failed.unlink(missing_ok=True)
    if isinstance(result.answer, Snapshot):
        document: dict[str, Any] = {"schema": SNAPSHOT, **encode(result.answer)}
    else:
        document = {
            "schema": FAILURE,
            "host": result.host,
            "kind": result.answer.kind,
            "reason": result.answer.reason,
        }
    write_atomically(path, json.dumps(document) + "\n")


def _failure_beside(path: Path) -> Path:
    return path.parent / "failed" / path.name


def read_last_failure(path: Path) -> Failure | None:
    """Read why a host has not answered since its snapshot, which is kept."""
    file = _failure_beside(path)
    answer = _read(file) if file.exists() else None
    if not isinstance(answer, Failure):
        return None
    day = date.fromtimestamp(path.stat().st_mtime).isoformat()  # noqa: DTZ012 - as the reader's clock
    return Failure(answer.kind, f"{answer.reason} Its snapshot of {day} is kept.")


def list_result_files(folder: Path) -> list[Path]:
    """List the files of the hosts, sorted."""
    return sorted(folder.glob("*.json"))


def read_result(path: Path) -> HostResult:
    """Read the file of a host; an invalid one is a broken host, never an error."""
    return HostResult(get_host(path), read_last_failure(path) or _read(path))


def list_answered_hosts(folder: Path) -> set[str]:
    """Return the hosts with a snapshot in which nothing timed out: a further run skips them."""
    return set(filter(None, map_in_processes(_get_answered_host, list_result_files(folder))))


def _get_answered_host(path: Path) -> str:
    result = read_result(path)
    if isinstance(result.answer, Snapshot) and not list_timeouts(result.answer):
        return result.host
    return ""


def list_timeouts(snapshot: Snapshot) -> tuple[str, ...]:
    """Name the facts that took too long to read, such as on a busy machine."""
    return tuple(
        name
        for name, fact in _list_facts(snapshot.facts)
        if isinstance(fact, Unknown) and fact.why == "timeout"
    )


def _list_facts(facts: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name in list_fields(facts):
        value = getattr(facts, name)
        if isinstance(value, (Known, Absent, Unknown)):
            yield prefix + name, value
        elif not isinstance(value, str):
            yield from _list_facts(value, f"{prefix}{name}.")


def read_file(path: Path) -> bytes | Failure:
    """Read the file of a host, if it is a regular file of a sane size."""
    if not path.is_file():
        return Failure(BROKEN, "its file is missing or not a regular file")
    try:
        with path.open("rb") as stream:
            data = stream.read(LIMIT + 1)
    except OSError as error:
        return Failure(BROKEN, f"its file cannot be read: {error.strerror}")
    if len(data) <= LIMIT:
        return data
    return Failure(BROKEN, f"its file is larger than {LIMIT >> 20} MiB")


def parse_file(data: str | bytes, name: str = "file") -> Snapshot | Failure:
    """Decode the content of a host's file, or its answer."""
    try:
        return parse_answer(json.loads(data))
    except (ValueError, RecursionError) as error:
        return Failure(BROKEN, f"its {name} is not JSON: {str(error)[:200]}")


def _read(path: Path) -> Snapshot | Failure:
    data = read_file(path)
    return data if isinstance(data, Failure) else parse_file(data)


_FACTS = b'"facts"'
# one for each kind: a pattern that begins with a text is searched eight times as fast
_DEVICE_IDS = (re.compile(rb"GPU(?:-[0-9a-f]+){5}"), re.compile(rb"MIG(?:-[0-9a-f]+){5}"))


def hash_facts(data: bytes) -> bytes:
    """Return a hash that equal machines share, whatever their host, time and GPU serials.

    Return b"" where there is none.
    """
    head, _, facts = data.partition(_FACTS)
    document = parse_object(head + _FACTS + b": null}")
    if not all(isinstance(document.pop(name, None), str) for name in ("host", "taken_at")):
        return b""
    numbers: dict[bytes, bytes] = {}
    for pattern in _DEVICE_IDS:
        facts = pattern.sub(
            lambda match: numbers.setdefault(match[0], b"GPU %d" % len(numbers)), facts
        )
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode() + facts).digest()


def parse_answer(document: object) -> Snapshot | Failure:
    """Decode the document of a host; an invalid one is a failure with the reason."""
    if not isinstance(document, dict):
        return Failure(BROKEN, "its answer is not a JSON object")
    body = {key: value for key, value in document.items() if key != "schema"}
    if document.get("schema") == FAILURE:
        kind = str(body.get("kind"))
        known = kind if kind in KINDS else BROKEN
        return Failure(known, str(body.get("reason", ""))[:2000])
    if document.get("schema", SNAPSHOT) != SNAPSHOT:
        return Failure(BROKEN, f"its answer has an unknown schema: {str(document['schema'])[:100]}")
    try:
        return mark_uncollected(decode(Snapshot, body))
    except (CodecError, RecursionError) as error:
        return Failure(BROKEN, f"its answer is not a valid snapshot: {str(error)[:300]}")


def find_answer(output: str, words: str) -> Snapshot | Failure:
    """Find the collector's line in the output, to which login scripts may add.

    Without it, `words` say why.
    """
    lines = [line for line in output.splitlines() if MARK in line]  # login scripts print before it
    answer = lines[-1].split(MARK, 1)[1] if lines else ""
    return parse_file(answer, "answer") if answer else classify_failure(words)


# The kinds of failures by the words of Ansible, OpenSSH, sudo, Slurm and the shell; the first that
# fits.
_FAILURES = (
    (TOO_OLD, r"no Python [\d.]+ or newer on this host"),
    (
        UNWRITABLE,
        (
            r"Read-only file system|No space left on device|Disk quota exceeded|create temporary"
            r" (?:directory|file)"
        ),
    ),
    (
        DENIED,
        (
            r"Permission denied \(|password is required|[Mm]issing sudo password|[Ii]ncorrect \w+"
            r" password|sudoers"
        ),
    ),
    (
        DENIED,
        r"Too many authentication failures|Invalid/incorrect password|Host key verification failed",
    ),
    (HUNG, r"expected time frame|(?i:timed? ?out)|DUE TO TIME LIMIT"),
)
# What the system itself says in the middle of a long message of Ansible.
_SYSTEM_ERROR = re.compile(
    r"[\w.-]+: [^:]{0,200}: (?:Read-only file system|No space left on device|Disk quota"
    r" exceeded|Permission denied)"
)


def classify_failure(words: str, default: str = BROKEN) -> Failure:
    """Choose the kind of a failure by the printed words.

    What the system itself said comes first.
    """
    text = " ".join(words.split())
    kind = next((kind for kind, pattern in _FAILURES if re.search(pattern, text)), default)
    if default == UNREACHABLE and kind == HUNG:
        kind = UNREACHABLE  # nobody answered at all
    system_error = _SYSTEM_ERROR.search(text) if kind == UNWRITABLE else None
    reason = f"{system_error[0]}. {text}" if system_error else text
    return Failure(kind, reason[:2000] or "it exited without an answer")


class EngineError(UserError):
    """The engine itself failed, or found no host; the message is its own."""


@dataclass
class FleetRequest:
    """The hosts to read, how to read them, and how long to wait."""

    inventory: str = ""  # of Ansible
    partition: str = ""  # of Slurm
    namespace: str = ""  # of Kubernetes, as the next three
    image: str = ""
    runtime_class: str = ""
    gpus: int = 0  # that each pod asks for
    pattern: str = "all"  # an Ansible host pattern, or a label selector of Kubernetes
    forks: int = 50  # concurrent hosts
    connect_seconds: int = 10
    host_seconds: int = 60  # for one host, from start to answer
    become: bool = False
    python: str = ""  # the interpreter to inspect; empty: each host chooses its own
    # hosts that have answered before, by their names in the folder
    skip: frozenset[str] = frozenset()
    environment: Mapping[str, str] | None = None  # for the engine's own programs

    @property
    def collector_arguments(self) -> list[str]:
        """Return the collector's arguments.

        A host that has more time to answer gives its programs more, too.
        """
        patience = f"patience={max(1.0, self.host_seconds / _SECONDS_OF_A_HOST):g}"
        return [patience, *([f"python={self.python}"] if self.python else [])]


@dataclass
class FleetListener:
    """Callbacks: a run's hosts, each result as it arrives, and the engine's warnings."""

    on_hosts: Callable[[list[str]], None]
    on_result: Callable[[HostResult], None]
    on_warning: Callable[[str], None]
