"""Commands quoted so that both shells of Windows, cmd.exe and PowerShell, read the same words."""

from __future__ import annotations

import re

# What no quoting keeps from being read: cmd expands %, PowerShell $ and `, and either ends a string at a double quote,
# PowerShell at a typographic one as well.
_READ_ANYWHERE = re.compile('["%$`\u201c\u201d\u201e]')
_PLAIN = r"[A-Za-z0-9_.:/\\=+~-]*[A-Za-z0-9_.:/\\=+~]"
_SPLIT = r"-[A-Za-z_][^.:]*[.:].*"  # PowerShell reads -name.more and -name:more as two words


def windows_line(argv: tuple[str, ...]) -> str:
    """Quote a command of harmless words; what no quoting keeps from being read becomes a visible mark."""
    program, *words = (_READ_ANYWHERE.sub("\ufffd", word) for word in argv)
    return " ".join([_program(program), *map(_quoted, words)])


def _quoted(word: str) -> str:
    if re.fullmatch(_PLAIN, word) and not re.fullmatch(_SPLIT, word):
        return word
    ending = re.search(r"\\*$", word)
    return f'"{word}{ending.group() if ending else ""}"'  # a backslash before the quote would take its meaning


def _program(word: str) -> str:
    """Quote the parts of a path: PowerShell takes what begins with a quote for a text and runs nothing."""
    path = word.replace("/", "\\")  # cmd takes what follows a / for an option
    first, *rest = path.split("\\")
    if not re.fullmatch(_PLAIN, first) and first:
        return "\\".join([".", *map(_quoted, (first, *rest))])
    return "\\".join([first, *(_quoted(part) if part else part for part in rest)])
