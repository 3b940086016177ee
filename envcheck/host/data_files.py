"""Read data files: from the installed package, else from the checkout around it."""

from __future__ import annotations

import os
from typing import Any

import envcheck


def read_data(name: str) -> bytes:
    """Return the bytes of the data file `name`; raises FileNotFoundError."""
    try:
        return read_packaged("data", name)
    except OSError:
        return read_packaged(os.pardir, "data", name)  # in a checkout data/ is beside the package


def read_packaged(*parts: str) -> bytes:
    """Return the bytes of a file below the package, also from a zipapp.

    pkgutil and importlib.resources do the same but take as long to import as the interpreter to start.
    """
    path = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(envcheck.__file__)), *parts))
    loader: Any = envcheck.__loader__  # loaders of files and of archives both have get_data
    return bytes(loader.get_data(path))
