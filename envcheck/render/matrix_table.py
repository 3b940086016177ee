"""Rows of the matrix: a table on a terminal, aligned lines when piped, one JSON document for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from envcheck import __version__
from envcheck.model.codec import encode
from envcheck.model.findings import COMPATIBLE, Citation
from envcheck.model.records import dataclass
from envcheck.model.releases import FrameworkRelease
from envcheck.render.inert import inert
from envcheck.rules.matrix_question import Answer

_HEADS = ("release", "platform", "Pythons", "CUDA", "cuDNN", "GPU code", "glibc", "numpy", "source")


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
    return json.dumps(document, ensure_ascii=False)


def _row(item: Answer) -> dict[str, Any]:
    return {**encode(item.release), "fit": item.fit, "why": list(item.why), "problems": encode(item.problems)}


def print_rows(rows: Rows, *, color: bool, verbose: bool) -> None:
    """Print rows to stdout with the artifact or document each rests on; `verbose` adds notes and proofs."""
    sources = _Sources()
    table = [_cells(item, sources) for item in rows.answers]
    if table and (sys.stdout.isatty() or color):
        _draw(table, color=color)
    elif table:
        _write(_aligned([_HEADS, *table]))
    below = [line for item in rows.answers for line in _remarks(item, verbose=verbose)]
    _write([*dict.fromkeys(below), *sources.lines(), inert(rows.message)])


class _Sources:
    """The citations of the rows printed, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[Citation, int] = {}

    def marks(self, citations: tuple[Citation, ...]) -> str:
        return "".join(f"[{self._numbers.setdefault(item, len(self._numbers) + 1)}]" for item in citations)

    def lines(self) -> list[str]:
        return [
            inert(f"[{number}] {item.url_or_artifact}, {item.locator}, checked {item.checked}")
            for item, number in self._numbers.items()
        ]


def _cells(item: Answer, sources: _Sources) -> tuple[str, ...]:
    row = item.release
    return (
        f"{row.distribution}=={row.version}" + ("" if item.fit == COMPATIBLE else " ?"),
        row.platform,
        _pythons(row),
        (row.cuda or "not read") if row.cuda_build else "-",
        (row.cudnn or "not read") if row.cuda_build else "-",
        _code(row),
        row.glibc or "-",
        row.requires.get("numpy", "-"),
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
    return " ".join(map(_target, row.compute_capabilities)) or "not read"


def _target(target: str) -> str:
    kind, _, number = target.partition("_")
    digits, suffix = (number[:-1], number[-1]) if number[-1].isalpha() else (number, "")
    return f"{digits[:-1]}.{digits[-1]}{suffix}" + ("+PTX" if kind == "compute" else "")


def _remarks(item: Answer, *, verbose: bool) -> Iterator[str]:
    row = item.release
    label = f"{row.distribution}=={row.version}"
    if row.yanked:
        yield f"{label} on {row.platform}: yanked from the index."
    if item.why:
        yield inert(f"? {label} on {row.platform}: {'; '.join(item.why)}.")
    for problem in item.problems:
        fix, where = problem.fix or problem.remedy, f" on {', '.join(problem.platforms)}" if problem.platforms else ""
        yield inert(f"{label}{where}: {problem.what}" + (f" Fix: {fix}" if fix else ""))
    if verbose:
        yield from _details(row)


def _details(row: FrameworkRelease) -> Iterator[str]:
    label = f"{row.distribution}=={row.version} on {row.platform}"
    needs = " ".join(f"{name}{specifier}" for name, specifier in row.requires.items())
    if needs:
        yield inert(f"{label} requires: {needs}")
    if row.cuda_wheels:
        extra = f"[{row.gpu_extra}] " if row.gpu_extra else ""
        yield inert(f"{label} {extra}brings: {' '.join(row.cuda_wheels)}")
    if row.note:
        yield inert(f"{label} note: {row.note}")
    yield f"{label} proof: {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}"


def _aligned(table: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in map(_inert_row, table)] + [""]


def _inert_row(row: tuple[str, ...]) -> list[str]:
    return [inert(cell) for cell in row]


def _draw(table: list[tuple[str, ...]], *, color: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*_HEADS, header_style="bold")
    for row in table:
        drawn.add_row(*(Text(cell) for cell in _inert_row(row)))
    console = Console(color_system="standard" if color else None, force_terminal=color or None, highlight=False)
    console.print(drawn)


def _write(lines: list[str]) -> None:
    encoding = sys.stdout.encoding or "ascii"
    text = "".join(line + "\n" for line in lines)
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
