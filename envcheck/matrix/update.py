"""Check a data file that the user fetches, and store it in place of older data.

The one before stays beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from envcheck.host.file_changes import FileLockedError, lock_file, write_atomically
from envcheck.host.prerequisites import find_program
from envcheck.host.process import run_program
from envcheck.host.protocol import Variables
from envcheck.matrix.bounds import check_bounds
from envcheck.matrix.built_in import SECTIONS
from envcheck.matrix.load import (
    OWN_FILE,
    MatrixError,
    is_url,
    load_document,
    parse_document,
    read_user_file,
)
from envcheck.matrix.stored import (
    ADDRESS,
    OFF,
    REPOSITORY,
    USED,
    DataFile,
    Stored,
    find_folder,
    is_off,
    open_stored,
    read_stored,
)
from envcheck.model import Absent, Known, UserError, dataclass, encode
from envcheck.model.text import remove_url_secrets

Document = Mapping[str, Any]

SIZE_LIMIT = 24 << 20  # bytes; six times the data of 2026-11
# of the rows of a table that a new data file must still hold; a refresh drops none by itself
KEPT = 0.9
_CLOCK = timedelta(days=1)  # by which a clock may differ


@dataclass
class Request:
    """What to store, and what proves it."""

    source: str  # absolute path or address
    sha256: str  # "": the attestation proves it
    bundle: str  # file with the attestation; "": gh asks GitHub
    repository: str
    name: str  # of the source in messages: no user name, password or query


def read_request(source: str, sha256: str, bundle: str, environ: Variables) -> Request:
    """Complete what the user gives by the settings.

    Raises UserError for a missing source or proof.
    """
    source = source or environ.get(ADDRESS, "")
    repository = environ.get(REPOSITORY, "")
    if not source:
        raise UserError(f"no data file is named: give its path, or set {ADDRESS} to its address.")
    address, _, pin = source.partition("#") if is_url(source) else (source, "", "")
    pin = sha256 or re.sub("^sha256[=:]", "", pin)
    name = remove_url_secrets(source)
    if pin and bundle:
        raise UserError("a SHA-256 and --bundle exclude each other: one proof is enough.")
    if pin and not re.fullmatch("[0-9a-fA-F]{64}", pin):
        raise UserError(f"{pin[:80]!r} is no SHA-256: give 64 hexadecimal digits.")
    if not pin and not repository:
        raise UserError(
            f"nothing proves {name}: give its SHA-256 with --sha256, or set {REPOSITORY} to the"
            " OWNER/NAME that attests it."
        )
    if not pin and not re.fullmatch(r"[A-Za-z0-9][\w-]*/[\w.-]+", repository):
        raise UserError(f"{REPOSITORY} {repository[:80]!r} is no repository: write OWNER/NAME.")
    if not is_url(source):
        address = os.path.abspath(source)  # noqa: PTH100
    return Request(address, pin.lower(), bundle, repository, name)


@dataclass
class Update:
    """What an update did."""

    stored: Stored
    before: Document  # the documents in use before and after
    after: Document

    @property
    def in_use(self) -> DataFile | None:
        """Return the stored file that is in use; None where that is the built-in data."""
        return self.stored.used if self.after is not load_built_in() else None


def update(request: Request, environ: Variables) -> Update:
    """Fetch, prove, check and store a data file; raises UserError, and then nothing has changed."""
    content = _read(request)
    digest = hashlib.sha256(content).hexdigest()
    if request.sha256 and digest != request.sha256:
        raise MatrixError(
            f"{request.name} has the SHA-256 {digest}, not {request.sha256}; refused."
        )
    with _open_folder() as folder:
        stored, before = read_stored(), _open_in_use()
        used = stored.used if before is not load_built_in() else None
        if used is not None and used.sha256 == digest:
            return Update(stored, before, before)
        path = folder / f"{digest}.json"
        is_new = not path.exists()
        try:
            _write_text(path, content, request.name)
            if request.sha256:
                proof = "the SHA-256 that was given"
            else:
                proof = verify_attestation(path, request, environ)
            document = parse_document(request.name, content)
            check_update(document, request.name, before)
            source = request.name if is_url(request.source) else request.source
            now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            made = Stored(DataFile(digest, document["checked"], source, proof, now), used)
            _write_text(folder / USED, json.dumps(encode(made)).encode(), USED)
        except BaseException:
            if is_new:
                with suppress(OSError):
                    path.unlink()
            raise
        _remove_unused(folder, made)
        return Update(made, before, _open_in_use())


def undo() -> Update:
    """Go back to the data before the last update; another `undo` takes it again.

    Raises UserError.
    """
    with _open_folder() as folder:
        stored, before = read_stored(), _open_in_use()
        if stored == Stored():
            raise UserError("no update is stored: the data in use is the built-in data.")
        swapped = Stored(stored.previous, stored.used)
        _write_text(folder / USED, json.dumps(encode(swapped)).encode(), USED)
        return Update(swapped, before, _open_in_use())


def _write_text(path: Path, content: bytes, name: str) -> None:
    try:
        write_atomically(path, content.decode("utf-8"))
    except UnicodeDecodeError:
        raise MatrixError(f"The matrix file {name} is not UTF-8 text.") from None


def _read(request: Request) -> bytes:
    """Read a file, or fetch an address; raises UserError."""
    if is_url(request.source):
        from envcheck.matrix.refresh.index import fetch  # only an address needs the network

        return fetch(request.source, SIZE_LIMIT)
    content = read_user_file(request.source)
    if len(content) > SIZE_LIMIT:
        raise MatrixError(
            f"The matrix file {request.name} is larger than {SIZE_LIMIT >> 20} MiB; refused."
        )
    return content


_SECONDS = 120.0  # for gh, which asks GitHub for the attestation and for Sigstore's trusted keys


def verify_attestation(path: Path, request: Request, environ: Variables) -> str:
    """Have gh verify that a repository's renewal workflow attested a file.

    Raises MatrixError.

    The options are those of https://cli.github.com/manual/gh_attestation_verify (read 2026-11-23).
    """
    program = find_program("gh", environ)
    if not program:
        raise MatrixError(
            "An attestation is verified by the GitHub CLI,"
            " which is not installed: install gh, or give --sha256."
        )
    workflow = f"{request.repository}/.github/workflows/renew.yml"
    argv = [
        program,
        "attestation",
        "verify",
        str(path),
        "--repo",
        request.repository,
        "--signer-workflow",
        workflow,
    ]
    argv += ["--source-ref", "refs/heads/main", "--deny-self-hosted-runners"]
    if request.bundle:
        argv += ["--bundle", os.path.realpath(request.bundle)]
    answer = run_program(argv, _SECONDS, environ)
    if isinstance(answer, Known) and answer.value.returncode == 0:
        return f"an attestation of {request.repository}"
    if isinstance(answer, Known):
        said = answer.value.stderr.split() or [
            f"it exited with status {answer.value.returncode} and no output"
        ]
    elif isinstance(answer, Absent):
        said = ["it is not installed"]
    else:
        said = [answer.detail or answer.why]
    words = " ".join(said)[:300].rstrip(".")
    raise MatrixError(
        f"gh finds no attestation of {request.repository} for {request.name}; refused. gh: {words}."
    )


def check_update(document: Document, name: str, in_use: Document) -> None:
    """Raise MatrixError for data that is old, implausible, or unsafe in a command."""
    if OWN_FILE in document["citations"]:
        raise MatrixError(
            f"{name} holds no evidence: it needs the form"
            " that `envcheck matrix export` writes; refused."
        )
    _check_day(document["checked"], name, in_use["checked"])
    for framework, versions in document["releases"].items():
        if list(versions) != sorted(versions, key=Version):  # the last one counts as the newest
            raise MatrixError(f"{name} lists the releases of {framework} out of order; refused.")
    check_bounds(document, name, load_built_in())
    _check_loss(document, name, in_use)


def _check_day(day: str, name: str, day_in_use: str) -> None:
    try:
        is_future = date.fromisoformat(day) > datetime.now(timezone.utc).date() + _CLOCK
    except ValueError:
        raise MatrixError(f"{name} states the day {day}, which no calendar has; refused.") from None
    if is_future:
        raise MatrixError(f"{name} is of {day}, a day to come; refused.")
    if day <= day_in_use:
        raise MatrixError(
            f"{name} is of {day}, which is not newer than"
            f" the data in use, of {day_in_use}; refused."
        )


def _check_loss(document: Document, name: str, in_use: Document) -> None:
    """Refuse data that lacks a framework, or more than a tenth of a table, of the data in use."""
    new, missing = _list_keys(document), []
    for table, keys in _list_keys(in_use).items():
        lost = sorted(keys - new.get(table, set()))
        is_name = table in {"frameworks", "companions"}
        if lost and (is_name or len(lost) > len(keys) * (1 - KEPT)):
            missing.append(
                f"{len(lost)} of {len(keys)} {table} ({lost[0]}{', …' if lost[1:] else ''})"
            )
    if missing:
        shown = "; ".join(missing[:3]) + (
            f"; and of {len(missing) - 3} more tables" if missing[3:] else ""
        )
        raise MatrixError(f"{name} lacks what the data in use has: {shown}; refused.")


def _list_keys(document: Document) -> dict[str, set[str]]:
    """Map each table to the keys of its rows; "torch rows" to "2.6.0 torch linux_x86_64"."""
    others = ("schema", "checked", "citations", "releases", "problems")
    tables = {name: set(document[name]) for name in SECTIONS if name not in others}
    tables["problems"] = {row["id"] for row in document["problems"]}
    for name, versions in document["releases"].items():
        rows = ((version, row) for version, rows in versions.items() for row in rows)
        tables[f"{name} rows"] = {
            f"{version} {row['distribution']} {row['platform']}" for version, row in rows
        }
    return tables


@cache
def load_built_in() -> Document:
    """Return the whole built-in document."""
    return load_document()


def _open_in_use() -> Document:
    return open_stored(lambda: str(load_built_in()["checked"])) or load_built_in()


_PATIENCE = 20.0  # seconds for another update to end


@contextmanager
def _open_folder() -> Iterator[Path]:
    """Make this user's folder for data files, and lock it for the block; raises UserError."""
    if is_off():
        raise UserError(f"{OFF} turns stored data off: unset it to update the data.")
    folder = Path(find_folder())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(str(folder / "lock"), _PATIENCE):
            yield folder
    except FileLockedError as error:
        raise UserError(
            f"another update is running (process {error}); nothing was changed."
        ) from None
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror}; the data in use stays."
        ) from None


def _remove_unused(folder: Path, stored: Stored) -> None:
    """Remove data files that used.json does not name, of older updates and of killed ones."""
    kept = {f"{item.sha256}.json" for item in (stored.used, stored.previous) if item}
    for path in folder.iterdir():
        if path.name not in kept and re.match(r"[0-9a-f]{64}\.json$|\.", path.name):
            with suppress(OSError):
                path.unlink()
