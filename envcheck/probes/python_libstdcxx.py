"""Find the libstdc++ that the inspected interpreter would load, and its newest symbol version."""

from __future__ import annotations

import posixpath
import re
from typing import Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.probes.loader import Loader
from envcheck.probes.python_installed import Installed

_SONAME = "libstdc++.so.6"


def collect_libstdcxx(host: Host, installed: Installed) -> Tuple[Fact[str], Fact[str]]:
    """Return the path of the copy and its newest GLIBCXX version: conda's beside its interpreter, else the system's."""
    if host.system != "linux":
        absent = Absent((f"{_SONAME} on {host.system}",))
        return absent, absent
    # A conda interpreter has an RPATH to this folder.
    folders = (posixpath.join(installed.base_prefix, "lib"),) if installed.is_conda else ()
    found = Loader(host).find(_SONAME, rpath=folders)
    if not isinstance(found, Known):
        return found, found
    path = found.value.path
    return Known(path, found.source), _newest(host, path)


def _newest(host: Host, path: str) -> Fact[str]:
    version = parse_glibcxx(path)
    if version:
        return Known(version, Source("file", path))
    elf = host.elf(path)
    if not isinstance(elf, Known):
        return elf
    numbers = [tuple(map(int, name[8:].split("."))) for name in elf.value.versions_defined if _is_version(name)]
    if not numbers:
        return Unknown("unparsable", f"{path} defines no GLIBCXX version", (path,))
    return Known(".".join(map(str, max(numbers))), elf.source)


def _is_version(name: str) -> bool:
    return re.match(r"GLIBCXX_[\d.]+$", name) is not None


def parse_glibcxx(path: str) -> str:
    """Read the newest GLIBCXX version off a real file name, empty when it does not tell.

    Sample: 'libstdc++.so.6.0.30' -> 3.4.30: since GCC 4.1 the last numbers are the same, and reading the name
    costs nothing beside reading the file.
    """
    match = re.search(r"libstdc\+\+\.so\.6\.0\.(\d+)$", path)
    return f"3.4.{match.group(1)}" if match else ""
