"""What is run where, and what came of it."""

from __future__ import annotations

from typing import Any

from envcheck.model.records import dataclass
from envcheck.smoke.devices import Device, LeftOut
from envcheck.smoke.placement import Placement
from envcheck.smoke.protocol import (
    BAD_OUTCOMES,
    CRASHED,
    ERROR,
    FAILED,
    HUNG,
    OUT_OF_MEMORY,
    PASSED,
    SKIPPED,
    Listing,
    Measure,
    Result,
)

_WORST_FIRST = (CRASHED, HUNG, OUT_OF_MEMORY, FAILED, ERROR, PASSED, SKIPPED)
_TITLES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "driver": "CUDA driver"}


@dataclass(frozen=True)
class Framework:
    """A framework to test: what is installed in the inspected environment, or the driver with none."""

    name: str  # tensorflow, torch, jax, driver
    version: str = ""

    @property
    def title(self) -> str:
        """Name it for people."""
        return f"{_TITLES.get(self.name, self.name)} {self.version}".rstrip()

    @property
    def family(self) -> str:
        """Return the ending of its scripts' names: TensorFlow 1 and 2 have each their own."""
        if self.name != "tensorflow":
            return self.name
        return "tensorflow1" if self.version.split(".")[0] in {"0", "1"} else "tensorflow2"


@dataclass(frozen=True)
class Job:
    """One process: a framework on a device."""

    framework: Framework
    device: Device
    part: str = ""  # "share": what needs a start of its own, with only a share of the card's memory

    @property
    def title(self) -> str:
        """Name it for people."""
        return f"{self.framework.title} on {self.device.title}" + (
            ", with a quarter of its memory" if self.part else ""
        )


@dataclass(frozen=True)
class Run:
    """What came of a job."""

    job: Job
    outcome: str
    results: tuple[Result, ...]
    measures: tuple[Measure, ...] = ()
    listings: tuple[Listing, ...] = ()
    placements: tuple[Placement, ...] = ()
    told: dict[str, Any] | None = None  # what the framework said of itself
    seconds: float = 0.0
    peak_memory: int | None = None  # resident bytes
    log: str = ""

    @property
    def bad(self) -> tuple[Result, ...]:
        """Return the results that are not as they should be."""
        return tuple(result for result in self.results if result.outcome in BAD_OUTCOMES)


@dataclass(frozen=True)
class Session:
    """All runs of one smoke test, and what was left out."""

    level: str
    runs: tuple[Run, ...]
    left_out: tuple[LeftOut, ...] = ()
    gpus_unread: str = ""  # why the GPUs of this machine could not be listed
    expect: str = "auto"
    frameworks: tuple[str, ...] = ()  # what was to be tested, in words
    system: str = ""  # on which it ran, and what is to be typed is typed: linux, windows, darwin


def worst(results: tuple[Result, ...]) -> str:
    """Return the outcome of a run from its results: the worst; skipped where nothing was done."""
    found = {result.outcome for result in results}
    return next((outcome for outcome in _WORST_FIRST if outcome in found), SKIPPED)
