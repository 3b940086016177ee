"""What `envcheck matrix refresh` and `verify` share: the matrix, the index that pip is configured for, a bar."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli.exits import UserError
from envcheck.cli.matrix_ask import known_framework

if TYPE_CHECKING:
    from envcheck.matrix.renew.reader import Reader


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
def progress_bar(*, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Draw a bar on standard error where that is a terminal."""
    bars: list[Any] = []

    def show(done: int, total: int) -> None:
        if not bars and total and not quiet and sys.stderr.isatty():
            bars.append(click.progressbar(length=total, label="Reading wheels", file=sys.stderr, show_pos=True))
            bars[0].render_progress()
        for bar in bars:
            bar.update(done - bar.pos)

    try:
        yield show
    finally:
        for bar in bars:
            bar.render_finish()
