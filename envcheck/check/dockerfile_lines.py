"""Split a Dockerfile into its instructions, here-documents kept apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model.records import dataclass

_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
_HEREDOC = re.compile(r"""(?<!<)<<(?!<)(-?)\s*(["']?)([A-Za-z_]\w*)\2""")
_WITH_DOCUMENTS = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True)
class Document:
    """One here-document: the number of its first line, and its text."""

    number: int
    text: str


@dataclass(frozen=True)
class Instruction:
    """One instruction, its continued lines joined."""

    keyword: str  # in capitals: RUN
    value: str
    number: int  # of its first line
    documents: tuple[Document, ...] = ()


def read_instructions(text: str) -> Iterator[Instruction]:
    r"""Yield the instructions as BuildKit reads them (docs.docker.com/reference/dockerfile).

    Sample: # escape=`
            FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
            RUN pip install `
              # a comment between continued lines is left out
              torch==2.4.0
            RUN <<EOF
            pip install jax
            EOF
    """
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").split("\n")
    escape, place = _escape(lines), 0
    while place < len(lines):
        start = place
        held, place = _continued(lines, place, escape)
        keyword, _, value = held.strip().partition(" ") if held.strip() else ("", "", "")
        keyword, value = keyword.upper(), value.strip()
        if not keyword:
            continue
        documents: tuple[Document, ...] = ()
        if keyword in _WITH_DOCUMENTS and "<<" in value:
            documents, place = _documents(lines, place, value)
        yield Instruction(keyword, value, start + 1, documents)


def _escape(lines: list[str]) -> str:
    """Return the character that continues a line: a directive before anything else may change it."""
    for line in lines:
        found = _DIRECTIVE.fullmatch(line.strip())
        if found is None:
            break
        if found[1].lower() == "escape" and found[2] in {"`", "\\"}:
            return found[2]
    return "\\"


def _continued(lines: list[str], place: int, escape: str) -> tuple[str, int]:
    """Join the lines of one instruction; comments and blank lines between them are left out."""
    held: list[str] = []
    while place < len(lines):
        line = lines[place].strip() if not held else lines[place].rstrip()
        place += 1
        if not line.strip() or line.lstrip().startswith("#"):
            if held:
                continue
            break
        line = line.replace("\t", " ")
        if not line.endswith(escape):
            held.append(line)
            break
        held.append(line[:-1])
    return "".join(held), place


def _documents(lines: list[str], place: int, value: str) -> tuple[tuple[Document, ...], int]:
    found: list[Document] = []
    for dash, _, name in _HEREDOC.findall(value):
        start, body = place, []
        while place < len(lines):
            line = lines[place].lstrip("\t") if dash else lines[place]
            place += 1
            if line == name:
                break
            body.append(line)
        found.append(Document(start + 1, "\n".join(body)))
    return tuple(found), place
