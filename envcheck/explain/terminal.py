"""Undo what was meant for a terminal or a web page: colours, cursor movements, progress bars, corrections, entities."""

from __future__ import annotations

import re
from collections.abc import Callable

_CURSOR_RIGHT = rb"\x1b\[\d{0,4}C"  # Windows' console writes it for spaces ...
_CURSOR_TO = rb"\x1b\[\d{0,4}(?:;\d{0,4})?[Hf]"  # ... and this for a new line
_ESCAPES = (
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, erasing, cursor
    rb"|[\]PX^_][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)"  # OSC, DCS ...: titles, links; one without its end is text
    rb"|[ -/]{1,4}[0-~]"  # character sets
    rb"|[0-~])?"
)
_WRITTEN_ESCAPES = rb"(?:\^\[|\\(?:u001b|x1b|033|e))\[[0-9;]{0,16}m"  # cat -v, JSON, repr
# A web page swallowed the escape characters: what is left of the usual colours.
_LOST_ESCAPES = rb"\[(?:[01]|[0-9]{1,2};[0-9;]{1,12}|[34][0-79]|9[0-7]|22)m"
_ENTITIES = rb"&(?:amp;){0,3}(lt|gt|quot|apos|nbsp|#0{0,3}39|#[xX]27|#0{0,3}34|amp);"  # copied as source
_MEANT = {b"lt": b"<", b"gt": b">", b"quot": b'"', b"nbsp": b" ", b"amp": b"&"}
_OVERSTRUCK = rb"([^\n])\x08\1|_\x08"  # bold and underlined on a printer


def plain(chunk: bytes) -> bytes:
    """Return whole lines without escape sequences, typographic quotes and hard spaces.

    Backspaces become a carriage return: both separate the states of one progress bar.
    """
    for rare, sign, undo in _UNDO:
        if rare in chunk and sign in chunk:
            chunk = undo(chunk)
    return chunk


def _without_escapes(chunk: bytes) -> bytes:
    return re.sub(_ESCAPES, b"", re.sub(_CURSOR_TO, b"\r", re.sub(_CURSOR_RIGHT, b" ", chunk)))


def _without_backspaces(chunk: bytes) -> bytes:
    return re.sub(_OVERSTRUCK, rb"\1", chunk).replace(b"\x08", b"\r")


def _with_plain_quotes(chunk: bytes) -> bytes:
    for curly, straight in ((b"\x98", b"'"), (b"\x99", b"'"), (b"\x9c", b'"'), (b"\x9d", b'"')):
        chunk = chunk.replace(b"\xe2\x80" + curly, straight)
    return chunk


def _without_entities(chunk: bytes) -> bytes:
    return re.sub(
        _ENTITIES, lambda found: _MEANT.get(found.group(1), b'"' if found.group(1).endswith(b"34") else b"'"), chunk
    )


def _without_written_escapes(chunk: bytes) -> bytes:
    return re.sub(_WRITTEN_ESCAPES, b"", chunk)


# (a rare byte, looked for first because that is fifty times faster, the sign, what undoes it)
_UNDO: tuple[tuple[bytes, bytes, Callable[[bytes], bytes]], ...] = (
    (b"\x1b", b"\x1b", _without_escapes),
    (b"^", b"^[[", _without_written_escapes),
    (b"\\", b"\\u001b[", _without_written_escapes),
    (b"\\", b"\\x1b[", _without_written_escapes),
    (b"\\", b"\\033[", _without_written_escapes),
    (b"[", b"[0m", lambda chunk: re.sub(_LOST_ESCAPES, b"", chunk)),
    (b"&", b"&", _without_entities),
    (b"\x08", b"\x08", _without_backspaces),
    (b"\x80", b"\xe2\x80", _with_plain_quotes),  # 0xE2 begins every block of a progress bar
    (b"\xc2", b"\xc2\xa0", lambda chunk: chunk.replace(b"\xc2\xa0", b" ")),
)
