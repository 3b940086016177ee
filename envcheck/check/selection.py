"""What of a project or a lock file is installed: extras, groups, and markers that hold."""

from __future__ import annotations

import re
from functools import lru_cache

from envcheck.check.blueprint import Names
from envcheck.host.documents import table_in
from envcheck.model import RequestError, dataclass
from envcheck.model.versions import evaluate_marker

_EXTRA = re.compile(r"extra (==|!=) '(?:(?:extra|group)-\d+-)?([^']*)'")
# The Pythons that a lock may be installed with: an edge counts where it holds for one of them.
PYTHONS = tuple(f"3.{minor}" for minor in range(8, 16))


@dataclass
class Selection:
    """Which extras and groups of a project its tool installs; "*" is each of them."""

    extras: Names = ()
    groups: Names = ()
    excluded: Names = ()  # groups
    is_only: bool = False  # the groups without what the project itself requires

    def pick(self, table: object, names: Names) -> list[str]:
        """List those keys of a table that are named."""
        return [key for key in table_in(table) if key in names or "*" in names]

    def takes(self, groups: object, usual: Names) -> bool:
        """Return whether a locked package is in a group that is installed; () is each group."""
        if not isinstance(groups, list):
            return True
        left = set(groups) - {*self.excluded}
        if "*" in self.groups:
            return bool(left)
        named = {*self.groups, *self.extras, *(() if self.is_only else usual)}
        return bool(left & named) or (bool(left) and not (usual or self.is_only))

    @property
    def takes_project(self) -> bool:
        """Whether what the project itself requires is installed."""
        return not self.is_only or "main" in self.groups


USUAL = Selection()


@lru_cache(maxsize=1 << 14)
def may_hold(marker: str, chosen: frozenset[str] = frozenset()) -> bool:
    """Return whether a marker holds on Linux for one Python, with the extras that are chosen."""

    def decide(match: re.Match[str]) -> str:
        is_true = (match[2] in chosen) == (match[1] == "==")
        return "python_version >= '0'" if is_true else "python_version < '0'"

    text = _EXTRA.sub(decide, marker)
    linux = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    try:
        return not text or any(
            evaluate_marker(
                text, {**linux, "python_version": python, "python_full_version": f"{python}.9"}
            )
            for python in PYTHONS
        )
    except RequestError:
        return True
