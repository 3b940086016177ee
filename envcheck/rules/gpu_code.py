"""The GPU code that a build holds: its targets, and how they serve a compute capability."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from envcheck.frameworks import framework_names, identity
from envcheck.model import dataclass, numbers, replace

NATIVE = "native"  # machine code that runs as it is
JIT = "jit"  # only PTX, which the driver compiles at the first start
NONE = "none"  # nothing that the GPU runs


@dataclass
class ArchitectureTarget:
    """One target of a build: machine code ("sm") or PTX ("compute")."""

    kind: str
    major: int
    minor: int
    suffix: str  # "a": that capability only; "f": its family only; "" for all later ones

    @property
    def capability(self) -> str:
        """Return the compute capability it was made for: "8.6"."""
        return f"{self.major}.{self.minor}"

    def reaches(self, capability: tuple[int, ...]) -> bool:
        """Return whether code for this target runs on a compute capability.

        Embedded parts do not count.
        """
        target = (self.major, self.minor)
        if self.suffix == "a":
            return target == capability
        if self.kind == "sm" or self.suffix == "f":
            return self.major == capability[0] and self.minor <= capability[1]
        return target <= capability


@lru_cache(maxsize=256)
def parse_target(text: str) -> ArchitectureTarget | None:
    """Read a target: "sm_86", "sm_90a", "compute_120", "sm_100f"; None for anything else."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", text)
    if match:
        return ArchitectureTarget(match[1], int(match[2]), int(match[3]), match[4])
    return None


@lru_cache(maxsize=256)
def build_targets(framework: str, texts: tuple[str, ...]) -> tuple[ArchitectureTarget, ...]:
    """Read the targets that a build names; leave out what is no target.

    In some frameworks "compute_80" stands for machine code and PTX of 8.0 alike: TensorFlow's
    configure script says so, and the code in its wheels shows it.
    """
    targets = tuple(target for target in map(parse_target, texts) if target)
    if framework not in framework_names() or not identity(framework).cuda.ptx_means_code:
        return targets
    return targets + tuple(
        replace(target, kind="sm") for target in targets if target.kind == "compute"
    )


def coverage(
    targets: Iterable[ArchitectureTarget], capability: str, is_tegra: Callable[[str], bool]
) -> str:
    """Return how a build serves a GPU: NATIVE, JIT or NONE.

    Machine code of embedded parts and of cards never serves the other kind, PTX does.
    """
    needed = numbers(capability)
    usable = [target for target in targets if target.reaches(needed)]
    for target in usable:
        same_kind = target.capability == capability or is_tegra(target.capability) == is_tegra(
            capability
        )
        if target.kind == "sm" and same_kind:
            return NATIVE
    return JIT if any(target.kind == "compute" for target in usable) else NONE
