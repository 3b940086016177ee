"""Read files that ship with the program: from the package, else from the checkout around it."""

from __future__ import annotations

import os
from typing import Any

import envcheck


def read_data(name: str) -> bytes:
    """Return the bytes of the data file `name`; FileNotFoundError when neither place has it."""
    try:
        return read_packaged("data", name)
    except OSError:
        return read_packaged(os.pardir, "data", name)  # a checkout keeps data/ beside the package


def read_packaged(*parts: str) -> bytes:
    """Return the bytes of a file below the package, through its loader: that reads from a zipapp too.

    pkgutil and importlib.resources do the same and cost a bare interpreter start.
    """
    path = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(envcheck.__file__)), *parts))
    loader: Any = envcheck.__loader__  # every loader of files and archives has get_data
    return bytes(loader.get_data(path))
