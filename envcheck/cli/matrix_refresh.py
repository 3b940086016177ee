"""Run `envcheck matrix refresh`, `verify` and `update`, and print what came of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path

import click

from envcheck.actions import type_here
from envcheck.actions.extras import require_extra
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, UserError
from envcheck.cli.report import print_answer
from envcheck.host.pip_settings import read_pip_settings
from envcheck.matrix import MatrixError
from envcheck.matrix.companions import matrix_sections, section_of
from envcheck.matrix.load import load_document
from envcheck.matrix.refresh import refresh as refreshing
from envcheck.matrix.refresh import verify as verifying
from envcheck.matrix.refresh.files import find_user_matrix, save_document
from envcheck.matrix.refresh.index import ArtifactError, is_version
from envcheck.matrix.refresh.reader import Cache, Reader, find_user_cache
from envcheck.matrix.refresh.refresh import Change, format_change, list_changes
from envcheck.matrix.refresh.refresh import Document as MatrixDocument
from envcheck.matrix.stored import DataFile
from envcheck.matrix.update import Update, read_request, undo, update
from envcheck.model import COMPATIBLE, UNDETERMINED, inert, replace
from envcheck.model.text import counted
from envcheck.render.document import Document, Line, Section
from envcheck.render.json_contracts import document_text, schema_keys
from envcheck.rules.matrix_question import check_framework

_COLORS = {"added": "green", "removed": "red", "changed": "yellow"}


def refresh(
    printing: common.Printing,
    *,
    matrix: str | None,
    frameworks: Sequence[str],
    since: str,
    output: str | None,
    deep: bool,
) -> int:
    """Refresh the matrix, write it and print what changed.

    Write nothing if anything could not be read.
    """
    require_extra("matrix", "envcheck matrix refresh")
    document, names = _load(matrix, frameworks)
    if since and not is_version(since):
        raise UserError(f"--since {since}: not a version such as 2.15.")
    target = Path(output) if output else find_user_matrix()
    try:
        result = _refresh(document, names, since, printing, deep=deep)
        save_document(result.document, target)
    except ArtifactError as error:
        message = f"{error} Nothing was written."
        if printing.form == "text":
            click.echo(f"envcheck: {inert(message)}", err=True)
        else:
            failed = Document("envcheck matrix refresh", UNDETERMINED, message)
            encoded = partial(_render_json, failed, names)
            print_answer(printing, lambda **_: failed, encoded)
        return OF_VERDICT[UNDETERMINED]
    changes = list_changes(document, result.document)
    describe = partial(_describe_result, changes, result)
    encode = partial(_render_json, describe(), names, str(target), result, changes)
    print_answer(printing, describe, encode)
    if printing.form == "text":
        use = ""
        if not target.is_dir():
            use = f" Use it: {type_here('envcheck', 'doctor', '--matrix', str(target))}"
        click.echo(f"Saved to {inert(str(target))}.{use}", err=True)
    return OF_VERDICT[COMPATIBLE]


def _load(matrix: str | None, frameworks: Sequence[str]) -> tuple[MatrixDocument, list[str]]:
    """Load the whole matrix, and choose the sections that the user names, or all."""
    try:
        document = load_document(matrix)
    except MatrixError as error:
        raise UserError(str(error)) from None
    for name in frameworks:
        if not section_of(name):
            check_framework(name, matrix_sections())
    chosen = {section_of(name) for name in frameworks}
    return document, [name for name in matrix_sections() if not chosen or name in chosen]


def _refresh(
    document: MatrixDocument, names: list[str], since: str, printing: common.Printing, *, deep: bool
) -> refreshing.RefreshResult:
    today = datetime.now(timezone.utc).date().isoformat()
    with _open_index() as reader, closing(Progress(quiet=printing.quiet)) as progress:
        listings = [refreshing.list_framework(reader, name, since) for name in names]
        result = refreshing.refresh(document, listings, reader, today, progress.count_wheels)
        if deep:
            chosen = None
            if not since:
                chosen = refreshing.find_new_rows(document, result.document)
            with closing(Progress("Reading binaries", quiet=printing.quiet)) as bar:
                binaries = reader.open_binaries(bar.count_bytes)
                odd = refreshing.add_binaries(
                    result.document, listings, binaries, today, bar.count_wheels, chosen=chosen
                )
                result = replace(result, left_out=(*result.left_out, *odd))
        return result


@contextmanager
def _open_index(*, cached: bool = True) -> Iterator[Reader]:
    """Open the index that pip is configured for; raises SettingsError."""
    reader = Reader(read_pip_settings(os.environ), Cache(find_user_cache()) if cached else None)
    try:
        yield reader
    finally:
        reader.close()


class Progress(common.ProgressLine):
    """Counts wheels, and for binaries the megabytes received."""

    def __init__(self, label: str = "Reading wheels", *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._label, self._received, self._wheels = label, 0, (0, 0)

    def count_wheels(self, done: int, total: int) -> None:
        """Show how many wheels were read."""
        self._wheels = done, total
        received = ""
        if self._received:
            received = f", {self._received // 1_000_000} MB received"
        self.show(f"{self._label}{received}", done, total)

    def count_bytes(self, size: int) -> None:
        """Show how many megabytes were received."""
        before, self._received = self._received // 1_000_000, self._received + size
        if self._wheels[1] and self._received // 1_000_000 > before:
            self.count_wheels(*self._wheels)


def _render_json(
    document: Document,
    names: list[str],
    target: str | None = None,
    result: refreshing.RefreshResult | None = None,
    changes: Sequence[Change] = (),
) -> str:
    """Render the document of schema envcheck/matrix-refresh/1."""
    encoded = {
        **schema_keys("envcheck/matrix-refresh/1"),
        "verdict": document.verdict,
        "message": document.headline,
        "frameworks": names,
        "saved_to": target,
        "changes": [vars(change) for change in changes],
        "left_out": list(result.left_out) if result else [],
        "vanished": list(result.vanished) if result else [],
    }
    return document_text(encoded)


def _describe_changes(changes: list[Change], *, verbose: bool) -> Iterator[Line]:
    """Say each change in words, and with `verbose` which wheel it was read from."""
    for change in changes:
        for text in format_change(change):
            yield Line(text, kind=_COLORS[change.kind])
        if verbose:
            yield Line(change.artifact, "    read from ")


def _describe_result(
    changes: list[Change],
    result: refreshing.RefreshResult,
    *,
    verbose: bool = False,
    quiet: bool = False,
) -> Document:
    lines = [] if quiet else [*_describe_changes(changes, verbose=verbose)]
    lines += [Line(text, "left out: ") for text in result.left_out]
    lines += [Line(text, "no longer on the index, kept: ") for text in result.vanished]
    return _make_listing("envcheck matrix refresh", lines, count_changes(changes))


def _make_listing(
    title: str, lines: Iterable[Line], headline: str, verdict: str = COMPATIBLE
) -> Document:
    """Describe an answer whose headline says what the lines above it come to."""
    listed = (Section(tuple(lines)),)
    return Document(title, verdict, headline, about=listed, is_listing=True)


def count_changes(changes: list[Change]) -> str:
    """Say how many rows changed."""
    if not changes:
        return "No release, Python or requirement changed."
    counts = Counter(change.kind for change in changes)
    parts = [f"{counted(counts[kind], 'row')} {kind}" for kind in _COLORS if counts[kind]]
    return ", ".join(parts) + "."


def verify(
    printing: common.Printing,
    *,
    matrix: str | None,
    frameworks: Sequence[str],
    sample: int,
    deep: int | None,
) -> int:
    """Read wheels again and print each cell of the matrix that differs from them.

    `sample` rows, and the binaries of `deep` wheels: 0 for all, None for none.
    """
    require_extra("matrix", "envcheck matrix verify")
    document, names = _load(matrix, frameworks)
    try:
        found = _verify(document, names, sample, deep, printing)
    except ArtifactError as error:
        found = verifying.Verification(unread=[str(error)])
    encode = partial(document_text, found.to_json())
    print_answer(printing, partial(_describe_verification, found), encode)
    return OF_VERDICT[found.verdict]


def _verify(
    document: MatrixDocument,
    names: list[str],
    sample: int,
    deep: int | None,
    printing: common.Printing,
) -> verifying.Verification:
    with _open_index(cached=False) as reader, closing(Progress(quiet=printing.quiet)) as progress:
        listings = [refreshing.list_framework(reader, name) for name in names]
        found = verifying.verify(document, listings, reader, sample, progress.count_wheels)
        if deep is not None:
            with closing(Progress("Reading binaries", quiet=printing.quiet)) as bar:
                binaries = reader.open_binaries(bar.count_bytes)
                verifying.verify_binaries(
                    document, listings, binaries, deep, bar.count_wheels, found=found
                )
    return found


def _describe_verification(
    found: verifying.Verification, *, verbose: bool = False, quiet: bool = False
) -> Document:
    binaries = ""
    if found.binaries:
        binaries = f", and {found.binaries} with the binaries of their wheels"
    text = (
        f"Compared {found.rows} rows with {found.cells} cells that were read from"
        f" artifacts{binaries}: {len(found.disagreements)} differences, {len(found.vanished)} no"
        f" longer on the index, {len(found.unread)} artifacts not read."
    )
    lines = [] if quiet else [*_list_verified(found, verbose=verbose)]
    document = _make_listing("envcheck matrix verify", lines, text, found.verdict)
    if quiet or not found.documented:
        return document
    counts = ", ".join(
        f"{count} of {name.replace('_', ' ')}" for name, count in sorted(found.documented.items())
    )
    unverified = sum(found.documented.values())
    rest = Line(f"Not verified here: {unverified} cells that rest on documents: {counts}.")
    return replace(document, sections=(Section((rest,), is_apart=False),))


def _list_verified(found: verifying.Verification, *, verbose: bool) -> Iterator[Line]:
    for label in found.held if verbose else ():
        yield Line(label, "compared: ")
    for item in found.disagreements:
        label = f"{item.distribution} {item.version} on {item.platform}"
        if item.cell == "row":
            text = f"{label} is on the index ({item.artifact}) and not in the matrix"
        else:
            text = (
                f"{label}: {item.cell} is {item.matrix!r} in the matrix"
                f" and {item.artifact!r} in the artifact"
            )
        yield Line(text, kind="red")
    for label in found.vanished:
        yield Line(label, "no longer on the index: ", "yellow")
    for text in found.unread:
        yield Line(text, "not read: ", "yellow")


def run_update(source: str, sha256: str, bundle: str, printing: common.Printing) -> int:
    """Fetch, check and store a data file, then say what changed and which data is in use."""
    return _print_update(
        update(read_request(source, sha256, bundle, os.environ), os.environ), printing
    )


def run_undo(printing: common.Printing) -> int:
    """Go back to the data before the last update."""
    return _print_update(undo(), printing)


def _print_update(done: Update, printing: common.Printing) -> int:
    changes: list[Change] = []
    if done.before is not done.after:
        changes = list_changes(done.before, done.after)
    encode = partial(_render_update, done, changes)
    print_answer(printing, partial(_describe_update, done, changes), encode)
    return OF_VERDICT[COMPATIBLE]


def _describe_update(
    done: Update, changes: list[Change], *, verbose: bool = False, quiet: bool = False
) -> Document:
    lines = [*_describe_changes(changes, verbose=True)] if verbose else []
    if not quiet:
        lines.append(Line(count_changes(changes)))
    return _make_listing("envcheck matrix update", lines, _say_what_is_used(done))


def _say_what_is_used(done: Update) -> str:
    """Say which data is in use, how old it is, and how it was proven."""
    used, day = done.in_use, done.after["checked"]
    origin = "built in"
    if used:
        origin = f"from {used.source}, proven by {used.proof}"
    return f"The data in use is of {day} ({_count_days(day)}), {origin}."


def _count_days(day: str) -> str:
    days = (datetime.now(timezone.utc).date() - date.fromisoformat(day)).days
    if days <= 0:
        return "today"
    return f"{counted(days, 'day')} old"


def _render_update(done: Update, changes: list[Change]) -> str:
    """Build the document of schema envcheck/matrix-update/1."""
    used, previous = done.in_use, done.stored.previous
    encoded = {
        **schema_keys("envcheck/matrix-update/1"),
        "verdict": COMPATIBLE,
        "message": _say_what_is_used(done),
        "checked": done.after["checked"],
        "used": _encode(used),
        "previous": _encode(previous),
        "changes": [vars(change) for change in changes],
    }
    return document_text(encoded)


def _encode(file: DataFile | None) -> dict[str, str] | None:
    return dict(vars(file)) if file else None
