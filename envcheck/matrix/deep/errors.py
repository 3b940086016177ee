"""What keeps a binary from being read."""

from __future__ import annotations


class BinaryError(Exception):
    """A binary that is broken, hostile or of a kind nobody reads here, with a few words that say why."""
