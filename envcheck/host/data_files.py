"""Load data files into typed rows, each once.

From the installed package, else from the checkout around it.

To add a data file, write data/<name>.json, declare a record of its rows in the module that uses
them, and call `load_data("<name>", TheRecord)`. tests/host/test_data_files.py decodes every file.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Tuple, Type, TypeVar

import envcheck
from envcheck.model import CodecError, decode

D = TypeVar("D")
_FOR_READERS = ("schema", "about")  # keys that describe a file to people


class DataError(ValueError):
    """A shipped data file does not fit its type; the message names the file and the row."""


_loaded: Dict[Tuple[str, type], Any] = {}


def load_data(name: str, kind: Type[D]) -> D:
    """Return data/<name>.json as a record of `kind`.

    A name or type that does not fit raises DataError.
    """
    if (name, kind) not in _loaded:
        _loaded[name, kind] = _load(name, kind)
    found: D = _loaded[name, kind]
    return found


def _load(name: str, kind: Type[D]) -> D:
    content = json.loads(read_data(f"{name}.json"))
    try:
        return decode(
            kind, {key: value for key, value in content.items() if key not in _FOR_READERS}
        )
    except CodecError as error:
        raise DataError(f"data/{name}.json: {error}") from None


def read_data(name: str) -> bytes:
    """Return the bytes of the data file `name`; raises FileNotFoundError."""
    try:
        return read_packaged("data", name)
    except OSError:
        return read_packaged(os.pardir, "data", name)  # in a checkout data/ is beside the package


def read_packaged(*parts: str) -> bytes:
    """Return the bytes of a file below the package, also from a zipapp.

    pkgutil and importlib.resources do the same but take as long to import as the interpreter to
    start.
    """
    path = os.path.join(os.path.dirname(envcheck.__file__), *parts)
    loader: Any = envcheck.__loader__  # loaders of files and of archives both have get_data
    if not hasattr(loader, "archive"):  # it goes by the path that was typed, with its `..`
        path = os.path.abspath(path)
    return bytes(loader.get_data(path))
