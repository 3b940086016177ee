"""What `envcheck matrix verify` does with the index; its options stand in matrix.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from envcheck.cli.exits import OF_VERDICT
from envcheck.cli.matrix_index import asked_frameworks, index_reader, matrix_document, progress_bar
from envcheck.cli.matrix_refresh import Style
from envcheck.render.inert import inert

if TYPE_CHECKING:
    from envcheck.matrix.renew.verify import Verification


def verify(matrix_file: str | None, frameworks: Sequence[str], sample: int, style: Style) -> int:
    """Hold the matrix against the wheels, read anew, and tell each cell that disagrees."""
    from envcheck.matrix.renew.errors import ArtifactError
    from envcheck.matrix.renew.refresh import list_framework
    from envcheck.matrix.renew.verify import Verification
    from envcheck.matrix.renew.verify import verify as hold

    document = matrix_document(matrix_file)
    names = asked_frameworks(document, frameworks)
    try:
        with index_reader(cached=False) as reader, progress_bar(quiet=style.quiet) as progress:
            found = hold(document, [list_framework(reader, name) for name in names], reader, sample, progress)
    except ArtifactError as error:
        found = Verification(unread=[str(error)])
    if style.form == "json":
        click.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        _tell(found, style)
    return OF_VERDICT[found.verdict]


def _tell(found: Verification, style: Style) -> None:
    for line in () if style.quiet else _lines(found, style):
        click.echo(line)
    failed = (
        f"{len(found.disagreements)} disagreements, {len(found.vanished)} no longer on the index, "
        f"{len(found.unread)} artifacts not read"
    )
    click.echo(f"{found.rows} rows with {found.cells} cells read from artifacts were held against them: {failed}.")


def _lines(found: Verification, style: Style) -> list[str]:
    told = [(f"held: {label}", "") for label in found.held] if style.verbose else []
    for item in found.disagreements:
        label = f"{item.distribution} {item.version} on {item.platform}"
        said = f"{label}: {item.cell} is {item.matrix!r} in the matrix, {item.artifact!r} in the artifact"
        missing = f"{label} is on the index ({item.artifact}) and not in the matrix"
        told.append((missing if item.cell == "row" else said, "red"))
    told += [(f"no longer on the index: {label}", "yellow") for label in found.vanished]
    told += [(f"not read: {line}", "yellow") for line in found.unread]
    return [click.style(inert(text), fg=name) if name and style.color else inert(text) for text, name in told]
