"""A smoke test: the subjects, jobs and runs of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envcheck.frameworks import Framework, framework, framework_names, framework_of
from envcheck.model import Distribution, Finding, Step, dataclass
from envcheck.smoke.devices import Device, LeftOut
from envcheck.smoke.events import (
    BAD_OUTCOMES,
    CRASHED,
    FAILED,
    HUNG,
    OUT_OF_MEMORY,
    PASSED,
    RAISED,
    SKIPPED,
    Listing,
    Measure,
    Result,
)
from envcheck.smoke.placements import Placement

_WORST_FIRST = (CRASHED, HUNG, OUT_OF_MEMORY, FAILED, RAISED, PASSED, SKIPPED)
DRIVER = "driver"  # tested without a framework


@dataclass
class Subject:
    """What is tested: an installed framework, or the driver without any."""

    name: str  # tensorflow, torch, jax, DRIVER
    version: str = ""

    @property
    def framework(self) -> Framework | None:
        """Return what is known of the framework; None for the driver."""
        return None if self.name == DRIVER else framework(self.name)

    @property
    def title(self) -> str:
        """Name it for people."""
        title = self.framework.title if self.framework else "CUDA driver"
        return f"{title} {self.version}".rstrip()


@dataclass
class Job:
    """One process: a framework on a device."""

    subject: Subject
    device: Device
    part: str = ""  # "share": what needs its own start, with only a share of the card's memory

    @property
    def title(self) -> str:
        """Name it for people."""
        return f"{self.subject.title} on {self.device.title}" + (
            ", with a quarter of its memory" if self.part else ""
        )

    @property
    def identity(self) -> str:
        """Name it with what tells its card from others."""
        return f"{self.subject.title} on {self.device.identity}"


@dataclass
class Run:
    """What came of a job."""

    job: Job
    outcome: str
    results: tuple[Result, ...]
    measures: tuple[Measure, ...] = ()
    listings: tuple[Listing, ...] = ()
    placements: tuple[Placement, ...] = ()
    told: dict[str, Any] | None = None  # what the framework reported about itself
    seconds: float = 0.0
    peak_memory: int | None = None  # resident bytes
    log: str = ""

    @property
    def bad(self) -> tuple[Result, ...]:
        """Return the results that are not as they should be."""
        return tuple(result for result in self.results if result.outcome in BAD_OUTCOMES)


@dataclass
class Session:
    """All runs of one smoke test, and what was left out."""

    level: str
    runs: tuple[Run, ...]
    left_out: tuple[LeftOut, ...] = ()
    gpus_unread: str = ""  # why the GPUs of this machine could not be listed
    untestable: str = ""  # why no framework could be tested, in a sentence
    expect: str = "auto"
    frameworks: tuple[str, ...] = ()  # what was to be tested, in words
    system: str = ""  # on which it ran, and what is to be typed is typed: linux, windows, darwin
    findings: tuple[Finding, ...] = ()  # what failed, with its remedies

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return what the remedies of its findings take, in order."""
        steps = []
        for item in self.findings:
            actions = item.fix.actions if item.fix else ()
            steps += [Step("", action, (item.id,)) for action in actions]
        return tuple(steps)


def worst(results: tuple[Result, ...]) -> str:
    """Return the outcome of a run from its results: the worst; skipped where nothing was done."""
    found = {result.outcome for result in results}
    return next((outcome for outcome in _WORST_FIRST if outcome in found), SKIPPED)


def installed_frameworks(distributions: Sequence[Distribution]) -> tuple[Subject, ...]:
    """List the frameworks of an environment.

    Of two copies of one, the first in the order of import.

    A distribution that brings no module is an empty shell, and one that is a part of its framework
    does not count.
    """
    found: dict[str, Subject] = {}
    for item in distributions:
        name = framework_of(item.name)
        known = framework(name) if name else None
        if known and known.smoke.has_test and known.is_whole(item.name, item.modules):
            found.setdefault(name, Subject(name, item.version))
    return tuple(found[name] for name in framework_names() if name in found)


def hidden_folders(distributions: Sequence[Distribution]) -> tuple[str, ...]:
    """List the folders that an isolated start (-I) leaves out.

    The user's site-packages and PYTHONPATH.
    """
    return tuple(
        dict.fromkeys(item.location for item in distributions if item.scope in {"user", "path"})
    )
