"""Render rows and tables of the matrix as text and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from envcheck import __version__
from envcheck.model import COMPATIBLE, Citation, dataclass
from envcheck.model.codec import encode
from envcheck.model.releases import FrameworkRelease
from envcheck.model.versions import numbers
from envcheck.render.inert import inert
from envcheck.render.json_report import document_text
from envcheck.rules.matrix_question import Answer, TableRow
from envcheck.rules.pytorch_index import IndexVariant

if TYPE_CHECKING:
    from rich.console import Console


_WORDS = {
    "architectures": "GPU code",
    "needed": "needs",
    "opens": "may open",
    "runpath": "looks in",
    "symbols": "asks for",
    "compilers": "compiled by",
}


def binary_lines(label: str, binaries: Mapping[str, Any]) -> Iterator[str]:
    """Yield which wheel and how much of it was read, then one line a binary."""
    if not binaries:
        return
    read = binaries["read"]
    yield inert(f"{label} binaries: {len(read)} of the {binaries['binaries']} in {binaries['wheel']} were read:")
    for name, facts in read.items():
        told = [f"{words} {_joined(facts[fact])}" for fact, words in _WORDS.items() if facts.get(fact)]
        yield inert(f"  {name}: {'; '.join(told)}")


def _joined(fact: Any) -> str:
    if isinstance(fact, dict):
        return " ".join(f"{family}_{version}" for family, version in fact.items())
    return (", " if any(" " in item for item in fact) else " ").join(fact)


class Sources:
    """The citations of the rows printed, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[Citation, int] = {}

    def marks(self, citations: tuple[Citation, ...]) -> str:
        """Return the numbers of citations: "[1][3]"."""
        return "".join(f"[{self._numbers.setdefault(item, len(self._numbers) + 1)}]" for item in citations)

    def lines(self) -> list[str]:
        """List what the numbers stand for."""
        return [
            inert(f"[{number}] {item.url_or_artifact}, {item.locator}, checked {item.checked}")
            for item, number in self._numbers.items()
        ]


def remarks(item: Answer, sources: Sources, *, verbose: bool, single: bool) -> Iterator[str]:
    """Say what a row's cells cannot; a `single` release is told with the distributions it brings."""
    row = item.release
    label = f"{row.distribution}=={row.version}"
    if row.yanked:
        yield f"{label} on {row.platform}: yanked from the index."
    if item.why:
        yield inert(f"? {label} on {row.platform}: {'; '.join(item.why)}.")
    for problem in item.problems:
        fix, where = problem.fix or problem.remedy, f" on {', '.join(problem.platforms)}" if problem.platforms else ""
        yield inert(f"{label}{where}: {problem.what}" + (f" Fix: {fix}" if fix else ""))
    if row.cuda_wheels and (single or verbose):
        extra = f"[{row.gpu_extra}] " if row.gpu_extra else ""
        yield inert(f"{label} on {row.platform} {extra}brings: {' '.join(row.cuda_wheels)}")
    if item.companions and (single or verbose):
        yield inert(f"{label} on {row.platform} goes with: {' '.join(item.companions)}")
    yield from _variants(item, sources)
    if verbose:
        yield from _details(row)


def _variants(item: Answer, sources: Sources) -> Iterator[str]:
    """Name the builds of a torch release on PyTorch's own index, newest CUDA first."""
    if not item.variants:
        return
    row, first = item.release, item.variants[0]
    names = ", ".join(f"{variant.cuda} ({_where(variant)})" for variant in item.variants)
    cited = sources.marks((first.citation,))
    yield inert(
        f"{row.distribution}=={row.version} on {row.platform}: PyTorch's own index has it for CUDA {names}; "
        f"{first.proof} {cited}"
    )


def _where(variant: IndexVariant) -> str:
    code = " ".join(map(shown_target, variant.compute_capabilities))
    return variant.index_url + (f" with code for {code}" if code else "")


def shown_target(target: str) -> str:
    """Write a target as people do: sm_80 is 8.0, compute_90 is 9.0+PTX."""
    kind, _, number = target.partition("_")
    digits, suffix = (number[:-1], number[-1]) if number[-1].isalpha() else (number, "")
    return f"{digits[:-1]}.{digits[-1]}{suffix}" + ("+PTX" if kind == "compute" else "")


def _details(row: FrameworkRelease) -> Iterator[str]:
    label = f"{row.distribution}=={row.version} on {row.platform}"
    needs = " ".join(f"{name}{specifier}" for name, specifier in row.requires.items())
    if needs:
        yield inert(f"{label} requires: {needs}")
    tools = [row.compiler or "", f"TensorRT {row.tensorrt}" if row.tensorrt not in {None, "none"} else ""]
    if any(tools):
        yield inert(f"{label} built with: {', '.join(filter(None, tools))}")
    if row.note:
        yield inert(f"{label} note: {row.note}")
    yield from binary_lines(label, row.binaries)
    yield f"{label} proof: {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}"


@dataclass(frozen=True)
class Tables:
    """What a question to the tables of the matrix found."""

    verdict: str
    message: str  # one sentence
    checked: str  # day the matrix was checked
    requirement: str
    rows: tuple[TableRow, ...]


def render_tables_json(found: Tables) -> str:
    """Render rows, schema envcheck/matrix-tables/1."""
    document = {
        "schema": "envcheck/matrix-tables/1",
        "tool_version": __version__,
        "matrix_checked": found.checked,
        "verdict": found.verdict,
        "message": found.message,
        "question": {"requirement": found.requirement},
        "rows": encode(found.rows),
    }
    return document_text(document)


def render_tables(found: Tables, *, verbose: bool, quiet: bool) -> str:
    """Render rows as text with the sources each rests on; `verbose` tells how cells are known, `quiet` no more."""
    sources = Sources()
    lines = [line for row in found.rows for line in _row(row, sources, verbose=verbose, quiet=quiet)]
    message = [] if quiet and lines else [inert(found.message)]
    return "\n".join([*lines, *sources.lines(), *message])


def _row(row: TableRow, sources: Sources, *, verbose: bool, quiet: bool) -> Iterator[str]:
    yield inert(f"{row.name} {sources.marks(row.citations)}")
    width = max(map(len, row.cells), default=0)
    for name, value in row.cells.items():
        documented = row.proof.get(name, row.proof.get("*")) == "documented"
        yield inert(f"  {name.replace('_', ' '):<{width}}  {_text(value)}" + (" *" if documented and not quiet else ""))
    if row.note and not quiet:
        yield inert(f"  {'note':<{width}}  {row.note}")
    if verbose:
        yield inert(f"  {'proof':<{width}}  {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}")


def _text(value: Any) -> str:
    """Write a cell: lists by blanks, tables as name and value."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}:{_text(item) if item else '?'}" for name, item in value.items())
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "yes" if value is True else str(value)


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
        "rows": [_table_row(item) for item in rows.answers],
    }
    return document_text(document)


def _table_row(item: Answer) -> dict[str, Any]:
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
    minors = [numbers(text) for text in row.pythons]
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
