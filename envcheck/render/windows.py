"""Commands quoted so that both shells of Windows, cmd.exe and PowerShell, read the same words."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What no quoting keeps from being read: cmd expands %, PowerShell $ and `, and either ends a string at a double quote,
# PowerShell at a typographic one as well.
_READ_ANYWHERE = re.compile('["%$`\u201c\u201d\u201e]')
_HARMLESS = r"[\w.:/\\=+~-]"
_PLAIN = rf"(?!~){_HARMLESS}*(?!-){_HARMLESS}"  # PowerShell 7.5 reads a ~ in front as a folder
_SPLIT = r"-[A-Za-z_][^.:]*[.:].*"  # PowerShell reads -name.more and -name:more as two words
_INSIDE = r"[\w.:/\\=+~*,@-]+"  # what needs no quotes in a command that is itself one word of cmd's


def windows_line(argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> str:
    """Quote a command of harmless words; what no quoting keeps from being read becomes a visible mark.

    Variables are set in a cmd of the command's own, which takes plain words only: PowerShell hands on no quote within
    a word. With other words the line is for cmd.exe alone.
    """
    program, *words = (_READ_ANYWHERE.sub("\ufffd", word) for word in argv)
    line = " ".join([_program(program), *map(_quoted, words)])
    if not env:
        return line
    settings = [f"{name}={_READ_ANYWHERE.sub(chr(0xFFFD), value)}" for name, value in env.items()]
    if all(re.fullmatch(_INSIDE, word) for word in (program, *words, *settings)):
        inside = " ".join((program.replace("/", "\\"), *words))
        return f'cmd /c "{"".join(f"set {each}&& " for each in settings)}{inside}"'
    return "".join(f'set "{each}"&& ' for each in settings) + line


def _quoted(word: str) -> str:
    if re.fullmatch(_PLAIN, word) and not re.fullmatch(_SPLIT, word):
        return word
    ending = re.search(r"\\*$", word)
    return f'"{word}{ending.group() if ending else ""}"'  # a backslash before the quote would take its meaning


def _program(word: str) -> str:
    """Quote the parts of a path: PowerShell takes what begins with a quote for a text and runs nothing."""
    path = word.replace("/", "\\")  # cmd takes what follows a / for an option
    first, *rest = path.split("\\")
    parts = rest if not first or re.match(rf"(?!~){_HARMLESS}", first) else [".", first, *rest]
    return (_part(first)[1:] if parts is rest else ".") + "".join(map(_part, parts))


def _part(part: str) -> str:
    """Quote a part of a path from where it needs it; most programs take a backslash's meaning before a quote."""
    if not part or re.fullmatch(_PLAIN, part):
        return f"\\{part}"
    plain = re.match(rf"(?!~){_HARMLESS}+", part)
    head = plain.group() if plain else ""
    return f'\\{head}"{part[len(head) :]}"' if head else f'"\\{part}"'
