"""The other side of a terminal."""

from __future__ import annotations

import os
import select

from tests.patience import PATIENCE


def read_until(terminal: int, wanted: bytes, said: bytes = b"") -> bytes:
    """Read what a program shows, which comes in parts, until `wanted` is in it or the program has ended."""
    while wanted not in said:
        assert select.select([terminal], [], [], PATIENCE)[0], (
            f"{wanted!r} never came after {said!r}"
        )
        try:
            said += os.read(terminal, 65536)
        except OSError:  # the program has ended
            break
    return said
