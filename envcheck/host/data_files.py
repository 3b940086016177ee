"""Load the files of data/, each whole and once, into typed rows.

To add a data file, write data/<name>.json, declare a record of its rows beside the code that uses them, and call
`load_data("<name>", TheRecord)`. A test decodes every file that is shipped (tests/host/test_data_files.py).
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Tuple, Type, TypeVar

import envcheck
from envcheck.model.codec import CodecError, decode

D = TypeVar("D")
_FOR_READERS = ("schema", "about")  # keys that describe a file to people


class DataError(ValueError):
    """A shipped data file does not fit its type; the message names the file and the row."""


_loaded: Dict[Tuple[str, type], Any] = {}


def load_data(name: str, kind: Type[D]) -> D:
    """Return data/<name>.json as a record of `kind`; a name or type that does not fit raises DataError."""
    if (name, kind) not in _loaded:
        _loaded[name, kind] = _load(name, kind)
    found: D = _loaded[name, kind]
    return found


def _load(name: str, kind: Type[D]) -> D:
    content = json.loads(read_data(f"{name}.json"))
    try:
        return decode(kind, {key: value for key, value in content.items() if key not in _FOR_READERS})
    except CodecError as error:
        raise DataError(f"data/{name}.json: {error}") from None


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
