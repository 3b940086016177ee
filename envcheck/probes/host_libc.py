"""The C library and the newest C++ symbols of the system's libstdc++."""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.records import dataclass
from envcheck.probes.toolkit_paths import base_name, multiarch_triple

_CONFSTR = "confstr CS_GNU_LIBC_VERSION"
_LIBSTDCXX = "libstdc++.so.6"


@dataclass(frozen=True)
class LibcFacts:
    """Which C library, and its version."""

    kind: Fact[str]
    version: Fact[str]


def read_libc(host: Host, system: Mapping[str, Any]) -> LibcFacts:
    """Ask the C library itself; where it is not glibc, look for musl's loader."""
    if host.system != "linux":
        return LibcFacts(Absent((_CONFSTR,)), Absent((_CONFSTR,)))
    kind, _, version = str(system.get("libc", "")).partition(" ")
    if kind and version:
        source = Source("library", _CONFSTR, str(system["libc"]))
        return LibcFacts(Known(kind, source), Known(version, source))
    names = host.list_folder("/lib")
    loader = next((name for name in names.value if name.startswith("ld-musl-")), "") if isinstance(names, Known) else ""
    if not loader:
        reason = Unknown("failed", "neither glibc's version nor musl's loader was found", (_CONFSTR, "/lib/ld-musl-*"))
        return LibcFacts(reason, reason)
    return LibcFacts(Known("musl", Source("file", "/lib/" + loader)), _musl_version(host, "/lib/" + loader))


def parse_musl_version(text: str) -> Optional[str]:
    """Return the version musl's loader prints on standard error when started without a program.

    musl libc (x86_64)
    Version 1.2.4
    Dynamic Program Loader
    """
    match = re.search(r"^Version (\d+(?:\.\d+)+)", text, re.MULTILINE)
    return match.group(1) if match else None


def glibcxx_version(host: Host) -> Fact[str]:
    """Return the newest GLIBCXX version of the system's libstdc++, which its file name tells.

    GCC numbers the two alike: libstdc++.so.6.0.30 defines up to GLIBCXX_3.4.30. Reading the file would
    cost more than all else this probe does.
    """
    candidates = _libstdcxx_candidates(host)
    for path in candidates:
        real = host.real_path(path)
        if isinstance(real, Known):
            version = parse_libstdcxx_name(base_name(real.value))
            if version is None:
                return Unknown("unparsable", f"the name {real.value} tells no version", (path,))
            return Known(version, Source("file", path, f"-> {real.value}"))
    return Absent(tuple(candidates))


def parse_libstdcxx_name(name: str) -> Optional[str]:
    """Return the newest GLIBCXX version behind a file name: libstdc++.so.6.0.30 -> GLIBCXX_3.4.30."""
    match = re.search(r"^libstdc\+\+\.so\.6\.0\.(\d+)", name)
    return f"GLIBCXX_3.4.{match.group(1)}" if match else None


def _libstdcxx_candidates(host: Host) -> List[str]:
    if host.system != "linux":
        return []
    cache = host.loader_cache()
    cached = cache.value.get(_LIBSTDCXX, ()) if isinstance(cache, Known) else ()
    folders = (f"/usr/lib/{multiarch_triple(host)}", "/usr/lib64", "/usr/lib")
    return [*cached, *(f"{folder}/{_LIBSTDCXX}" for folder in folders)]


def _musl_version(host: Host, loader: str) -> Fact[str]:
    answer = host.run((loader,))
    if not isinstance(answer, Known):
        return answer
    version = parse_musl_version(answer.value.stderr)
    if version is None:
        return Unknown("unparsable", f"{loader} printed no version", (loader,))
    return Known(version, Source("command", loader, f"Version {version}"))
