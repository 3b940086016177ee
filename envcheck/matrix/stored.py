"""The data that `envcheck matrix update` stored, in place of older built-in data.

The folder holds `used.json`, which names the data file in use and the one before, and the data
files by their SHA-256. Only `used.json` decides: a process that is killed leaves the old one or the
new one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from envcheck.matrix.built_in import SCHEMA_ID, SECTIONS
from envcheck.model import dataclass, decode

OFF = "ENVCHECK_BUILT_IN_MATRIX"  # "1": use no stored data
ADDRESS = "ENVCHECK_MATRIX_URL"  # where `matrix update` fetches from
REPOSITORY = "ENVCHECK_MATRIX_REPOSITORY"  # OWNER/NAME whose attestation proves what is fetched
USED = "used.json"


@dataclass
class DataFile:
    """A stored data file, where it came from and how that was proven."""

    sha256: str
    checked: str  # the day of its data: 2026-11-21
    source: str  # path, or address without user name, password and query
    proof: str  # "the SHA-256 that was given", "the attestation of OWNER/NAME"
    stored: str  # when: 2026-11-21T18:00:00Z


@dataclass
class Stored:
    """What used.json states; None is the built-in data."""

    used: DataFile | None = None
    previous: DataFile | None = None


def find_folder() -> str:
    """Return this user's folder for stored data: ~/.local/share/envcheck/matrix.

    It need not exist.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - pathlib is slow to import
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")  # noqa: PTH118
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")  # noqa: PTH118
    else:
        base = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")  # noqa: PTH118
    return os.path.join(base, "envcheck", "matrix")  # noqa: PTH118


def is_off() -> bool:
    """Return whether a setting turns stored data off."""
    return os.environ.get(OFF) == "1"


def read_stored() -> Stored:
    """Read used.json: nothing if it is missing, damaged, another user's or turned off."""
    path = os.path.join(find_folder(), USED)  # noqa: PTH118
    try:
        owner = os.stat(path).st_uid  # noqa: PTH116
        if is_off() or (hasattr(os, "geteuid") and owner not in {0, os.geteuid()}):
            return Stored()
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            return decode(Stored, json.load(stream))
    except (OSError, ValueError, RecursionError):
        return Stored()


def open_stored(find_built_in_day: Callable[[], str]) -> dict[str, Any] | None:
    """Open the stored document if it is whole, newer and of this program's form, or None."""
    used = read_stored().used
    if used is None or used.checked <= find_built_in_day():
        return None
    from hashlib import sha256  # 1 ms, and few have stored data

    try:
        with open(os.path.join(find_folder(), f"{used.sha256}.json"), "rb") as stream:  # noqa: PTH118, PTH123
            content = stream.read()
    except OSError:
        return None
    if sha256(content).hexdigest() != used.sha256:
        return None
    document: dict[str, Any] = json.loads(content)
    # else of another release
    is_known = document["schema"] == SCHEMA_ID and document.keys() == set(SECTIONS)
    return document if is_known else None
