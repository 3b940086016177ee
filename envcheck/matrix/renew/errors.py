"""What keeps the matrix from being renewed."""

from __future__ import annotations


class ArtifactError(Exception):
    """An index page or wheel that could not be read, with one sentence that says which and why."""


class UnusableWheelError(ArtifactError):
    """A wheel that was read and that no installer takes under its name: without metadata, or of another release."""


class MissingLibraryError(Exception):
    """The libraries that talk to an index are not installed; the message says how to install them."""
