"""Commands of a script for PowerShell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envcheck.render.inert import inert

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
    return settings + " ".join([call, *(word if _is_plain(word) else _literal(_quoted(word)) for word in words)])


def _is_plain(word: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.:/\\=-]*[A-Za-z0-9_.:/\\=]", word) is not None


def _quoted(word: str) -> str:
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
