"""Write a document as Markdown and as GitHub annotations."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.model import ERROR, UNDETERMINED, WARNING, inert
from envcheck.render.document import (
    Block,
    Command,
    Document,
    Line,
    Machine,
    Row,
    Section,
    Shown,
    Step,
    Table,
    Way,
    format_evidence,
)

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!&@$])")  # & begins an entity, $ a formula
# calls for a person, escaped or not: a mark without width keeps it from that
_PERSON = re.compile(r"@(?=\w)")


def escaped(text: str) -> str:
    """Escape what Markdown or HTML would act on."""
    return _PERSON.sub("@\u200b", _MARKS.sub(r"\\\1", inert(text)))


def render_markdown(document: Document) -> str:
    """Write a document; text from the machine is escaped, commands stand in fenced blocks."""
    lines = [f"## {document.title}: {document.verdict}", "", escaped(document.headline), ""]
    lines += _write_blocks(document.below)
    lines += [line for section in document.about for line in _write_section(section)]
    if document.all_findings:
        rows = [
            f"| {_format_kind(item)} | `{item.id}` | {escaped(item.message)} |"
            for item in document.all_findings
        ]
        lines += ["| | finding | what it means here |", "| --- | --- | --- |", *rows, ""]
    lines += _write_blocks(item for item in document.all_findings if not item.follows)
    closing = [] if document.closing is None else [document.closing]
    lines += [
        line for section in (*document.sections, *closing) for line in _write_section(section)
    ]
    return "\n".join(lines)


def _write_section(section: Section) -> list[str]:
    if section.title is None:
        title = []
    else:
        title = [f"**{escaped(section.title.label + section.title.text)}**", ""]
    return [*title, *_write_blocks(section.blocks)]


def _write_blocks(blocks: Iterable[Block]) -> list[str]:
    """Write blocks with a blank line below each, and sentences as a list."""
    lines: list[str] = []
    for block in blocks:
        if not isinstance(block, Line) and lines and lines[-1]:
            lines.append("")
        lines += _write_block(block)
        if not isinstance(block, Line) and lines and lines[-1]:
            lines.append("")
    return [*lines, ""] if lines and lines[-1] else lines


def _write_block(block: Block) -> list[str]:
    lines: list[str] = []
    match block:
        case Line():
            lines = [f"- {escaped((block.label + block.text).strip())}"]
        case Command():
            lines = _write_commands((block,))
        case Table():
            lines = _write_table(block.head, block.rows)
        case Machine():
            table = _write_table(
                ("", "", ""), [(layer.name, layer.text, layer.state) for layer in block.layers]
            )
            lines = ["<details><summary>This machine</summary>", "", *table, "", "</details>"]
        case Way():
            lines = [
                escaped(f"{block.label.capitalize()}: {block.summary}"),
                *_write_commands(block.commands),
            ]
        case Step():
            command = _write_commands((block.command,) if block.command else ())
            lines = [escaped(block.title + block.about), *command, "", *_write_blocks(block.traces)]
        case Shown():
            lines = _write_finding(block)
    return lines


def _write_table(head: Row, rows: Iterable[Row]) -> list[str]:
    lines = [f"| {' | '.join(map(escaped, row))} |" for row in (head, *rows)]
    return [lines[0], f"|{' --- |' * len(head)}", *lines[1:]]


def _write_finding(finding: Shown) -> list[str]:
    if not finding.evidence and not finding.fix:
        return []
    seen = [f"- {escaped(format_evidence(item))}" for item in finding.evidence]
    return [f"### {finding.id}", "", *seen, *([""] if seen else []), *_write_blocks(finding.fix)]


def _write_commands(commands: tuple[Command, ...]) -> list[str]:
    typed = [command.typed for command in commands if command.line]
    return ["", *fenced(typed, "sh")] if typed else []


def fenced(lines: list[str], language: str = "") -> list[str]:
    """Put lines into a fence longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *lines, fence]


def _format_kind(finding: Shown) -> str:
    if finding.is_cause:
        return f"**{finding.kind}** (the cause)"
    return finding.kind


def render_github(document: Document) -> str:
    """Write one annotation for each finding, then the verdict."""
    lines = [_annotate(finding, document.file) for finding in document.all_findings]
    return (
        "\n".join([*lines, f"{document.title}: {document.verdict}: {inert(document.headline)}"])
        + "\n"
    )


def _annotate(finding: Shown, judged: str) -> str:
    level = {ERROR: "error", WARNING: "warning"}.get(finding.severity, "notice")
    title = f"envcheck {finding.id}" + (" (the cause)" if finding.is_cause else "")
    if finding.verdict == UNDETERMINED:
        title += " (undetermined)"
    text = inert(finding.message)
    for way in finding.fix:
        text += f"\n{way.label.capitalize()}: {inert(way.summary)}"
        text += "".join(f"\n$ {command.line}" for command in way.commands)
    return (
        f"::{level} {_place(finding, judged)}title={_escape_property(title)}::{_escape_data(text)}"
    )


def _place(finding: Shown, judged: str) -> str:
    """Point at the line of the judged file, or of one it names, that the evidence was read in."""
    sources = [
        item.source.where
        for item in finding.evidence
        if item.source is not None and item.source.kind == "file"
    ]
    for where in sources if judged else ():
        path, _, line = where.rpartition(":")
        if line.isdigit() and path and not path.startswith("/"):
            return f"file={_escape_property(path)},line={line},"
    return f"file={_escape_property(judged)}," if judged else ""


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
