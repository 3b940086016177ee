"""Read the data files that ship with the program: from the package, else from the checkout around it."""

from __future__ import annotations

from typing import Optional


def read_data(name: str) -> bytes:
    """Return the bytes of the data file `name`; FileNotFoundError when neither place has it."""
    content = _beside_modules(name)
    if content is None:
        content = _in_checkout(name)
    if content is None:
        raise FileNotFoundError(name)
    return content


def _beside_modules(name: str) -> Optional[bytes]:
    """Ask the package's own loader, which also reads from inside a zip archive."""
    import pkgutil

    try:
        return pkgutil.get_data("envcheck", "data/" + name)
    except OSError:
        return None


def _in_checkout(name: str) -> Optional[bytes]:
    """Read `data/` beside the package folder, as a source checkout has it."""
    import os

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "data", name)
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return None
