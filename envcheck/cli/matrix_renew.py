"""What `envcheck matrix refresh` and `verify` do with the index; their options stand in matrix.py."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.model.findings import COMPATIBLE, UNDETERMINED

if TYPE_CHECKING:
    from envcheck.matrix.renew.reader import Reader
    from envcheck.matrix.renew.refresh import Renewal
    from envcheck.matrix.renew.verify import Verification


def refresh(matrix_file: str | None, frameworks: Sequence[str], since: str, output: str | None, today: str) -> int:
    """Renew the matrix, write it, and tell what changed; nothing is written when anything could not be read."""
    from envcheck.matrix.renew.changes import describe_changes
    from envcheck.matrix.renew.errors import ArtifactError
    from envcheck.matrix.renew.refresh import list_framework
    from envcheck.matrix.renew.refresh import refresh as renew
    from envcheck.matrix.renew.save import save_document, user_matrix

    document = _document(matrix_file)
    names = _known(document, frameworks)
    _check_version(since)
    try:
        with _reader() as reader, _progress() as progress:
            listings = [list_framework(reader, name, since) for name in names]
            renewal = renew(document, listings, reader, today, progress)
        target = Path(output) if output else user_matrix()
        save_document(renewal.document, target)
    except ArtifactError as error:
        click.echo(f"envcheck: {error} Nothing was written.", err=True)
        return OF_VERDICT[UNDETERMINED]
    _tell(describe_changes(document, renewal.document), renewal)
    click.echo(f"Saved to {target}. Judge by it: envcheck doctor --matrix {target}", err=True)
    return OF_VERDICT[COMPATIBLE]


def verify(matrix_file: str | None, frameworks: Sequence[str], sample: int, form: str) -> int:
    """Hold the matrix against the wheels, read anew, and tell each cell that disagrees."""
    from envcheck.matrix.renew.errors import ArtifactError
    from envcheck.matrix.renew.refresh import list_framework
    from envcheck.matrix.renew.verify import Verification
    from envcheck.matrix.renew.verify import verify as hold

    document = _document(matrix_file)
    names = _known(document, frameworks)
    try:
        with _reader(cached=False) as reader, _progress() as progress:
            found = hold(document, [list_framework(reader, name) for name in names], reader, sample, progress)
    except ArtifactError as error:
        found = Verification(unread=[str(error)])
    if form == "json":
        click.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        _tell_verification(found)
    return OF_VERDICT[found.verdict]


def _tell_verification(found: Verification) -> None:
    for item in found.disagreements:
        label = f"{item.distribution} {item.version} on {item.platform}"
        click.echo(f"{label}: {item.cell} is {item.matrix!r} in the matrix, {item.artifact!r} in the artifact")
    for line in found.unread:
        click.echo(f"not read: {line}")
    counted = f"{found.rows} rows with {found.cells} cells read from artifacts were held against them"
    click.echo(f"{counted}: {len(found.disagreements)} disagreements, {len(found.unread)} artifacts not read.")


def _tell(changes: list[str], renewal: Renewal) -> None:
    for line in changes or ["No release, Python or requirement changed."]:
        click.echo(line)
    for line in renewal.left_out:
        click.echo(f"left out: {line}")
    for line in renewal.vanished:
        click.echo(f"no longer on the index, kept: {line}")


def _document(path: str | None) -> dict[str, Any]:
    from envcheck.matrix.load import MatrixError, load_document

    try:
        return load_document(path)
    except MatrixError as error:
        raise UserError(str(error)) from None


def _known(document: dict[str, Any], frameworks: Sequence[str]) -> list[str]:
    """Return the frameworks asked for, or all, in the matrix's order."""
    unknown = [name for name in frameworks if name not in document["frameworks"]]
    if unknown:
        raise UserError(f"--framework {unknown[0]}: the matrix knows {', '.join(document['frameworks'])}.")
    return [name for name in document["frameworks"] if not frameworks or name in frameworks]


def _check_version(since: str) -> None:
    from envcheck.matrix.renew.wheels import is_version

    if since and not is_version(since):
        raise UserError(f"--since {since}: not a version such as 2.15.")


@contextmanager
def _reader(*, cached: bool = True) -> Iterator[Reader]:
    """Open the index that pip is configured for."""
    from envcheck.matrix.renew.cache import Cache, user_cache
    from envcheck.matrix.renew.errors import MissingLibraryError
    from envcheck.matrix.renew.reader import Reader
    from envcheck.matrix.renew.session import require_libraries
    from envcheck.matrix.renew.settings import pip_settings

    try:
        require_libraries()
    except MissingLibraryError as error:
        raise UserError(str(error)) from None
    reader = Reader(pip_settings(os.environ), Cache(user_cache()) if cached else None)
    try:
        yield reader
    finally:
        reader.close()


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Draw a bar on standard error where that is a terminal."""
    bars: list[Any] = []

    def show(done: int, total: int) -> None:
        if not bars and total and sys.stderr.isatty():
            bars.append(click.progressbar(length=total, label="Reading wheels", file=sys.stderr, show_pos=True))
            bars[0].render_progress()
        for bar in bars:
            bar.update(done - bar.pos)

    try:
        yield show
    finally:
        for bar in bars:
            bar.render_finish()
