"""Environment markers of requirements, evaluated for the inspected Python instead of the running one."""

from __future__ import annotations

from packaging.version import InvalidVersion

from envcheck.model.facts import Known
from envcheck.rules.context import Context


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
        "python_version": ".".join(version.split(".")[:2]) or "3",
        "python_full_version": version or "3",
        "implementation_name": implementation,
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(implementation, implementation),
        "sys_platform": platform,
        "platform_system": system,
        "os_name": name,
        "platform_machine": machine,
    }
