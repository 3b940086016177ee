"""Commands quoted for PowerShell."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.render.inert import inert


def powershell_line(argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> str:
    """Quote a command for PowerShell: single quotes take everything as it is, but for themselves."""
    words = [_quoted(word) for word in argv]
    call = "& " if words and words[0].startswith("'") else ""  # a quoted string alone would be printed, not run
    settings = "".join(f"$env:{name} = {_always(value)}; " for name, value in (env or {}).items())
    return settings + call + " ".join(words)


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z0-9_.:/\\=-]*[A-Za-z0-9_.:/\\=]", word) else _always(word)


def _always(text: str) -> str:
    # PowerShell takes the typographic quotes for quotes, too.
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", inert(text)) + "'"
