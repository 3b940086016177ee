"""Find the Visual C++ runtime that the frameworks' Windows wheels are linked with."""

from __future__ import annotations

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown

_FOLDER = "C:\\Windows\\System32\\"
# Python brings vcruntime140.dll itself; these two come with Microsoft's redistributable only.
_LIBRARIES = ("msvcp140.dll", "vcruntime140_1.dll")


def msvc_runtime(host: Host) -> Fact[str]:
    """Return the folder that holds the runtime; absent when one of its libraries is not there, or off Windows."""
    if host.system != "windows":
        return Absent((f"this is {host.system}",))
    paths = tuple(_FOLDER + name for name in _LIBRARIES)
    for path in paths:
        status = host.status(path)
        if isinstance(status, Unknown):
            return status
        if not isinstance(status, Known):
            return Absent((path,))
    return Known(_FOLDER, Source("file", paths[0]))
