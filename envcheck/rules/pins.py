"""Broken Requires-Dist pins around the frameworks, each given to the finding id of what it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from envcheck.model.machine import Distribution
from envcheck.model.records import dataclass
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.context import Context
from envcheck.rules.markers import marker_holds

OTHER = "dependency-conflict"
_ABOUT = {
    "numpy": "numpy-abi",
    "protobuf": "protobuf-conflict",
    "keras": "keras-mismatch",
    "tf-keras": "keras-mismatch",
    "tensorflow-estimator": "keras-mismatch",
}
_LINE = r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(?:;\s*(.*))?$"


@dataclass(frozen=True)
class Violation:
    """One requirement that what is installed does not meet; `found` is None when nothing is there."""

    owner: Distribution
    name: str
    specifier: str
    found: Distribution | None
    by_extra: bool = False  # it is an extra's, which nobody may have asked for

    @property
    def about(self) -> str:
        """Return the finding id it leads to."""
        if self.found is None:
            return OTHER
        if self.name.startswith("nvidia-"):
            return "cuda-wheel-conflict"
        return _ABOUT.get(self.owner.name if self.owner.name == "tf-keras" else self.name, OTHER)


def violations(context: Context) -> tuple[Violation, ...]:
    """List the broken pins among the frameworks, what they need, and what needs them."""
    if "violations" not in context.memo:
        context.memo["violations"] = tuple(_search(context))
    return tuple(context.memo["violations"])


def broken_pins(context: Context) -> tuple[Violation, ...]:
    """List every requirement in the environment that is not met, whoever's it is, but for those of extras."""
    told = ((owner, need) for owner in context.distributions.values() for need in requirements_of(context, owner))
    found = (
        Violation(owner, name, specifier, context.distributions.get(name))
        for owner, (name, specifier, by_extra) in told
        if not by_extra
    )
    return tuple(item for item in found if _is_broken(item.specifier, item.found, item.owner))


def _search(context: Context) -> Iterator[Violation]:
    installed = context.distributions
    frameworks = [name for name in installed if context.matrix.framework_of(name)]
    if not frameworks:
        return
    queue, seen = list(frameworks), set(frameworks)
    while queue:
        owner = installed[queue.pop(0)]
        for name, specifier, by_extra in requirements_of(context, owner):
            found = installed.get(name)
            if _is_broken(specifier, found, owner):
                yield Violation(owner, name, specifier, found, by_extra)
            if found is not None and name not in seen:
                seen.add(name)
                queue.append(name)
    yield from _dependants(context, set(frameworks), seen)


def _dependants(context: Context, frameworks: set[str], seen: set[str]) -> Iterator[Violation]:
    """Yield broken pins on a framework of what is installed beside it: torchvision on torch."""
    starts = tuple(frameworks)
    for owner in context.distributions.values():
        if owner.name in seen or not any(line.lower().replace("_", "-").startswith(starts) for line in owner.requires):
            continue
        for name, specifier, _ in requirements_of(context, owner):
            if name in frameworks and _is_broken(specifier, context.distributions[name], owner):
                yield Violation(owner, name, specifier, context.distributions[name])


def requirements_of(context: Context, owner: Distribution) -> Iterator[tuple[str, str, bool]]:
    """Yield name, specifier and whether it is an extra's of what a distribution requires of the inspected Python."""
    framework = context.matrix.framework_of(owner.name)
    public = owner.version.partition("+")[0]
    row = context.matrix.release(framework, public, context.platform, owner.name) if framework else None
    if row is not None and not owner.requires and owner.installer != "conda":
        # Its metadata was not read: the matrix knows the pins that matter.
        yield from (item for item in _by_row(row, owner) if item[0] in context.distributions)
        return
    extra = row.gpu_extra if row is not None and row.gpu_extra else ""
    for line in owner.requires:
        match = re.match(_LINE, line)
        if match is None or ("extra" in (match.group(3) or "") and not (extra and extra in _dashed(match.group(3)))):
            continue
        name, marker = _dashed(match.group(1)).lower(), match.group(3)
        if "extra" in (marker or "") and name not in context.distributions:
            continue  # nobody says that the extra was asked for
        if marker is None or marker_holds(context, marker, extra):
            yield name, match.group(2).strip(), "extra" in (marker or "")


def _by_row(row: FrameworkRelease, owner: Distribution) -> Iterator[tuple[str, str, bool]]:
    """Yield the pins a matrix row holds; those on CUDA wheels only where it describes this very build."""
    yield from ((name, spec, False) for name, spec in row.requires.items())
    local = owner.version.partition("+")[2]
    if not local or local == f"cu{(row.cuda or '').replace('.', '')}":
        for wheel in row.cuda_wheels:
            name = re.split(r"[^a-z0-9-]", wheel, maxsplit=1)[0]
            yield name, wheel[len(name) :], bool(row.gpu_extra)


def _dashed(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name)


def _is_broken(specifier: str, found: Distribution | None, owner: Distribution) -> bool:
    if found is None:
        # conda may bring it under another name; what CUDA wheels need of each other the loader finds or not
        return owner.installer != "conda" and not owner.name.startswith("nvidia-")
    return bool(specifier) and not _within(found.version, specifier)


@lru_cache(maxsize=4096)
def _within(version: str, specifier: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True  # cannot be compared: nothing to hold against it
