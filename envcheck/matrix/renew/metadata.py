"""What a wheel's METADATA asks for, on a platform and a Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

# The requirements the matrix keeps a column of, in the order they are noted.
COLUMNS = (
    "numpy",
    "protobuf",
    "keras",
    "ml-dtypes",
    "h5py",
    "tensorflow-estimator",
    "jaxlib",
    "tf-keras",
    "tensorflow",
    "jax-cuda12-pjrt",
    "jax-cuda13-pjrt",
)

_MARKERS = {
    "linux_x86_64": ("linux", "Linux", "x86_64", "posix"),
    "linux_aarch64": ("linux", "Linux", "aarch64", "posix"),
    "win_amd64": ("win32", "Windows", "AMD64", "nt"),
    "macosx_arm64": ("darwin", "Darwin", "arm64", "posix"),
    "macosx_x86_64": ("darwin", "Darwin", "x86_64", "posix"),
}


def parse_requirements(metadata: str) -> list[Requirement]:
    """Read the Requires-Dist lines of a METADATA header, old spellings with parentheses too.

    Requires-Dist: numpy <2.0.0,>=1.23.5
    Requires-Dist: protobuf (>=3.20) ; python_version < "3.10"
    """
    lines = re.findall(r"^Requires-Dist: *(.+)$", metadata, re.MULTILINE)
    return [found for found in map(_requirement, lines) if found is not None]


def _requirement(line: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(re.sub(r"^([\w.\[\]-]+)\s*\((.*?)\)\s*", r"\1 \2 ", line.strip()))
    except InvalidRequirement:
        return None


def parse_field(metadata: str, name: str) -> str:
    """Return a one-line field of a METADATA header: Requires-Python: >=3.9; "" where there is none."""
    found = re.search(rf"^{name}: *(.+)$", metadata, re.MULTILINE)
    return found[1].strip() if found else ""


def classified_pythons(metadata: str) -> list[str]:
    """List the minors of the classifiers.

    Classifier: Programming Language :: Python :: 3.9
    """
    minors = re.findall(r"^Classifier: Programming Language :: Python :: (\d\.\d+)\s*$", metadata, re.MULTILINE)
    return sorted(set(minors), key=lambda text: tuple(map(int, text.split("."))))


def extra_of(requirement: Requirement) -> str:
    """Return the extra a requirement belongs to: and-cuda; "" for a plain one."""
    found = re.search(r"extra == ['\"]([^'\"]+)['\"]", str(requirement.marker or ""))
    return found[1] if found else ""


def holds(requirement: Requirement, platform: str, python: str, extra: str = "") -> bool:
    """Tell whether a requirement's marker holds on a platform and Python minor."""
    if requirement.marker is None:
        return True
    system, name, machine, kind = _MARKERS.get(platform, _MARKERS["linux_x86_64"])
    environment = {
        "sys_platform": system,
        "platform_system": name,
        "platform_machine": machine,
        "os_name": kind,
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_version": "",
        "extra": extra,
    }
    return requirement.marker.evaluate(environment)


def columns(requirements: list[Requirement], platform: str, pythons: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the ranges of the columns on the oldest Python, and a note for each that changes on a newer one."""
    found: dict[str, str] = {}
    notes = []
    for name in COLUMNS:
        ranges = [(python, _range(requirements, name, platform, python)) for python in pythons]
        stated = [(python, text) for python, text in ranges if text is not None]
        if not any(text for _, text in stated):
            continue
        found[name] = stated[0][1] or ""
        changed = next(((python, text) for python, text in stated if text != found[name]), None)
        if changed:
            notes.append(f"{name}{changed[1]} from Python {changed[0]} on.")
    return found, notes


def _range(requirements: Iterable[Requirement], name: str, platform: str, python: str) -> str | None:
    """Join the ranges of all plain requirements of a name that hold; None where none does."""
    fitting = [item for item in named(requirements, name) if not extra_of(item) and holds(item, platform, python)]
    return ",".join(ordered(item.specifier) for item in fitting) if fitting else None


def named(requirements: Iterable[Requirement], name: str) -> Iterator[Requirement]:
    """Yield the requirements of one distribution."""
    from packaging.utils import canonicalize_name

    return (item for item in requirements if canonicalize_name(item.name) == name)


def bare(requirement: Requirement) -> str:
    """Write a requirement without its marker: nvidia-cudnn-cu12>=9.3,<10.0."""
    from packaging.utils import canonicalize_name

    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return canonicalize_name(requirement.name) + extras + ordered(requirement.specifier)


def ordered(specifier: SpecifierSet) -> str:
    """Write a specifier set in one order, the lower bound first: >=1.23.5,<2.0.0."""
    return ",".join(sorted(map(str, specifier), key=lambda text: (not text.startswith(">"), text)))


def lower_bound(requirement: Requirement) -> str:
    """Return the version an == or >= asks for; "" where there is none."""
    return next((item.version for item in requirement.specifier if item.operator in {"==", ">="}), "")
