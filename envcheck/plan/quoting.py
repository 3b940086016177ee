"""Commands within a sentence, quoted for the shells of the machine they are typed on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable


def quoted(words: Iterable[str], system: str) -> str:
    """Quote requirements, options and folders that were read strictly; both shells of Windows know double quotes."""
    if system != "windows":
        return shlex.join(words)
    return " ".join(word if re.fullmatch(r"[\w.:/\\=-]+", word) else f'"{word}"' for word in words)
