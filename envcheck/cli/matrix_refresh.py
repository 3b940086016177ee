"""Run `envcheck matrix refresh` and `verify` against the package index."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck import __version__
from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.model import COMPATIBLE, UNDETERMINED, dataclass
from envcheck.render.inert import inert

if TYPE_CHECKING:
    from envcheck.matrix.refresh.merge import Change
    from envcheck.matrix.refresh.reader import Reader
    from envcheck.matrix.refresh.refresh import Renewal
    from envcheck.matrix.refresh.verify import Verification


def matrix_document(path: str | None) -> dict[str, Any]:
    """Load the whole matrix; one that cannot be used is the user's error."""
    from envcheck.matrix.load import MatrixError, load_document

    try:
        return load_document(path)
    except MatrixError as error:
        raise UserError(str(error)) from None


def asked_frameworks(document: dict[str, Any], frameworks: Sequence[str]) -> list[str]:
    """Return the frameworks and companions asked for, or all, in the matrix's order."""
    known = [*document["frameworks"], *document["companions"]]
    for name in frameworks:
        known_framework(name, known)
    return [name for name in known if not frameworks or name in frameworks]


@contextmanager
def index_reader(*, cached: bool = True) -> Iterator[Reader]:
    """Open the index that pip is configured for; missing libraries are the user's error."""
    from envcheck.matrix.refresh.index import require_libraries
    from envcheck.matrix.refresh.pip_settings import MissingLibraryError, read_pip_settings
    from envcheck.matrix.refresh.reader import Cache, Reader, find_user_cache

    try:
        require_libraries()
    except MissingLibraryError as error:
        raise UserError(str(error)) from None
    reader = Reader(read_pip_settings(os.environ), Cache(find_user_cache()) if cached else None)
    try:
        yield reader
    finally:
        reader.close()


class Progress:
    """A bar on standard error where that is a terminal; it counts wheels, and for binaries tells what has come."""

    def __init__(self, label: str, *, shown: bool) -> None:
        """Prepare; nothing is drawn until it is known how many wheels there are."""
        self._label, self._shown = label, shown
        self._bar: Any = None
        self._received = 0

    def wheels(self, done: int, total: int) -> None:
        """Draw how many wheels were read."""
        if self._bar is None and total and self._shown:
            self._bar = click.progressbar(length=total, label=self._label, file=sys.stderr, show_pos=True)
            self._bar.render_progress()
        if self._bar is not None:
            self._bar.update(done - self._bar.pos)

    def received(self, size: int) -> None:
        """Draw how many megabytes have come."""
        before, self._received = self._received // 1_000_000, self._received + size
        if self._bar is not None and self._received // 1_000_000 > before:
            self._bar.label = f"{self._label}, {self._received // 1_000_000} MB received"
            self._bar.render_progress()

    def finish(self) -> None:
        """End the line of the bar."""
        if self._bar is not None:
            self._bar.render_finish()


@contextmanager
def progress_bar(label: str = "Reading wheels", *, quiet: bool = False) -> Iterator[Progress]:
    """Draw a bar on standard error where that is a terminal."""
    progress = Progress(label, shown=not quiet and sys.stderr.isatty())
    try:
        yield progress
    finally:
        progress.finish()


_COLORS = {"added": "green", "removed": "red", "changed": "yellow"}


@dataclass(frozen=True)
class RefreshRequest:
    """What a user asks a renewal to do."""

    matrix_file: str | None
    frameworks: Sequence[str]
    since: str
    output: str | None
    today: str
    deep: bool


def refresh(asked: RefreshRequest, style: options.Printing) -> int:
    """Renew the matrix, write it, and tell what changed; nothing is written when anything could not be read."""
    from envcheck.matrix.refresh.merge import list_changes
    from envcheck.matrix.refresh.pip_settings import ArtifactError
    from envcheck.matrix.refresh.refresh import find_user_matrix, save_document

    document = matrix_document(asked.matrix_file)
    names = asked_frameworks(document, asked.frameworks)
    _check_version(asked.since)
    target = Path(asked.output) if asked.output else find_user_matrix()
    try:
        renewal = _renewed(document, names, asked, style)
        save_document(renewal.document, target)
    except ArtifactError as error:
        return _failed(f"{error} Nothing was written.", names, style)
    changes = list_changes(document, renewal.document)
    if style.form == "json":
        click.echo(_document(COMPATIBLE, _counted(changes), names, str(target), renewal, changes))
        return OF_VERDICT[COMPATIBLE]
    _tell(changes, renewal, style)
    click.echo(f"Saved to {inert(str(target))}. Judge by it: envcheck doctor --matrix {inert(str(target))}", err=True)
    return OF_VERDICT[COMPATIBLE]


def _renewed(document: dict[str, Any], names: list[str], asked: RefreshRequest, style: options.Printing) -> Renewal:
    from envcheck.matrix.refresh.refresh import add_binaries, find_new_rows, list_framework
    from envcheck.matrix.refresh.refresh import refresh as renew

    with index_reader() as reader, progress_bar(quiet=style.quiet) as progress:
        listings = [list_framework(reader, name, asked.since) for name in names]
        renewal = renew(document, listings, reader, asked.today, progress.wheels)
        if asked.deep:
            chosen = None if asked.since else find_new_rows(document, renewal.document)
            with progress_bar("Reading binaries", quiet=style.quiet) as bar:
                deep = reader.of_binaries(bar.received)
                add_binaries(renewal.document, listings, deep, asked.today, bar.wheels, chosen=chosen)
        return renewal


