"""Read the versions of the C and C++ libraries, and Microsoft's redistributable."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, Tuple

from envcheck.host.loader import parse_libstdcxx_name
from envcheck.host.paths import get_multiarch_triple, list_names
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Source, Unknown, from_file
from envcheck.model.text import find_group

_CONFSTR = "confstr CS_GNU_LIBC_VERSION"
_LIBSTDCXX = "libstdc++.so.6"


def read_libc(host: Host, system: Mapping[str, Any]) -> Tuple[Fact[str], Fact[str]]:
    """Return kind and version of the C library, from itself or, for musl, from its loader."""
    if host.system != "linux":
        return Absent((_CONFSTR,)), Absent((_CONFSTR,))
    kind, _, version = str(system.get("libc", "")).partition(" ")
    if kind and version:
        source = Source("library", _CONFSTR, str(system["libc"]))
        return Known(kind, source), Known(version, source)
    name = next((name for name in list_names(host, "/lib") if name.startswith("ld-musl-")), "")
    if not name:
        reason = Unknown(
            "failed",
            "neither glibc's version nor musl's loader was found",
            (_CONFSTR, "/lib/ld-musl-*"),
        )
        return reason, reason
    loader = "/lib/" + name
    return from_file("musl", loader), _read_musl_version(host, loader)


def _read_musl_version(host: Host, loader: str) -> Fact[str]:
    answer = host.run((loader,))
    if not isinstance(answer, Known):
        return answer
    version = parse_musl_version(answer.value.stderr)
    if version is None:
        return Unknown("unparsable", f"{loader} printed no version", (loader,))
    return Known(version, Source("command", loader, f"Version {version}"))


def parse_musl_version(text: str) -> Optional[str]:
    """Parse the version that musl's loader prints on standard error when started without a program.

    musl libc (x86_64)
    Version 1.2.4
    Dynamic Program Loader
    """
    return find_group(r"^Version (\d+(?:\.\d+)+)", text, re.MULTILINE) or None


def read_glibcxx_version(host: Host) -> Fact[str]:
    """Return the newest GLIBCXX version of the system's libstdc++, from its file name."""
    candidates: Tuple[str, ...] = ()
    if host.system == "linux":
        folders = (f"/usr/lib/{get_multiarch_triple(host)}", "/usr/lib64", "/usr/lib")
        cached = (host.loader_cache().value or {}).get(_LIBSTDCXX, ())
        candidates = (*cached, *(f"{folder}/{_LIBSTDCXX}" for folder in folders))
    for path in candidates:
        real = host.real_path(path)
        if real.value is not None:
            version = parse_libstdcxx_name(real.value)
            if version is None:
                return Unknown("unparsable", f"the file name {real.value} has no version", (path,))
            return from_file(f"GLIBCXX_{version}", path, f"-> {real.value}")
    return Absent(candidates)


_SYSTEM32 = "C:\\Windows\\System32\\"
# Python includes vcruntime140.dll; only Microsoft's redistributable installs these two.
_MSVC_LIBRARIES = ("msvcp140.dll", "vcruntime140_1.dll")


def find_msvc_runtime(host: Host) -> Fact[str]:
    """Return the folder of the Visual C++ runtime.

    Absent where a library is missing, and off Windows.
    """
    if host.system != "windows":
        return Absent((f"this is {host.system}",))
    paths = tuple(_SYSTEM32 + name for name in _MSVC_LIBRARIES)
    for path in paths:
        status = host.status(path)
        if not isinstance(status, Known):
            return status if isinstance(status, Unknown) else Absent((path,))
    return from_file(_SYSTEM32, paths[0])
