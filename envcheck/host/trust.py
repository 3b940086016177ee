"""Decide whether root may run or load a file that others could have changed."""

from __future__ import annotations

import os
import stat
from typing import Optional

_OVERFLOW_USER = 65534  # owner of files that a user namespace does not map


def why_untrusted(path: str) -> Optional[str]:
    """Say why root should not run `path`, or None: it and its folders must not be writable by others.

    Users other than root may run whatever they can: they gain nobody's rights.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return None
    place = os.path.realpath(path)
    while True:
        reason = _writable_by_others(place)
        if reason or place == os.path.dirname(place):
            return reason
        place = os.path.dirname(place)


def _writable_by_others(path: str) -> Optional[str]:
    status = os.stat(path)
    sticky_folder = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & stat.S_IWOTH and not sticky_folder:
        return f"{path} is writable by every user"
    if status.st_uid not in (0, _OVERFLOW_USER):
        return f"{path} belongs to another user (uid {status.st_uid})"
    return None
