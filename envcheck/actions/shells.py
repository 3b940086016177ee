"""Write actions and commands for the shells of a system: sh, cmd.exe and PowerShell."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping

from envcheck.actions.machine import WriteFile
from envcheck.actions.program import program_words, uv_word
from envcheck.model import Action, inert

HERE = "windows" if os.name == "nt" else ""

# to which an assignment adds a folder
_SEARCH_PATHS = ("$LD_LIBRARY_PATH", "$PATH", "$CONDA_PREFIX")


def posix_word(word: str) -> str:
    """Quote a word for a POSIX shell or zsh.

    A leading ~/, the redacted $USER and search paths stay as they are.
    """
    if word.startswith("~/"):
        return "~/" + posix_word(word[2:]) if word[2:] else "~/"
    names = "|".join(
        map(re.escape, ("$USER", *_SEARCH_PATHS) if re.match(r"\w+=", word) else ("$USER",))
    )
    parts = [part for part in re.split(f"({names})", word) if part] or [""]
    quoted = ""
    for part in parts:
        if re.fullmatch(names, part):
            quoted += f'"{part}"'
        elif re.fullmatch(r"=[\w=.-]*", part):  # zsh looks for a program after a =
            quoted += f"'{part}'"
        else:
            quoted += shlex.quote(part)
    return quoted


# What no quoting keeps from being read: cmd expands %, PowerShell $ and `, and either ends a string
# at a double quote, PowerShell at a typographic one as well.
_READ_ANYWHERE = re.compile('["%$`\u201c\u201d\u201e]')
_HARMLESS = r"[\w.:/\\=+~-]"
_PLAIN = rf"(?!~){_HARMLESS}*(?!-){_HARMLESS}"  # PowerShell 7.5 reads a ~ in front as a folder
_SPLIT = r"-[A-Za-z_][^.:]*[.:].*"  # PowerShell reads -name.more and -name:more as two words
# what needs no quotes in a command that is itself one word of cmd's
_INSIDE = r"[\w.:/\\=+~*,@#-]+"


def windows_line(argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> str:
    """Quote a command of harmless words.

    What no quoting keeps from being read becomes a visible mark.

    Variables are set in a cmd of the command's own, which takes plain words only: PowerShell hands
    on no quote within a word. With other words the line is for cmd.exe alone.
    """
    program, *words = (_READ_ANYWHERE.sub("\ufffd", word) for word in argv)
    line = " ".join([_quote_program(program), *map(_quote_word, words)])
    if not env:
        return line
    settings = [f"{name}={_READ_ANYWHERE.sub(chr(0xFFFD), value)}" for name, value in env.items()]
    if all(re.fullmatch(_INSIDE, word) for word in (program, *words, *settings)):
        inside = " ".join((program.replace("/", "\\"), *words))
        return f'cmd /c "{"".join(f"set {each}&& " for each in settings)}{inside}"'
    return "".join(f'set "{each}"&& ' for each in settings) + line


def _quote_word(word: str) -> str:
    if re.fullmatch(_PLAIN, word) and not re.fullmatch(_SPLIT, word):
        return word
    ending = re.search(r"\\*$", word)
    # a backslash before the quote would take its meaning
    return f'"{word}{ending.group() if ending else ""}"'


def _quote_program(word: str) -> str:
    """Quote the parts of a path.

    PowerShell takes what begins with a quote for a text and runs nothing.
    """
    path = word.replace("/", "\\")  # cmd takes what follows a / for an option
    first, *rest = path.split("\\")
    if not first or re.match(rf"(?!~){_HARMLESS}", first):
        parts = rest
    else:
        parts = [".", first, *rest]
    return (_quote_part(first)[1:] if parts is rest else ".") + "".join(map(_quote_part, parts))


def _quote_part(part: str) -> str:
    """Quote a part of a path from where it needs it.

    Most programs take a backslash's meaning before a quote.
    """
    if not part or re.fullmatch(_PLAIN, part):
        return f"\\{part}"
    plain = re.match(rf"(?!~){_HARMLESS}+", part)
    head = plain.group() if plain else ""
    return f'\\{head}"{part[len(head) :]}"' if head else f'"\\{part}"'


# Stops at what cannot be started as at what fails; "Stop" would end it at the first word a program
# says on its error stream where that is sent elsewhere. Before 7.3 words are handed on as "Legacy"
# does, and no variable says so.
HEADING = (
    "$ErrorActionPreference = 'Continue'",
    "$PSNativeCommandArgumentPassing = 'Legacy'",
    "trap { Write-Host $_; exit 1 }",
)
STOP = "if ($LASTEXITCODE) { exit $LASTEXITCODE }"


def powershell_line(argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> str:
    """Write a command of ASCII alone.

    Which code page a file is read in depends on the PowerShell and the machine.
    """
    program, *words = argv
    call = (
        program if _is_plain(program) else f"& {_powershell_literal(program)}"
    )  # a quoted text alone would be printed, not run
    settings = "".join(
        f"$env:{name} = {_powershell_literal(value)}; " for name, value in (env or {}).items()
    )
    return settings + " ".join(
        [
            call,
            *(
                word if _is_plain(word) else _powershell_literal(_quoted_for_powershell(word))
                for word in words
            ),
        ]
    )


def _is_plain(word: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.:/\\=-]*[A-Za-z0-9_.:/\\=]", word) is not None


def _quoted_for_powershell(word: str) -> str:
    """Quote what PowerShell would hand on without quotes, or each release differently."""
    if word and not re.search(r'[\s"]', word):
        return word
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', word)
    return '"' + re.sub(r"(\\+)$", r"\1\1", escaped) + '"'


def _powershell_literal(text: str) -> str:
    """Spell a text: single quotes take everything as it is but themselves.

    What is not ASCII is spelled by number.
    """
    parts = [*_split_text(inert(text))]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"


def _split_text(text: str) -> Iterator[str]:
    for part in re.findall(r"^[\x20-\x7e]*|[\x20-\x7e]+|[^\x20-\x7e]", text):
        if part.isascii():
            yield "'" + part.replace("'", "''") + "'"
        else:
            units = part.encode("utf-16-be", "replace")
            for at in range(0, len(units), 2):
                yield f"[char]0x{units[at : at + 2].hex()}"


def shell_line(argv: tuple[str, ...], system: str = "") -> str:
    """Quote a command for the shells of `system`: both of Windows, else a POSIX shell or zsh.

    A POSIX shell is left a leading ~/, the redacted $USER and search paths to expand. This program
    is named as its user can start it, and so is uv.
    """
    if argv[:1] in (("envcheck",), ("uv",)) and (system == "windows") == (HERE == "windows"):
        named = program_words() if argv[0] == "envcheck" else (uv_word(),)
        argv = (*named, *argv[1:])
    words = tuple(map(inert, argv))
    if system == "windows" and words:
        return windows_line(words)
    return " ".join(map(posix_word, words))


def type_here(*words: str) -> str:
    """Write a command for the shells of this machine."""
    return shell_line(words, HERE)


def action_line(action: Action, system: str = "", *, folded: bool = False) -> str:
    """Write an action as it is typed in a shell of `system`, its variables set.

    Return "" for what no command does.

    `folded`: what writes a file stands on a line for each line it writes.
    """
    if system == "windows":
        words = tuple(map(inert, action.command(system)))
        return windows_line(words, action.variables()) if words else ""
    if isinstance(action, WriteFile):
        # sh, bash, zsh, fish and csh read it alike: no shell may expand what the lines hold
        lines = map(_quote_whole, map(inert, action.lines))
        parts = (f"{_write_beginning(action)}printf '%s\\n'", *lines, _write_end(action))
        return (" \\\n    " if folded else " ").join(parts)
    return shell_line(typed_words(action, system), system)


def typed_words(action: Action, system: str = "") -> tuple[str, ...]:
    """Return an action as one command of words.

    `env` sets its variables, and on Windows a cmd of its own.
    """
    argv, variables = action.command(system), action.variables()
    if not variables:
        return argv
    settings = [f"{name}={value}" for name, value in variables.items()]
    if system == "windows":
        return ("cmd", "/c", " ".join([*(f"set {each}&&" for each in settings), *argv]))
    return ("env", *settings, *argv)


def script_line(action: Action, system: str = "") -> str:
    """Write an action for a script.

    Of sh, where the lines of a file stand as they are, or of PowerShell.
    """
    if system == "windows":
        return powershell_line(action.command(system), action.variables())
    if isinstance(action, WriteFile):
        return "\n".join(_document_lines(action))
    return action_line(action, system)


def _document_lines(action: WriteFile) -> tuple[str, ...]:
    lines = tuple(map(inert, action.lines))
    mark = next(
        mark for mark in ("END", *(f"END{number}" for number in range(99))) if mark not in lines
    )
    return (f"{_write_beginning(action)}cat {_write_end(action)} <<'{mark}'", *lines, mark)


def _write_beginning(action: WriteFile) -> str:
    path = posix_word(inert(action.path))
    if action.appends:
        there = f"[ ! -e {path} ] || " if action.if_there else ""
        return f"{there}grep -qxF -- {_quote_whole(inert(action.lines[0]))} {path} || "
    if action.new_folder:
        return f"mkdir -p -- {posix_word(posixpath.dirname(inert(action.path)))} && "
    return ""


def _write_end(action: WriteFile) -> str:
    return f"{'>>' if action.appends else '>'} {posix_word(inert(action.path))}"


def _quote_whole(line: str) -> str:
    return "'" + line.replace("'", "'\"'\"'") + "'"
