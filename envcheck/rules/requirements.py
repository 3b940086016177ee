"""Read requirements and their environment markers for the inspected Python."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion

from envcheck.matrix.specifiers import Clause, clauses, within
from envcheck.model import Known, dataclass, major_minor
from envcheck.rules.context import Context

_NAME = r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_EXTRAS = rf"(?:\[[ \t]*({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)[ \t]*\])?"
_CLAUSE = r"(?:(?:<=|>=|<|>)[ \t]*\d+(?:\.\d+)*|(?:==|!=)[ \t]*\d+(?:\.\d+)*(?:\.\*|\+[a-z][a-z0-9]*)?)"
_PLAIN = rf"[ \t]*{_NAME}[ \t]*{_EXTRAS}[ \t]*({_CLAUSE}(?:[ \t]*,[ \t]*{_CLAUSE})*)?[ \t]*"


@dataclass(frozen=True)
class Requirement:
    """A PEP 508 requirement."""

    name: str  # as it was written
    extras: tuple[str, ...] = ()  # sorted
    specifier: str = ""  # <3,>=2.15
    marker: str = ""
    url: str = ""

    def admits(self, version: str, *, prereleases: bool) -> bool:
        """Tell whether a version lies in its clauses."""
        return within(version, self.specifier, prereleases=prereleases)

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """List its version clauses."""
        return tuple(clauses(self.specifier))


def read_requirement(text: str) -> Requirement:
    """Read a requirement; raises ValueError, packaging's InvalidRequirement, for what is none."""
    found = re.fullmatch(_PLAIN, text, re.ASCII)
    if found is None:
        return _by_packaging(text)
    extras = {part.strip() for part in (found[2] or "").split(",") if part}
    parts = {re.sub(r"\s", "", part) for part in (found[5] or "").split(",") if part}
    return Requirement(found[1], tuple(sorted(extras)), ",".join(sorted(parts)))


def canonical_name(name: str) -> str:
    """Write a distribution's name as an index does: Tensorflow_GPU -> tensorflow-gpu."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _by_packaging(text: str) -> Requirement:
    from packaging.requirements import Requirement as Parsed

    read = Parsed(text)
    return Requirement(
        read.name, tuple(sorted(read.extras)), str(read.specifier), str(read.marker or ""), read.url or ""
    )


def marker_holds(context: Context, marker: str, extra: str = "") -> bool:
    """Evaluate a marker for the inspected Python; one that cannot be evaluated does not hold."""
    from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

    environment = _environment(context)
    known: dict[str, bool] = context.memo.setdefault("markers", {})
    if marker not in known:
        try:
            known[marker] = Marker(marker).evaluate({**environment, "extra": extra})
        except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
            known[marker] = False
    return known[marker]


def _environment(context: Context) -> dict[str, str]:
    """Describe the inspected Python as markers do."""
    python, host = context.facts.python, context.facts.host
    version = python.version.value if isinstance(python.version, Known) else ""
    implementation = python.implementation.value if isinstance(python.implementation, Known) else "cpython"
    machine = host.architecture.value if isinstance(host.architecture, Known) else "x86_64"
    systems = {"windows": ("win32", "Windows", "nt"), "darwin": ("darwin", "Darwin", "posix")}
    platform, system, name = systems.get(context.os, ("linux", "Linux", "posix"))
    return {
        "python_version": major_minor(version) or "3",
        "python_full_version": version or "3",
        "implementation_name": implementation,
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(implementation, implementation),
        "sys_platform": platform,
        "platform_system": system,
        "os_name": name,
        "platform_machine": machine,
    }
