"""Make text from a machine harmless on a terminal, and commands ready to paste."""

from __future__ import annotations

import re

from envcheck.model.quoting import posix_word
from envcheck.model.writing import read_writing

# C0 and C1 controls, the marks that reorder text (https://trojansource.codes) or end a line, and half characters no
# file takes.
_ACTIVE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]"


def inert(text: str) -> str:
    """Return `text` on one line, every control or text-direction character replaced by a visible mark."""
    line = text.replace("\n", " ").replace("\t", " ").replace("\r", " ")
    return line if line.isprintable() else re.sub(_ACTIVE, "\ufffd", line)  # none of them is


def shell_line(argv: tuple[str, ...], system: str = "", *, folded: bool = False) -> str:
    """Quote a command for the shells of `system`: both of Windows, else a POSIX shell or zsh.

    A POSIX shell is left a leading ~/, the redacted $USER and search paths to expand. `folded`: what writes a file
    stands on a line for each line it writes.
    """
    words = tuple(map(inert, argv))
    if system == "windows" and words:
        from envcheck.render.windows import windows_line

        return windows_line(words)
    writing = read_writing(words)
    if writing is not None:
        from envcheck.render.shell_files import writing_parts

        return (" \\\n    " if folded else " ").join(writing_parts(writing, posix_word))
    return " ".join(map(posix_word, words))


def here_document(argv: tuple[str, ...]) -> str:
    """Write a command that writes a file for a script of sh; "" for any other command."""
    writing = read_writing(tuple(map(inert, argv)))
    if writing is None:
        return ""
    from envcheck.render.shell_files import document_lines

    return "\n".join(document_lines(writing, posix_word))


def escaped_in_json(text: str) -> str:
    """Spell what `inert` replaces as JSON escapes: a reader gets every character back, a terminal none."""
    return re.sub(_ACTIVE, lambda found: f"\\u{ord(found[0]):04x}", text)
