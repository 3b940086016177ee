"""Commands within a sentence, quoted for the shells of the machine they are typed on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

_SEARCH_PATHS = ("$LD_LIBRARY_PATH", "$PATH", "$CONDA_PREFIX")  # to which an assignment adds a folder


def quoted(words: Iterable[str], system: str) -> str:
    """Quote requirements, options and folders that were read strictly; both shells of Windows know double quotes."""
    if system != "windows":
        return " ".join(map(posix_word, words))
    return " ".join(word if re.fullmatch(r"[\w.:/\\=-]+", word) else f'"{word}"' for word in words)


def posix_word(word: str) -> str:
    """Quote a word for a POSIX shell or zsh, which is left a leading ~/, the redacted $USER and search paths."""
    if word.startswith("~/"):
        return "~/" + posix_word(word[2:]) if word[2:] else "~/"
    names = "|".join(map(re.escape, ("$USER", *_SEARCH_PATHS) if re.match(r"\w+=", word) else ("$USER",)))
    parts = [part for part in re.split(f"({names})", word) if part] or [""]
    return "".join(f'"{part}"' if re.fullmatch(names, part) else _literal(part) for part in parts)


def _literal(part: str) -> str:
    return f"'{part}'" if re.fullmatch(r"=[\w=.-]*", part) else shlex.quote(part)  # zsh looks for a program after a =
