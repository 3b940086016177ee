"""Read the snapshot a command works on: this machine's, or a saved one."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from envcheck.cli.exits import UserError
from envcheck.model import SCHEMA_VERSION, Known, Snapshot, Unknown

_PATIENCE = 1.0  # seconds until something is said


@contextmanager
def slow_programs() -> Iterator[None]:
    """Name on stderr, after a second, the programs that have not answered; nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_PATIENCE, _say)
    timer.daemon = True
    with suppress(RuntimeError):  # no thread to spare: the report matters more than the word about it
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say() -> None:
    from envcheck.host.process import list_running_programs

    waiting = list_running_programs()
    if waiting:
        sys.stderr.write(f"Waiting for {', '.join(waiting)} ...\n")
        sys.stderr.flush()


_LIMIT = 64 << 20  # bytes of a snapshot file; the largest real ones are below one megabyte


def live_snapshot(python: str, env: str, without: Collection[str] = (), *, without_packages: bool = False) -> Snapshot:
    """Read this machine, some probes left out; a --python or --env that is not there is the user's error.

    `without_packages`: read the interpreter but not its packages.
    """
    from envcheck.host.local import LocalHost
    from envcheck.probes.collection import collect
    from envcheck.probes.python import PythonSelection

    with slow_programs():
        snapshot = collect(LocalHost(), PythonSelection(python, env, without_packages), without)
    executable = snapshot.facts.python.executable
    crashed = (
        isinstance(executable, Unknown) and executable.why == "crashed"
    )  # not the user's error: the report says it
    if (python or env) and not isinstance(executable, Known) and not crashed:
        option = f"--python {python}" if python else f"--env {env}"
        raise UserError(f"{option}: no Python environment found there. {_tried(executable)}")
    return snapshot


def looked_at(python: str, env: str) -> tuple[str, ...]:
    """Return the options by which another command looks at the same environment."""
    return (*(("--python", python) if python else ()), *(("--env", env) if env else ()))


def _tried(fact: object) -> str:
    tried = getattr(fact, "tried", ())
    detail = getattr(fact, "detail", "")
    return detail or (f"Looked at {', '.join(tried)}." if tried else "")


def saved_snapshot(path: str) -> Snapshot:
    """Read a snapshot file written by `envcheck snapshot` or `doctor --format json`."""
    from envcheck.model.codec import CodecError, decode

    document = _load(path)
    schema = document.get("schema", "")
    if schema == "envcheck/report/1":
        inside = document.get("snapshot")
        document = inside if isinstance(inside, dict) else {}
        schema = document.get("schema", "")
    if schema != f"envcheck/snapshot/{SCHEMA_VERSION}":
        advice = "Take a new one: envcheck snapshot -o FILE"
        raise UserError(f"{path} is no snapshot this version reads (schema {schema!r}). {advice}")
    body = {key: value for key, value in document.items() if key != "schema"}
    try:
        return decode(Snapshot, body)
    except CodecError as error:
        raise UserError(f"{path} is not a valid snapshot: {error}") from None


def _load(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib costs a third of a bare start
            data = stream.read(_LIMIT + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _LIMIT:
        raise UserError(f"{path} is larger than {_LIMIT >> 20} MiB: no snapshot is.")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path} is not a snapshot: it holds no JSON object.")
    return document
