"""Text for users: errors that are one sentence, machines' words made harmless, comparable names."""

from __future__ import annotations

import re

# C0 and C1 controls, the marks that reorder text (https://trojansource.codes) or end a line, and half characters no
# file takes.
_ACTIVE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]"


class UserError(Exception):
    """A request that cannot be carried out: a sentence that says what is wrong and, where known, what to do instead."""


def inert(text: str) -> str:
    """Return `text` on one line, every control or text-direction character replaced by a visible mark."""
    line = text.replace("\n", " ").replace("\t", " ").replace("\r", " ")
    return line if line.isprintable() else re.sub(_ACTIVE, "\ufffd", line)  # none of them is


def escaped_in_json(text: str) -> str:
    """Spell what `inert` replaces as JSON escapes: a reader gets every character back, a terminal none."""
    return re.sub(_ACTIVE, lambda found: f"\\u{ord(found[0]):04x}", text)


def canonical_name(name: str) -> str:
    """Write a distribution's name as an index does: Tensorflow_GPU -> tensorflow-gpu."""
    return re.sub(r"[-_.]+", "-", name).lower()
