"""Take user names, home folders and credentials out of facts before anything else sees them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Pattern, Tuple

from envcheck.model.records import field_names

# Accounts that images and clouds hand out, and names that folders bear: they tell nobody's name.
_IMPERSONAL = frozenset(
    "root user users admin administrator ubuntu debian centos fedora ec2-user azureuser jovyan vscode runner "  # noqa: SIM905
    "nobody app worker opt usr lib bin etc var tmp home cuda nvidia python conda anaconda3 miniconda3".split()
)
_CREDENTIALS = r"(?P<scheme>[a-zA-Z][\w+.-]*://)[^/\s@]+@"
_OTHER_HOMES = r"(?P<homes>/home/|/Users/|/export/home/|[A-Za-z]:\\Users\\)(?P<name>[^/\\\s:;,'\"]+)"


class Redactor:
    """Replace this user's home by ~, the user name by $USER, other users' names and URL credentials."""

    def __init__(self, home: str, user: str) -> None:
        self._home = home.rstrip("/\\")
        personal = user.lower() not in _IMPERSONAL and len(user) > 1
        self._user = re.escape(user) if personal else ""
        self._pattern = self._compile()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Redactor":
        """Take home and user name from a machine's environment."""
        home = environment.get("HOME") or environment.get("USERPROFILE") or ""
        user = environment.get("USER") or environment.get("LOGNAME") or environment.get("USERNAME") or ""
        return cls(home, user or posixpath.basename(home.replace("\\", "/").rstrip("/")))

    def _compile(self) -> Pattern[str]:
        parts = [_CREDENTIALS]
        if len(self._home) > 1:
            parts.append(rf"(?P<home>{re.escape(self._home)})(?=$|[/\\:;,'\"\s)\]])")
        parts.append(_OTHER_HOMES)
        if self._user:
            parts.append(rf"(?<![\w.-])(?P<user>{self._user})(?![\w])")
        return re.compile("|".join(parts))

    def text(self, value: str) -> str:
        """Redact one string."""
        return self._pattern.sub(_replacement, value)

    def value(self, value: Any) -> Any:
        """Redact every string in a fact, a model value or a container; unchanged values are kept as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (tuple, list)):
            return tuple(self.value(item) for item in value)
        if isinstance(value, Mapping):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return self._model(value, field_names(value))

    def _model(self, value: Any, names: Tuple[str, ...]) -> Any:
        before = [getattr(value, name) for name in names]
        after = [self.value(item) for item in before]
        if all(new is old or new == old for new, old in zip(after, before)):
            return value
        return type(value)(*after)


def _replacement(match: "re.Match[str]") -> str:
    groups = match.groupdict()
    if groups.get("scheme"):
        return f"{groups['scheme']}***@"
    if groups.get("home"):
        return "~"
    if groups.get("user"):
        return "$USER"
    return str(groups["homes"]) + _other_user(str(groups["name"]))


def _other_user(name: str) -> str:
    return name if name.lower() in _IMPERSONAL else "<user>"
