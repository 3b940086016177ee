"""Take the names of users, machines and private servers out of a recording before it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Servers that anybody may know; every other one in a URL becomes host.example.
_PUBLIC = (
    "python.org", "github.com", "debian.org", "ubuntu.com", "redhat.com", "nvidia.com",
    "anaconda.org", "anaconda.com", "pytorch.org", "tensorflow.org", "fedoraproject.org", "centos.org", "gnu.org",
)  # fmt: skip
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?:[^/\s@]*@)?(?P<host>[\w.-]+)(?P<port>:\d+)?(?P<path>/[^\s\"']*)?"
)


class Scrubber:
    """Replace fixed texts, homes of users and unknown hosts of URLs in every string of a JSON value."""

    def __init__(self, replacements: Sequence[tuple[str, str]]) -> None:
        # The longest first: a path before the folder it lies in.
        self._replacements = sorted(replacements, key=lambda pair: -len(pair[0]))

    @classmethod
    def of(
        cls, environment: Mapping[str, str], system: Mapping[str, Any], stated: Sequence[str]
    ) -> Scrubber:
        """Replace what is stated as OLD=NEW, this user's home, the current folder and the machine's name."""
        replacements = [(old, new) for old, _, new in (text.partition("=") for text in stated)]
        home, node = environment.get("HOME", ""), str(system.get("node", ""))
        folder = str(system.get("folder", ""))
        if len(folder) > 1 and folder not in dict(replacements):
            replacements.append((folder, "/home/user/project"))
        if len(home) > 1:
            replacements.append((home, "/home/user"))
        if len(node) > 1:
            replacements.append((node, "machine"))
        return cls(replacements)

    def text(self, value: str) -> str:
        """Scrub one string."""
        for old, new in self._replacements:
            value = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, value)
        value = re.sub(r"(/home/|/Users/)(?!user\b)[^/\s:'\"]+", r"\1user", value)
        return re.sub(r"file://\S+", "file:///wheels", _URL.sub(_public_url, value))

    def value(self, value: Any) -> Any:
        """Scrub every string of a JSON value, names of fields included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(name): self.value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value


def _public_url(match: re.Match[str]) -> str:
    host = match["host"]
    if any(host == name or host.endswith("." + name) for name in _PUBLIC):
        return match["scheme"] + host + (match["port"] or "") + (match["path"] or "")
    return match["scheme"] + "host.example" + ("/" if match["path"] else "")
