"""Decide whether root may load a library that others could have changed."""

from __future__ import annotations

import posixpath
from typing import Optional

from envcheck.host.protocol import FileStatus, Host
from envcheck.model.facts import Known

_ROOT_OR_UNMAPPED = ("0", "65534", "root", "nobody")  # a user namespace shows the host's files as nobody's


def why_not_loaded(host: Host, path: str) -> Optional[str]:
    """Say why root must not load `path`: it, or a folder above it, can be changed by another user."""
    if host.system != "linux" or not host.system_facts().get("is_root"):
        return None
    real = host.real_path(path)
    place = real.value if isinstance(real, Known) else path
    while True:
        status = host.status(place)
        if isinstance(status, Known) and _changeable(status.value):
            return f"not loaded as root: {place} can be changed by others ({status.value.mode} {status.value.owner})"
        if place in ("/", ""):
            return None
        place = posixpath.dirname(place)


def _changeable(status: FileStatus) -> bool:
    sticky = status.mode[-1:] in ("t", "T")
    anyone = status.mode[8:9] == "w" and not sticky
    return anyone or status.owner.split(":")[0] not in _ROOT_OR_UNMAPPED
