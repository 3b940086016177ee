"""Write a document as text.

Plain lines when piped; on a terminal wrapped, each with its mark and colour.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TextIO, TypeAlias

from envcheck.model import COMPATIBLE, INCOMPATIBLE, NOTE, OTHER_CAUSE, inert, replace
from envcheck.render.document import (
    ABSENT,
    ASKED,
    BROKEN,
    HEADING,
    NEEDLESS,
    SOUND,
    UNREAD,
    WARNED,
    Block,
    Command,
    Document,
    Line,
    Machine,
    Section,
    Shown,
    Step,
    Table,
    Way,
    format_evidence,
)

Written: TypeAlias = "Line | Table"
_BLANK = Line("")
_EVIDENCE = 2  # of a finding, without -v
_LONG_FIX = 5  # lines: beside it the first evidence is enough, without -v
_SILENT = frozenset({"", "-", "?"})  # a column of these alone is left out on a narrow terminal


def print_document(document: Document, *, color: bool, stream: TextIO | None = None) -> None:
    """Print to stdout or another stream: drawn on a terminal or in colour, plain when piped."""
    stream, lines = stream or sys.stdout, list_lines(document)
    if stream.isatty() or color:
        rows = lay_out(lines, terminal_size(stream)[0], color=color, is_ascii=wants_ascii(stream))
        write_styled(rows, stream, color=color)
    else:
        encoding = stream.encoding or "ascii"
        stream.write(_join(lines).encode(encoding, "replace").decode(encoding))
        stream.flush()  # --watch and --follow say what is now


def render_text(document: Document) -> str:
    """Write the text that a pipe gets."""
    return _join(list_lines(document))


def list_lines(document: Document) -> list[Written]:
    """List the lines: the verdict first, that of a listing below it, and last what to type."""
    verdict = Line(document.headline, document.label, document.kind or document.verdict)
    head = [Section(document.below, verdict)] if document.headline else []
    findings = Section(
        document.findings, is_apart=bool(document.findings) and document.findings[0].is_brief
    )
    about = [*document.about, *head] if document.is_listing else [*head, *document.about]
    lines: list[Written] = []
    for section in (*about, findings, *document.sections):
        lines += _write_section(section, document, after=lines)
    closing = _write_section(document.closing, document, after=lines) if document.closing else []
    if closing and _is_repeated(closing[-1], lines):
        closing = []
    if document.counts:
        lines += [_BLANK, Line(document.counts, kind="dim")]
    return [*lines, *(closing[1:] if document.counts else closing)]


def _is_repeated(closing: Written, lines: list[Written]) -> bool:
    """Whether the last line is the only command above it, or a sentence that stands there."""
    if isinstance(closing, Table):
        return closing == lines[-1]
    said = [line for line in lines if not isinstance(line, Table)]
    if _is_command(closing):
        return {line.text for line in said if _is_command(line)} == {closing.text}
    return any(closing.text in line.text for line in said)


def _write_section(section: Section, document: Document, *, after: list[Written]) -> list[Written]:
    lines = [line for block in section.blocks for line in _write_block(block, document)]
    if section.title is not None:
        lines = [section.title, *_indent_lines(lines)]
    return [_BLANK, *lines] if section.is_apart and after and lines else lines


def _indent_lines(lines: Iterable[Written]) -> Iterator[Written]:
    for line in lines:
        yield line if isinstance(line, Table) else replace(line, label=f"  {line.label}")


def _write_block(block: Block, document: Document) -> Iterator[Written]:
    match block:
        case Machine():
            width = max(len(layer.name) for layer in block.layers)
            layers, missing = block.layers, ""
            if not document.is_verbose:
                layers = tuple(each for each in layers if each.state not in (ABSENT, NEEDLESS))
                missing = ", ".join(each.name for each in block.layers if each not in layers)
            for layer in layers:
                wrong = f" ({layer.state}: {', '.join(layer.wrong)})" if layer.wrong else ""
                yield Line(layer.text + wrong, f"{layer.name:<{width}}  ", layer.state)
            if missing:
                yield Line(missing, f"{'Not here':<{width}}  ", ABSENT)
        case Way():
            yield Line(block.summary, f"{block.label}: ", block.kind)
            yield from _write_commands(block.commands)
        case Step():
            yield from (_BLANK, Line(block.title + block.about, "# "))
            if block.command is not None:
                yield Line(block.command.typed, "$ ", "bold")
            yield from block.traces
        case Command():
            yield from _write_commands((block,))
        case Shown():
            yield from () if block.is_said else _write_finding(block, document)
        case _:
            yield block


def _write_commands(commands: tuple[Command, ...]) -> Iterator[Line]:
    for command in commands:
        if command.purpose:
            yield Line(command.purpose, "  # ", "dim")
        if command.line:
            yield Line(command.typed, "  $ ", "bold")


def _write_finding(finding: Shown, document: Document) -> Iterator[Written]:
    ways = finding.fix if finding.here is None else finding.here
    if finding.is_brief:
        yield Line(f"{finding.id}: {finding.message}", f"{finding.severity}: ", finding.severity)
        yield from _indent_lines(line for way in ways for line in _write_commands(way.commands))
        return
    yield from (_BLANK, Line(finding.title, f"{finding.kind}: ", finding.kind))
    # without its first letter, which is a capital only here
    unsaid = " ".join(
        sentence
        for sentence in re.split(r"(?<=[.]) (?=[A-Z0-9])", finding.message)
        if sentence[1:].rstrip(".") not in document.headline
    )
    if unsaid:
        yield Line(unsaid, "  ")
    evidence = tuple(dict.fromkeys(finding.evidence))
    if not document.is_verbose:
        new = (item for item in evidence if item.source or item.shown not in finding.message)
        lines = sum(len([*_write_block(way, document)]) for way in ways)
        evidence = tuple(new)[: 1 if lines >= _LONG_FIX else _EVIDENCE]
    for item in evidence:
        # on this machine; from the matrix
        label = "  seen: " if item.citation is None else "  known: "
        yield Line(format_evidence(item, is_short=not document.is_verbose), label, "dim")
    for way in ways:
        yield from _indent_lines(_write_block(way, document))


_STYLE_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35}
# Of the 256 colours those that are read on white and on black alike: a terminal's own yellow is
# unreadable on white.
COLORS = {"red": 196, "green": 28, "yellow": 130, "magenta": 163}
_DEFAULT_SIZE = 80, 24  # columns and lines


def align_table(table: Table, width: int | None = None) -> list[list[str]]:
    """Align a table in columns, and return the lines of each row, the head first.

    The widest cells are folded where it is wider than `width`; [] where too little of them would be
    left.
    """
    rows = [table.head, *([inert(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    least = [max(table.narrowest, *map(len, title.split() or [""])) for title in table.head]
    while width is not None and sum(widths) + 2 * len(widths) - 2 > width:
        wide = [place for place, size in enumerate(widths) if size > least[place]]
        if not wide:
            return []
        widths[max(wide, key=widths.__getitem__)] -= 1
    folded = (zip_longest(*map(_fold, row, widths), fillvalue="") for row in rows)
    return [
        ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines] for lines in folded
    ]


def _fold(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    import textwrap

    is_command = " --" in cell
    return textwrap.wrap(cell, max(width, 1), break_on_hyphens=not is_command) or [""]


def _draw_table(table: Table, width: int) -> Iterator[Line]:
    """Draw a table for a terminal; where that is too narrow, each row is a list."""
    room = width - 2 if table.kinds else width
    aligned = align_table(table, room)
    left_out: list[str] = []
    if not aligned:
        short = _leave_empty_columns(table)
        aligned = align_table(short, room)
        left_out = [name for name in table.head if name not in short.head]
    if not aligned:
        yield from _list_rows(table)
        return
    below = HEADING if table.kinds else ""
    for lines, kind in zip_longest(aligned, (below or "bold", *table.kinds), fillvalue=""):
        yield Line(lines[0], kind=kind)
        for line in lines[1:]:
            yield Line(line, kind=below or kind)
    if left_out:
        yield Line(f"{', '.join(left_out)}: unknown or none.", kind="dim")


def _leave_empty_columns(table: Table) -> Table:
    """Return a table without the columns that are empty in every row."""
    columns = zip(table.head, *table.rows, strict=True)
    kept = [column for column in columns if not _SILENT.issuperset(column[1:])]
    head, *rows = zip(*kept, strict=True) if kept else [()]
    return replace(table, head=head, rows=tuple(rows))


def _list_rows(table: Table) -> Iterator[Line]:
    size = max(map(len, table.head))
    for row, kind in zip_longest(table.rows, table.kinds, fillvalue=""):
        title = f"{table.head[0]} {row[0]}" if row[0].isdigit() else row[0]
        yield Line(title, kind=kind or "bold")
        cells = zip(table.head[1:], row[1:], strict=True)
        for name, cell in cells:
            if cell not in {"", "-"}:
                yield Line(cell, f"  {name:<{size}} ")


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return the columns and lines of a terminal; the variable COLUMNS overrides the first."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except OSError:
        columns, lines = 0, 0
    stated = os.environ.get("COLUMNS", "")
    return (
        int(stated) if stated.isdecimal() else columns or _DEFAULT_SIZE[0]
    ), lines or _DEFAULT_SIZE[1]


def wants_ascii(stream: TextIO) -> bool:
    """Return whether a terminal shows the marks of lines in ASCII alone."""
    try:
        "\u2713\u2717\u2013".encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return True
    # the kernel's own console lacks these letters
    return os.environ.get("TERM") in ("dumb", "linux")


def styled(text: str, style: str) -> str:
    """Write text in a style such as `bold red`, for a terminal."""
    has_256 = "256" in os.environ.get("TERM", "") or bool(os.environ.get("COLORTERM"))
    words = style.split()
    codes = ";".join(
        f"38;5;{COLORS[word]}" if has_256 and word in COLORS else f"{_STYLE_CODES[word]}"
        for word in words
    )
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def write_styled(lines: Iterable[tuple[str, str]], stream: TextIO, *, color: bool) -> None:
    """Write lines, each with its style, to a terminal."""
    import click

    text = "".join((styled(text, style) if color else text) + "\n" for text, style in lines)
    encoding = stream.encoding or "utf-8"
    # Consoles of Windows that know no escape sequences get their colours from click.
    click.echo(text.encode(encoding, "replace").decode(encoding), stream, nl=False, color=color)


Look = tuple[str, str, str]  # a mark, the mark in ASCII, and a style

# What a line says of its subject -> its look. No mark stands without a word beside it that says the
# same.
_BAD: Look = ("\u2717", "x", "bold red")
_GOOD: Look = ("\u2713", "+", "bold green")
_NEITHER: Look = ("\u2013", "-", "")
LOOKS: dict[str, Look] = {
    BROKEN: _BAD,
    INCOMPATIBLE: _BAD,
    OTHER_CAUSE: _BAD,
    WARNED: ("!", "!", "yellow"),
    UNREAD: ("?", "?", "bold magenta"),
    SOUND: _GOOD,
    COMPATIBLE: _GOOD,
    HEADING: (" ", " ", ""),  # above lines with marks
    **dict.fromkeys((ABSENT, NEEDLESS, ASKED, NOTE), _NEITHER),
}


def _join(lines: Iterable[Written]) -> str:
    """Write lines as plain text."""
    plain: list[str] = []
    for line in lines:
        if isinstance(line, Table):
            plain += (each for row in align_table(line) for each in row)
        else:
            plain.append((inert(line.label) + _make_inert(line)).rstrip())
    return "".join(f"{each}\n" for each in plain)


_WHOLE = ("$ ", "undo: ", "check: ")  # labels of commands: a wrapped one could not be pasted


def _is_command(line: Line) -> bool:
    return line.label.endswith(_WHOLE)


def _make_inert(line: Line) -> str:
    # a shell's line is inert, and may be folded
    return line.text if _is_command(line) else inert(line.text)


def lay_out(
    lines: Iterable[Written], width: int, *, color: bool, is_ascii: bool
) -> Iterator[tuple[str, str]]:
    """Wrap and mark the lines for a terminal; yield each row with its style."""
    for line in lines:
        if isinstance(line, Table):
            yield from lay_out(_draw_table(line, width), width, color=color, is_ascii=is_ascii)
            continue
        mark, in_ascii, style = LOOKS.get(line.kind, ("", "", line.kind))
        label = inert(line.label)
        head = label
        if mark:
            head = f"{in_ascii if is_ascii else mark} {label}"
        text = _make_inert(line)
        first, *others = [head + text] if _is_command(line) else _wrap(head, text, width)
        if mark and color:
            first = styled(first[: len(head)], style) + first[len(head) :]
        yield first, "" if mark else style
        for row in others:
            yield (row, "" if mark else style)


def _wrap(label: str, text: str, width: int) -> list[str]:
    import textwrap

    indent = " " * min(len(label), 14)
    return textwrap.wrap(
        label + text, max(width, 24), subsequent_indent=indent, break_on_hyphens=False
    ) or [""]
