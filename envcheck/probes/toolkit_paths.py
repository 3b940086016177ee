"""Paths as the inspected system spells them."""

from __future__ import annotations

from typing import Tuple

from envcheck.host.protocol import Host


def join(host: Host, *parts: str) -> str:
    """Join path parts with the inspected system's separator."""
    separator = "\\" if host.system == "windows" else "/"
    first = parts[0].rstrip("/\\") if len(parts) > 1 else parts[0]
    return separator.join((first, *parts[1:]))


def parent(path: str) -> str:
    """Return the folder a path lies in, for either separator."""
    return path[: max(path.rfind("/"), path.rfind("\\"), 0)]


def base_name(path: str) -> str:
    """Return the last part of a path, for either separator."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :]


def folders_in(host: Host, variable: str) -> Tuple[str, ...]:
    """Return the distinct absolute folders a PATH-like variable names, in its order."""
    separator = ";" if host.system == "windows" else ":"
    entries = dict.fromkeys(host.environment().get(variable, "").split(separator))
    return tuple(entry for entry in entries if entry[:1] in ("/", "\\") or entry[1:2] == ":")


def multiarch_triple(host: Host) -> str:
    """Return Debian's name for this architecture's library folder: x86_64-linux-gnu."""
    return f"{host.system_facts().get('machine', 'x86_64')}-linux-gnu"
