"""Write commands for Windows shells, PowerShell and sh."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from envcheck.model.quoting import posix_word
from envcheck.model.writing import Writing, read_writing
from envcheck.render.inert import inert

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


# Stops at what cannot be started as at what fails; "Stop" would end it at the first word a program says on its error
# stream where that is sent elsewhere. Before 7.3 words are handed on as "Legacy" does, and no variable says so.
HEADING = (
    "$ErrorActionPreference = 'Continue'",
    "$PSNativeCommandArgumentPassing = 'Legacy'",
    "trap { Write-Host $_; exit 1 }",
)
STOP = "if ($LASTEXITCODE) { exit $LASTEXITCODE }"


def powershell_line(argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> str:
    """Write a command of ASCII alone: which code page a file is read in depends on the PowerShell and the machine."""
    program, *words = argv
    call = program if _is_plain(program) else f"& {_literal(program)}"  # a quoted text alone would be printed, not run
    settings = "".join(f"$env:{name} = {_literal(value)}; " for name, value in (env or {}).items())
    return settings + " ".join(
        [call, *(word if _is_plain(word) else _literal(_quoted_for_powershell(word)) for word in words)]
    )


def _is_plain(word: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.:/\\=-]*[A-Za-z0-9_.:/\\=]", word) is not None


def _quoted_for_powershell(word: str) -> str:
    """Quote as programs read it what PowerShell would hand on without quotes, or each release with others."""
    if word and not re.search(r'[\s"]', word):
        return word
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', word)
    return '"' + re.sub(r"(\\+)$", r"\1\1", escaped) + '"'


def _literal(text: str) -> str:
    """Spell a text: single quotes take everything as it is but themselves; what is not ASCII is spelled by number."""
    parts = [*_parts(inert(text))]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"


def _parts(text: str) -> Iterator[str]:
    for part in re.findall(r"^[\x20-\x7e]*|[\x20-\x7e]+|[^\x20-\x7e]", text):
        if part.isascii():
            yield "'" + part.replace("'", "''") + "'"
        else:
            units = part.encode("utf-16-be", "replace")
            yield from (f"[char]0x{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def writing_parts(what: Writing, quoted: Callable[[str], str]) -> tuple[str, ...]:
    """Write the command in parts that may stand on lines of their own; `quoted` quotes a path.

    sh, bash, zsh, fish and csh read it alike. The lines are quoted whole: no shell may expand what they hold.
    """
    return (f"{_before(what, quoted)}printf '%s\\n'", *map(_whole, what.lines), _end(what, quoted))


def document_lines(what: Writing, quoted: Callable[[str], str]) -> tuple[str, ...]:
    """Write the command for a script of sh: what is written stands in it as it is."""
    mark = next(mark for mark in ("END", *(f"END{number}" for number in range(99))) if mark not in what.lines)
    return (f"{_before(what, quoted)}cat {_end(what, quoted)} <<'{mark}'", *what.lines, mark)


def _before(what: Writing, quoted: Callable[[str], str]) -> str:
    path = quoted(what.path)
    if what.appends:
        there = f"[ ! -e {path} ] || " if what.if_there else ""
        return f"{there}grep -qxF -- {_whole(what.lines[0])} {path} || "
    return f"mkdir -p -- {quoted(posixpath.dirname(what.path))} && " if what.new_folder else ""


def _end(what: Writing, quoted: Callable[[str], str]) -> str:
    return f"{'>>' if what.appends else '>'} {quoted(what.path)}"


def _whole(line: str) -> str:
    return "'" + line.replace("'", "'\"'\"'") + "'"


def shell_line(argv: tuple[str, ...], system: str = "", *, folded: bool = False) -> str:
    """Quote a command for the shells of `system`: both of Windows, else a POSIX shell or zsh.

    A POSIX shell is left a leading ~/, the redacted $USER and search paths to expand. `folded`: what writes a file
    stands on a line for each line it writes.
    """
    words = tuple(map(inert, argv))
    if system == "windows" and words:
        from envcheck.render.shells import windows_line

        return windows_line(words)
    writing = read_writing(words)
    if writing is not None:
        from envcheck.render.shells import writing_parts

        return (" \\\n    " if folded else " ").join(writing_parts(writing, posix_word))
    return " ".join(map(posix_word, words))


def here_document(argv: tuple[str, ...]) -> str:
    """Write a command that writes a file for a script of sh; "" for any other command."""
    writing = read_writing(tuple(map(inert, argv)))
    if writing is None:
        return ""
    from envcheck.render.shells import document_lines

    return "\n".join(document_lines(writing, posix_word))
