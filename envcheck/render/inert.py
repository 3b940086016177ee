"""Make text from a machine harmless on a terminal, and commands ready to paste."""

from __future__ import annotations

import re

from envcheck.model.quoting import posix_word
from envcheck.model.writing import read_writing
from envcheck.render.shell_files import document_lines, writing_parts
from envcheck.render.windows import windows_line

# C0 and C1 controls, the marks that reorder text (https://trojansource.codes) or end a line, and half characters no
# file takes.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]")


def inert(text: str) -> str:
    """Return `text` on one line, every control or text-direction character replaced by a visible mark."""
    return _ACTIVE.sub("\ufffd", text.replace("\n", " ").replace("\t", " ").replace("\r", " "))


def shell_line(argv: tuple[str, ...], system: str = "", *, folded: bool = False) -> str:
    """Quote a command for the shells of `system`: both of Windows, else a POSIX shell or zsh.

    A POSIX shell is left a leading ~/, the redacted $USER and search paths to expand. `folded`: what writes a file
    stands on a line for each line it writes.
    """
    words = tuple(map(inert, argv))
    if system == "windows" and words:
        return windows_line(words)
    writing = read_writing(words)
    if writing is not None:
        return (" \\\n    " if folded else " ").join(writing_parts(writing, posix_word))
    return " ".join(map(posix_word, words))


def here_document(argv: tuple[str, ...]) -> str:
    """Write a command that writes a file for a script of sh; "" for any other command."""
    writing = read_writing(tuple(map(inert, argv)))
    return "\n".join(document_lines(writing, posix_word)) if writing else ""


def escaped_in_json(text: str) -> str:
    """Spell what `inert` replaces as JSON escapes: a reader gets every character back, a terminal none."""
    return _ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
