"""What `envcheck matrix refresh` does with the index; its options stand in matrix.py."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck import __version__
from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.cli.matrix_index import asked_frameworks, index_reader, matrix_document, progress_bar
from envcheck.model.findings import COMPATIBLE, UNDETERMINED
from envcheck.model.records import dataclass
from envcheck.render.inert import inert

if TYPE_CHECKING:
    from envcheck.matrix.renew.changes import Change
    from envcheck.matrix.renew.refresh import Renewal

_COLORS = {"added": "green", "removed": "red", "changed": "yellow"}


@dataclass(frozen=True)
class Asked:
    """What a user asks a renewal to do."""

    matrix_file: str | None
    frameworks: Sequence[str]
    since: str
    output: str | None
    today: str
    deep: bool


def refresh(asked: Asked, style: options.Printing) -> int:
    """Renew the matrix, write it, and tell what changed; nothing is written when anything could not be read."""
    from envcheck.matrix.renew.changes import list_changes
    from envcheck.matrix.renew.errors import ArtifactError
    from envcheck.matrix.renew.save import save_document, user_matrix

    document = matrix_document(asked.matrix_file)
    names = asked_frameworks(document, asked.frameworks)
    _check_version(asked.since)
    target = Path(asked.output) if asked.output else user_matrix()
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


def _renewed(document: dict[str, Any], names: list[str], asked: Asked, style: options.Printing) -> Renewal:
    from envcheck.matrix.renew.deep_refresh import deepen, new_rows
    from envcheck.matrix.renew.refresh import list_framework
    from envcheck.matrix.renew.refresh import refresh as renew

    with index_reader() as reader, progress_bar(quiet=style.quiet) as progress:
        listings = [list_framework(reader, name, asked.since) for name in names]
        renewal = renew(document, listings, reader, asked.today, progress.wheels)
        if asked.deep:
            chosen = None if asked.since else new_rows(document, renewal.document)
            with progress_bar("Reading binaries", quiet=style.quiet) as bar:
                deep = reader.of_binaries(bar.received)
                deepen(renewal.document, listings, deep, asked.today, bar.wheels, chosen=chosen)
        return renewal


def _check_version(since: str) -> None:
    from envcheck.matrix.renew.wheels import is_version

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
    from envcheck.matrix.renew.changes import lines_of

    for change in () if style.quiet else changes:
        for line in lines_of(change):
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
