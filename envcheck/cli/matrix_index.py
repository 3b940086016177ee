"""What `envcheck matrix refresh` and `verify` share: the matrix, the index that pip is configured for, a bar."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
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
