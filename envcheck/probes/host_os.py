"""Which operating system release this is."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.records import dataclass

_FILES = ("/etc/os-release", "/usr/lib/os-release")


@dataclass(frozen=True)
class DistributionFacts:
    """ID, ID_LIKE and VERSION_ID of a Linux distribution; elsewhere only the system's version."""

    id: Fact[str]
    like: Fact[str]
    version: Fact[str]


def read_distribution(host: Host, system: Mapping[str, Any]) -> DistributionFacts:
    """Read os-release, whose second place is the one a distribution ships it in."""
    if host.system != "linux":
        none, version = Absent(_FILES), str(system.get("version", ""))
        told = Known(version, Source("library", "version")) if version else Absent(("version",))
        return DistributionFacts(none, none, told)
    unread: Fact[str] = Absent(_FILES)
    for path in _FILES:
        text = host.read_text(path)
        values = parse_os_release(text.value) if isinstance(text, Known) else {}
        if "ID" in values:
            return DistributionFacts(*(_field(path, values, key) for key in ("ID", "ID_LIKE", "VERSION_ID")))
        if isinstance(text, Known):
            unread = Unknown("unparsable", f"{path} has no ID line", (path,))
        elif isinstance(text, Unknown):
            unread = text
    return DistributionFacts(unread, unread, unread)


def parse_os_release(text: str) -> Dict[str, str]:
    """Return the variables of an os-release file, quotes removed.

    NAME="Debian GNU/Linux"
    VERSION_ID="12"
    ID=debian
    """
    pairs = re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _field(path: str, values: Mapping[str, str], key: str) -> Fact[str]:
    if not values.get(key):
        return Absent((f"{key} in {path}",))  # Debian has no ID_LIKE, a rolling release no VERSION_ID
    return Known(values[key], Source("file", path, f"{key}={values[key]}"))
