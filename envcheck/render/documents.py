"""Render reports and snapshots as JSON documents; envcheck/schemas holds their schemas."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, TextIO

from envcheck import __version__
from envcheck.actions import typed_words
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    NOTE,
    Action,
    Finding,
    Remedy,
    Report,
    Snapshot,
    Step,
    encode,
    escaped_in_json,
    replace,
)


def render_json(
    report: Report,
    snapshot: Snapshot | None,
    smoke: dict[str, Any] | None = None,
    project: dict[str, Any] | None = None,
) -> str:
    """Render a report as one JSON document."""
    return document_text(report_document(report, snapshot, smoke, project))


def report_document(
    report: Report,
    snapshot: Snapshot | None,
    smoke: dict[str, Any] | None = None,
    project: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a report's document, schema envcheck/report/1; the other documents are left out if they are None."""
    document: dict[str, Any] = {
        **schema_keys("envcheck/report/1"),
        "verdict": report.verdict,
        "goal": report.goal,
        "headline": report.headline,
        "judged": _judged_document(report),
        "matrix": report.matrix,
        "checked": list(report.checked),
        **encode_findings(report),
    }
    if project is not None:
        document["project"] = project
    if snapshot is not None:
        document["snapshot"] = snapshot_document(snapshot)
    if smoke is not None:
        document["smoke"] = smoke
    return document


def _judged_document(report: Report) -> dict[str, Any]:
    """Return what the verdict is about, and how to get the releases that were judged without being installed."""
    judged, install = report.judged, report.obtained_by
    python = {"prefix": judged.environment, "chosen_by": judged.chosen_by}
    return {
        "machine": judged.machine,
        "environment": None if judged.environment is None else python,
        "releases": list(report.asked),
        "install": list(typed_words(install, report.system)) if install else None,
    }


def render_snapshot(snapshot: Snapshot) -> str:
    """Render a snapshot, schema envcheck/snapshot/1."""
    return document_text(snapshot_document(snapshot), indent=1)


def schema_keys(schema: str) -> dict[str, str]:
    """Return the first keys of every document but a snapshot."""
    return {"schema": schema, "tool_version": __version__}


def document_text(document: dict[str, Any], indent: int | None = None) -> str:
    """Write a document as JSON without characters that a terminal acts on."""
    return escaped_in_json(json.dumps(document, ensure_ascii=False, indent=indent))


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot's JSON document."""
    return {"schema": f"envcheck/snapshot/{snapshot.schema_version}", **encode(snapshot)}


def encode_findings(report: Report) -> dict[str, Any]:
    """Return each finding with the steps that resolve it, and all steps."""
    findings = [
        {**finding_document(item, report.system), "resolved_by": list(report.steps_for(item))}
        for item in report.findings
    ]
    steps = [step_document(step, report.system) for step in report.steps]
    resolves = list(dict.fromkeys(name for step in report.steps for name in step.resolves))
    plan: dict[str, Any] = {"steps": steps, "resolves": resolves}
    if report.fix_command:
        plan["command"] = ["envcheck", *report.fix_command]
    return {"findings": findings, "plan": plan}


def finding_document(finding: Finding, system: str) -> dict[str, Any]:
    """Return a finding with its remedy as it is typed on a system."""
    document: dict[str, Any] = encode(replace(finding, fix=None, problem=None, cure=None))
    for name in ("problem", "cure", "about"):
        del document[name]
    document["fix"] = remedy_document(finding.fix, system) if finding.fix else None
    return document


def remedy_document(remedy: Remedy, system: str) -> dict[str, Any]:
    """Return a remedy as it is typed on a system."""
    ways = [{"summary": way.summary, "commands": _commands(way.actions, system)} for way in remedy.alternatives]
    return {"summary": remedy.summary, "commands": _commands(remedy.actions, system), "alternatives": ways}


def _commands(actions: tuple[Action, ...], system: str) -> list[dict[str, Any]]:
    return [
        {"argv": list(typed_words(item, system)), "scope": item.scope, "purpose": item.purpose_on(system)}
        for item in actions
    ]


def step_document(step: Step, system: str) -> dict[str, Any]:
    """Return a step as it is typed on a system, with its check and its undo, or why there is none."""
    check, undo = step.checked(system), step.action.undo(system)
    return {
        "id": step.id,
        "purpose": step.action.purpose_on(system),
        "argv": list(step.action.command(system)),
        "env": step.action.variables(),
        "scope": step.scope,
        "verify": list(check.argv),
        "unverified": check.reason,
        "undo": list(undo.argv),
        "lasting": undo.reason,
        "resolves": list(step.resolves),
        "environment": step.environment,
    }


Row = tuple[str, ...]
_STYLE_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35}
# Of the 256 colours those that are read on white and on black alike: a terminal's own yellow is unreadable on white.
COLORS = {"red": 196, "green": 28, "yellow": 130, "magenta": 163}
_DEFAULT_SIZE = 80, 24  # columns and lines
_NARROWEST = 8  # columns of a cell that is folded


