"""Rows of the matrix: a table on a terminal, aligned lines when piped, one JSON document for scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from envcheck import __version__
from envcheck.model.codec import encode
from envcheck.model.findings import COMPATIBLE
from envcheck.model.records import dataclass
from envcheck.model.releases import FrameworkRelease
from envcheck.render.inert import inert
from envcheck.render.json_report import document_text
from envcheck.render.matrix_remarks import Sources, remarks, shown_target
from envcheck.rules.matrix_question import Answer

if TYPE_CHECKING:
    from rich.console import Console

_HEADS = ("release", "platform", "Pythons", "CUDA", "cuDNN", "GPU code", "glibc", "numpy", "source")
_MARK = "*"
_LEGEND = "* documented, not read from an artifact."


@dataclass(frozen=True)
class Rows:
    """What a question to the matrix found."""

    verdict: str
    message: str  # one sentence
    checked: str  # day the matrix was checked
    question: dict[str, Any]
    answers: tuple[Answer, ...]


def render_rows_json(rows: Rows) -> str:
    """Render rows, schema envcheck/matrix-rows/1."""
    document = {
        "schema": "envcheck/matrix-rows/1",
        "tool_version": __version__,
        "matrix_checked": rows.checked,
        "verdict": rows.verdict,
        "message": rows.message,
        "question": rows.question,
        "rows": [_row(item) for item in rows.answers],
    }
    return document_text(document)


def _row(item: Answer) -> dict[str, Any]:
    found = {"fit": item.fit, "why": list(item.why), "problems": encode(item.problems)}
    return {**encode(item.release), **found, "variants": encode(item.variants), "companions": list(item.companions)}


def print_rows(rows: Rows, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print rows to stdout with the artifact or document each rests on.

    `verbose` adds notes and proofs, `quiet` leaves out all remarks. One release alone is shown with what it brings.
    """
    sources = Sources()
    table = [_cells(item, sources) for item in rows.answers]
    if table and (sys.stdout.isatty() or color):
        _draw(table, color=color)
    elif table:
        _write(_aligned([_HEADS, *table]))
    single = len({item.release.version for item in rows.answers}) == 1
    below = [
        line
        for item in (() if quiet else rows.answers)
        for line in remarks(item, sources, verbose=verbose, single=single)
    ]
    legend = [_LEGEND] if any(_MARK in cell for row in table for cell in row) else []
    message = [] if quiet and table else [inert(rows.message)]
    _write([*legend, *dict.fromkeys(below), *sources.lines(), *message])


def _cells(item: Answer, sources: Sources) -> tuple[str, ...]:
    row = item.release

    def shown(cell: str, text: str) -> str:
        return text + (_MARK if row.proof.get(cell) == "documented" and text not in {"-", "not read"} else "")

    return (
        f"{row.distribution}=={row.version}" + ("" if item.fit == COMPATIBLE else " ?"),
        row.platform,
        shown("pythons", _pythons(row)),
        shown("cuda", (row.cuda or "not read") if row.cuda_build else "-"),
        shown("cudnn", (row.cudnn or "not read") if row.cuda_build else "-"),
        shown("compute_capabilities", _code(row)),
        shown("glibc", row.glibc or "-"),
        shown("requires", row.requires.get("numpy", "-")),
        sources.marks(row.citations),
    )


def _pythons(row: FrameworkRelease) -> str:
    """Write the minors as a range where none is missing: 3.9-3.12."""
    minors = [tuple(map(int, text.split("."))) for text in row.pythons]
    whole = [(minors[0][0], number) for number in range(minors[0][1], minors[0][1] + len(minors))]
    text = f"{row.pythons[0]}-{row.pythons[-1]}" if len(minors) > 1 and minors == whole else " ".join(row.pythons)
    return text + (f" (free-threaded {' '.join(row.free_threaded)})" if row.free_threaded else "")


def _code(row: FrameworkRelease) -> str:
    """Write compute capabilities as 8.0 for machine code and 9.0+PTX for PTX."""
    if not row.cuda_build:
        return f"stub for {row.stub_for}" if row.stub_for else "-"
    return " ".join(map(shown_target, row.compute_capabilities)) or "not read"


def _aligned(table: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in map(_inert_row, table)] + [""]


def _inert_row(row: tuple[str, ...]) -> list[str]:
    return [inert(cell) for cell in row]


def _draw(table: list[tuple[str, ...]], *, color: bool) -> None:
    """Draw a table; where the terminal is too narrow for one, write each row below the other."""
    from rich.console import Console

    console = Console(color_system="standard" if color else None, force_terminal=color or None, highlight=False)
    inside = [max(map(len, column)) for column in zip(_HEADS, *table, strict=True)]
    # Rich can fold GPU code, numpy and the sources; below this a table is harder to read than a list.
    if console.width < sum(inside[:5]) + 3 * len(_HEADS) + 40:
        for row in table:
            _draw_record(console, _inert_row(row))
        return
    _draw_table(console, table)


def _draw_table(console: Console, table: list[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*_HEADS, header_style="bold")
    for row in table:
        drawn.add_row(*(Text(cell) for cell in _inert_row(row)))
    console.print(drawn)


def _draw_record(console: Console, row: list[str]) -> None:
    from rich.text import Text

    console.print(Text(f"{row[0]} on {row[1]} {row[-1]}", style="bold"))
    for head, cell in zip(_HEADS[2:-1], row[2:-1], strict=True):
        if cell != "-":
            console.print(Text(f"  {head:<9} {cell}"))


def _write(lines: list[str]) -> None:
    encoding = sys.stdout.encoding or "ascii"
    text = "".join(line + "\n" for line in lines)
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
