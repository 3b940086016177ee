"""Which GPUs the machine code and the PTX in a build can serve."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from envcheck.model import dataclass, numbers, replace

NATIVE = "native"  # machine code that runs as it is
JIT = "jit"  # only PTX, which the driver compiles at the first start
NONE = "none"


@dataclass(frozen=True)
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

    def reaches(self, wanted: tuple[int, ...]) -> bool:
        """Say whether code for this target may run on a capability, tegra apart."""
        own = (self.major, self.minor)
        if self.suffix == "a":
            return own == wanted
        if self.kind == "sm" or self.suffix == "f":
            return self.major == wanted[0] and self.minor <= wanted[1]
        return own <= wanted


def parse_target(text: str) -> ArchitectureTarget | None:
    """Read a target: "sm_86", "sm_90a", "compute_120", "sm_100f"; None for anything else."""
    found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", text)
    return ArchitectureTarget(found[1], int(found[2]), int(found[3]), found[4]) if found else None


def build_targets(framework: str, texts: Iterable[str]) -> tuple[ArchitectureTarget, ...]:
    """Read the targets a build names for itself, what is no target left out.

    TensorFlow's "compute_80" stands for machine code and PTX of 8.0 alike, as its configure script says and the
    code in its wheels shows.
    """
    named = tuple(target for target in map(parse_target, texts) if target)
    if framework != "tensorflow":
        return named
    return named + tuple(replace(target, kind="sm") for target in named if target.kind == "compute")


def coverage(targets: Iterable[ArchitectureTarget], capability: str, is_tegra: Callable[[str], bool]) -> str:
    """Say how a build serves a GPU: NATIVE, JIT or NONE.

    Machine code of embedded parts and of cards never serves the other kind, PTX does.
    """
    wanted = numbers(capability)
    usable = [target for target in targets if target.reaches(wanted)]
    for target in usable:
        same_kind = target.capability == capability or is_tegra(target.capability) == is_tegra(capability)
        if target.kind == "sm" and same_kind:
            return NATIVE
    return JIT if any(target.kind == "compute" for target in usable) else NONE