def aligned_rows(table: tuple[Row, list[Row]], width: int | None = None) -> list[str]:
    """Align the head and the rows of a table in columns; fold the widest cells if the table is wider than `width`."""
    return [line for lines in align_table(table, width) for line in lines]


def align_table(table: tuple[Row, list[Row]], width: int | None = None) -> list[list[str]]:
    """Align a table as `aligned_rows` does; return the lines of each row, the head first."""
    rows = [table[0], *table[1]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while width is not None and sum(widths) + 2 * len(widths) - 2 > width and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    folded = (zip_longest(*map(_fold, row, widths), fillvalue="") for row in rows)
    return [["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines] for lines in folded]


def _fold(cell: str, width: int) -> list[str]:
    return [cell[start : start + width] for start in range(0, len(cell) or 1, width or 1)]


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return the columns and lines of a terminal; the variable COLUMNS overrides the first."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except OSError:
        columns, lines = 0, 0
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdecimal() else columns or _DEFAULT_SIZE[0], lines or _DEFAULT_SIZE[1]


def wants_ascii(stream: TextIO) -> bool:
    """Tell whether a terminal shows the marks of lines in ASCII alone."""
    try:
        "\u2713\u2717\u2013".encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return True
    return os.environ.get("TERM") in ("dumb", "linux")  # the kernel's own console lacks these letters


def styled(text: str, style: str) -> str:
    """Write text in a style such as `bold red`, for a terminal."""
    has_256 = "256" in os.environ.get("TERM", "") or bool(os.environ.get("COLORTERM"))
    words = style.split()
    codes = ";".join(
        f"38;5;{COLORS[word]}" if has_256 and word in COLORS else f"{_STYLE_CODES[word]}" for word in words
    )
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def write_styled(lines: Iterable[tuple[str, str]], stream: TextIO, *, color: bool) -> None:
    """Write lines, each with its style, to a terminal."""
    import click

    text = "".join((styled(text, style) if color else text) + "\n" for text, style in lines)
    encoding = stream.encoding or "utf-8"
    # Consoles of Windows that know no escape sequences get their colours from click.
    click.echo(text.encode(encoding, "replace").decode(encoding), stream, nl=False, color=color)


BROKEN, WARNED, UNREAD, SOUND, ABSENT, NEEDLESS = "error", "warning", "undetermined", "ok", "not there", "not needed"
HEADING = "heading"
ASKED = "asked for"  # judged, and not installed

Line = tuple[str, str, str]  # (indent with label, text, what it says or its style); text wraps under the label
Look = tuple[str, str, str]  # a mark, the mark in ASCII, and a style

# What a line says of its subject -> its look. No mark stands without a word beside it that says the same.
_BAD: Look = ("\u2717", "x", "bold red")
_GOOD: Look = ("\u2713", "+", "bold green")
_NEITHER: Look = ("\u2013", "-", "")
LOOKS: dict[str, Look] = {
    BROKEN: _BAD,
    INCOMPATIBLE: _BAD,
    WARNED: ("!", "!", "yellow"),
    UNREAD: ("?", "?", "bold magenta"),
    SOUND: _GOOD,
    COMPATIBLE: _GOOD,
    HEADING: (" ", " ", ""),  # above lines with marks
    **dict.fromkeys((ABSENT, NEEDLESS, ASKED, NOTE), _NEITHER),
}


def join_lines(lines: Iterable[Line]) -> str:
    """Write lines as plain text."""
    return "".join((label + text).rstrip() + "\n" for label, text, _ in lines)


def print_lines(lines: list[Line], *, color: bool, stream: TextIO | None = None) -> None:
    """Print lines to stdout or another stream: drawn on a terminal or in colour, plain when piped."""
    stream = stream or sys.stdout
    if stream.isatty() or color:
        _print_on_terminal(lines, color=color, stream=stream)
    else:
        encoding = stream.encoding or "ascii"
        stream.write(join_lines(lines).encode(encoding, "replace").decode(encoding))


def _print_on_terminal(lines: list[Line], *, color: bool, stream: TextIO) -> None:
    rows = lay_out(lines, terminal_size(stream)[0], color=color, is_ascii=wants_ascii(stream))
    write_styled(rows, stream, color=color)


_WHOLE = ("$ ", "undo: ", "check: ")  # labels of commands: a wrapped one could not be pasted


def lay_out(lines: Iterable[Line], width: int, *, color: bool, is_ascii: bool) -> Iterator[tuple[str, str]]:
    """Wrap and mark the lines for a terminal; yield each row with its style."""
    for label, text, kind in lines:
        mark, in_ascii, style = LOOKS.get(kind, ("", "", kind))
        head = f"{in_ascii if is_ascii else mark} {label}" if mark else label
        first, *others = [head + text] if label.endswith(_WHOLE) else _wrap(head, text, width)
        if mark and color:
            first = styled(first[: len(head)], style) + first[len(head) :]
        yield first, "" if mark else style
        yield from ((row, "" if mark else style) for row in others)


def _wrap(label: str, text: str, width: int) -> list[str]:
    import textwrap

    indent = " " * min(len(label), 14)
    return textwrap.wrap(label + text, max(width, 24), subsequent_indent=indent, break_on_hyphens=False) or [""]