def _check_version(since: str) -> None:
    from envcheck.matrix.refresh.wheels import is_version

    if since and not is_version(since):
        raise UserError(f"--since {since}: not a version such as 2.15.")


def _failed(message: str, names: list[str], style: options.Printing) -> int:
    if style.form == "json":
        click.echo(_document(UNDETERMINED, message, names, None, None, []))
    else:
        click.echo(f"envcheck: {inert(message)}", err=True)
    return OF_VERDICT[UNDETERMINED]


def _document(
    verdict: str, message: str, names: list[str], target: str | None, renewal: Renewal | None, changes: list[Change]
) -> str:
    """Write the document of schema envcheck/matrix-refresh/1."""
    document = {
        "schema": "envcheck/matrix-refresh/1",
        "tool_version": __version__,
        "verdict": verdict,
        "message": message,
        "frameworks": names,
        "saved_to": target,
        "changes": [asdict(change) for change in changes],
        "left_out": list(renewal.left_out) if renewal else [],
        "vanished": list(renewal.vanished) if renewal else [],
    }
    return json.dumps(document, ensure_ascii=False)


def _tell(changes: list[Change], renewal: Renewal, style: options.Printing) -> None:
    from envcheck.matrix.refresh.merge import format_change

    for change in () if style.quiet else changes:
        for line in format_change(change):
            click.echo(_colored(inert(line), _COLORS[change.kind], style), color=style.color)
        if style.verbose:
            click.echo(inert(f"    read from {change.artifact}"))
    for line in renewal.left_out:
        click.echo(inert(f"left out: {line}"))
    for line in renewal.vanished:
        click.echo(inert(f"no longer on the index, kept: {line}"))
    click.echo(_counted(changes))


def _colored(text: str, name: str, style: options.Printing) -> str:
    return click.style(text, fg=name) if style.color else text


def _counted(changes: list[Change]) -> str:
    if not changes:
        return "No release, Python or requirement changed."
    counts = Counter(change.kind for change in changes)
    told = [f"{counts[kind]} row{'' if counts[kind] == 1 else 's'} {kind}" for kind in _COLORS if counts[kind]]
    return ", ".join(told) + "."


@dataclass(frozen=True)
class VerifyRequest:
    """What a user asks a verification to do."""

    matrix_file: str | None
    frameworks: Sequence[str]
    sample: int  # rows; 0 for all
    deep: int | None  # wheels whose binaries are read; 0 for all, None for none


def verify(asked: VerifyRequest, style: options.Printing) -> int:
    """Hold the matrix against the wheels, read anew, and tell each cell that disagrees."""
    from envcheck.matrix.refresh.pip_settings import ArtifactError
    from envcheck.matrix.refresh.verify import Verification

    document = matrix_document(asked.matrix_file)
    names = asked_frameworks(document, asked.frameworks)
    try:
        found = _held(document, names, asked, style)
    except ArtifactError as error:
        found = Verification(unread=[str(error)])
    if style.form == "json":
        click.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        _print_verified(found, style)
    return OF_VERDICT[found.verdict]


def _held(document: dict[str, Any], names: list[str], asked: VerifyRequest, style: options.Printing) -> Verification:
    from envcheck.matrix.refresh.refresh import list_framework
    from envcheck.matrix.refresh.verify import verify as hold
    from envcheck.matrix.refresh.verify import verify_binaries

    with index_reader(cached=False) as reader, progress_bar(quiet=style.quiet) as progress:
        listings = [list_framework(reader, name) for name in names]
        found = hold(document, listings, reader, asked.sample, progress.wheels)
        if asked.deep is not None:
            with progress_bar("Reading binaries", quiet=style.quiet) as bar:
                deep = reader.of_binaries(bar.received)
                verify_binaries(document, listings, deep, asked.deep, bar.wheels, found=found)
    return found


def _print_verified(found: Verification, style: options.Printing) -> None:
    for line in () if style.quiet else _lines(found, style):
        click.echo(line, color=style.color)
    failed = (
        f"{len(found.disagreements)} disagreements, {len(found.vanished)} no longer on the index, "
        f"{len(found.unread)} artifacts not read"
    )
    binaries = f", and {found.binaries} against the binaries of their wheels" if found.binaries else ""
    click.echo(
        f"{found.rows} rows with {found.cells} cells read from artifacts were held against them{binaries}: {failed}."
    )


def _lines(found: Verification, style: options.Printing) -> list[str]:
    told = [(f"held: {label}", "") for label in found.held] if style.verbose else []
    for item in found.disagreements:
        label = f"{item.distribution} {item.version} on {item.platform}"
        said = f"{label}: {item.cell} is {item.matrix!r} in the matrix, {item.artifact!r} in the artifact"
        missing = f"{label} is on the index ({item.artifact}) and not in the matrix"
        told.append((missing if item.cell == "row" else said, "red"))
    told += [(f"no longer on the index: {label}", "yellow") for label in found.vanished]
    told += [(f"not read: {line}", "yellow") for line in found.unread]
    return [click.style(inert(text), fg=name) if name and style.color else inert(text) for text, name in told]


def known_framework(name: str, known: Iterable[str]) -> None:
    """Refuse a framework that the matrix does not know, with the one that may be meant."""
    from difflib import get_close_matches

    names = list(known)
    if name in names:
        return
    close = get_close_matches(name.lower(), names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise UserError(f"--framework {name}: the matrix knows {', '.join(names)}.{hint}")
