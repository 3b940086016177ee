"""What the shells of Windows make of a typed line, written from their documented rules; neither is at hand for tests.

cmd.exe: a quote turns the reading of & | < > ( ) ^ off and on; %NAME% is a variable anywhere. PowerShell: words end at
white space and at { } ( ) , ; | & < > outside of quotes; in double quotes $ and ` are read; typographic quotes count.
What a program gets is one line, which it splits as the C runtime of Microsoft does.
"""

from __future__ import annotations

import re

_BLANK = " \t"


class ReadError(Exception):
    """A shell would read the line otherwise than as one command of plain words."""


def cmd_words(line: str) -> list[str]:
    """Return the words of the program that cmd.exe starts for a typed line."""
    if re.search(r"%[^%\s]+%", line):
        raise ReadError(f"a variable: {line}")
    quoted = False
    for mark in line:
        if mark == '"':
            quoted = not quoted
        elif not quoted and mark in "&|<>()^":
            raise ReadError(f"{mark} outside of quotes: {line}")
    if quoted:
        raise ReadError(f"an open quote: {line}")
    if line[:1] in "@:;,=":
        raise ReadError(f"begins with {line[:1]}: {line}")
    return _program_words(line)


def powershell_words(line: str) -> list[str]:
    """Return the words of the program that PowerShell starts for a typed line."""
    if line.startswith(("'", '"', "&", ".", "~")) and not re.match(r"\.[\w\\.]", line):
        raise ReadError(f"no command: {line}")
    words: list[str] = []
    rest = line
    while rest:
        word, rest = _powershell_word(rest)
        words.append(word)
    return [words[0], *_program_words(" ".join(["x", *map(_handed_on, words[1:])]))[1:]]


def _powershell_word(text: str) -> tuple[str, str]:
    """Take one word off the front; quoted parts lose their quotes."""
    read, at = "", 0
    starts_quoted = text[:1] == '"'
    while at < len(text) and text[at] not in _BLANK:
        mark = text[at]
        if mark == '"':
            part, at = _double_quoted(text, at + 1)
            read += part
            if starts_quoted and text[at : at + 1] not in ("", " "):
                raise ReadError(f"a second word begins behind the quote: {text}")
        elif mark in "{}(),;|&<>'`$@\u2018\u2019\u201c\u201d\u201e\u2013\u2014\u2015\xa0" or (
            mark == "#" and not at
        ):
            raise ReadError(f"{mark} outside of quotes: {text}")
        else:
            read += mark
            at += 1
    bare = text[:at]
    if re.match(r"-[A-Za-z_?][^\s\"]*[.:]", bare):
        raise ReadError(f"a parameter in two parts: {bare}")
    if bare.startswith("~"):
        raise ReadError(f"the user's folder: {bare}")
    return read, text[at:].lstrip(_BLANK)


def _double_quoted(text: str, at: int) -> tuple[str, int]:
    end = text.find('"', at)
    part = text[at:end]
    if end < 0 or re.search("[$`\u201c\u201d\u201e]", part) or text[end + 1 : end + 2] == '"':
        raise ReadError(f"not plain within quotes: {text}")
    return part, end + 1


def _handed_on(word: str) -> str:
    # Windows PowerShell 5.1 adds quotes around what holds white space and nothing else; newer ones
    # double backslashes at the end as well, which a folder's name bears. An empty word is lost but
    # from 7.3 on.
    return f'"{word}"' if re.search(r"\s", word) else word


def _program_words(line: str) -> list[str]:
    """Split a command line as Microsoft's C runtime does: the program first, whose backslashes are plain."""
    program, at, quoted = "", 0, False
    while at < len(line) and (quoted or line[at] not in _BLANK):
        quoted ^= line[at] == '"'
        program += line[at].replace('"', "")
        at += 1
    return [program, *_argument_words(line[at:])]


def _argument_words(text: str) -> list[str]:
    words: list[str] = []
    word: str | None = None
    quoted = False
    for slashes, mark in re.findall(r"(\\*)([^\\]|$)", text):
        if mark == '"':
            word = (word or "") + "\\" * (len(slashes) // 2) + ('"' if len(slashes) % 2 else "")
            quoted ^= len(slashes) % 2 == 0
            continue
        word = (word or "") + slashes if slashes else word
        if quoted or mark.strip():
            word = (word or "") + mark
        elif word is not None:
            words.append(word)
            word = None
    return words
