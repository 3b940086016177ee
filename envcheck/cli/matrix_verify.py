"""What `envcheck matrix verify` does with the index; its options stand in matrix.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT
from envcheck.cli.matrix_index import asked_frameworks, index_reader, matrix_document, progress_bar
from envcheck.model.records import dataclass
from envcheck.render.inert import inert

if TYPE_CHECKING:
    from envcheck.matrix.renew.verify import Verification


@dataclass(frozen=True)
class Asked:
    """What a user asks a verification to do."""

    matrix_file: str | None
    frameworks: Sequence[str]
    sample: int  # rows; 0 for all
    deep: int | None  # wheels whose binaries are read; 0 for all, None for none


def verify(asked: Asked, style: options.Printing) -> int:
    """Hold the matrix against the wheels, read anew, and tell each cell that disagrees."""
    from envcheck.matrix.renew.errors import ArtifactError
    from envcheck.matrix.renew.verify import Verification

    document = matrix_document(asked.matrix_file)
    names = asked_frameworks(document, asked.frameworks)
    try:
        found = _held(document, names, asked, style)
    except ArtifactError as error:
        found = Verification(unread=[str(error)])
    if style.form == "json":
        click.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        _tell(found, style)
    return OF_VERDICT[found.verdict]


def _held(document: dict[str, Any], names: list[str], asked: Asked, style: options.Printing) -> Verification:
    from envcheck.matrix.renew.deep_verify import hold_binaries
    from envcheck.matrix.renew.refresh import list_framework
    from envcheck.matrix.renew.verify import verify as hold

    with index_reader(cached=False) as reader, progress_bar(quiet=style.quiet) as progress:
        listings = [list_framework(reader, name) for name in names]
        found = hold(document, listings, reader, asked.sample, progress.wheels)
        if asked.deep is not None:
            with progress_bar("Reading binaries", quiet=style.quiet) as bar:
                deep = reader.of_binaries(bar.received)
                hold_binaries(document, listings, deep, asked.deep, bar.wheels, found=found)
    return found


def _tell(found: Verification, style: options.Printing) -> None:
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
