"""What `envcheck gpus` found at one moment, and what that means for its exit code."""

from __future__ import annotations

from envcheck.gpus.fits import Fit, Job
from envcheck.gpus.holders import GpuView
from envcheck.gpus.samples import is_lost
from envcheck.model.facts import Absent, Fact, Known, Unknown, value_of
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, UNDETERMINED
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class Listing:
    """The GPUs of a machine with who holds them and, where asked for, whether a job fits."""

    taken_at: str  # ISO 8601, UTC
    driver: Fact[str]
    gpus: Fact[tuple[GpuView, ...]]
    blind_spots: tuple[str, ...] = ()
    job: Job | None = None
    fits: tuple[Fit, ...] = ()

    @property
    def views(self) -> tuple[GpuView, ...]:
        """Return the GPUs, none where they could not be read."""
        return self.gpus.value if isinstance(self.gpus, Known) else ()


def judge(listing: Listing) -> tuple[str, str]:
    """Return the verdict and the sentence for it; no GPU is never a success: there was nothing to list."""
    if isinstance(listing.gpus, Absent):
        return INCOMPATIBLE, "This machine has no NVIDIA GPU."
    if isinstance(listing.gpus, Unknown):
        return UNDETERMINED, f"The GPUs could not be read: {listing.gpus.detail}."
    if listing.job is not None:
        return _judge_fit(listing.fits)
    unread = [view for view in listing.views if _is_unread(view)]
    lost = [view for view in unread if is_lost(view.activity)]
    if unread:
        why = unread[0].activity.gpu.memory_bytes
        detail = why.detail if isinstance(why, Unknown) else ""
        what = "no answer from" if lost else "could not read all of"
        return UNDETERMINED, f"{what.capitalize()} {len(unread)} of {_counted(listing)}: {detail}."
    return COMPATIBLE, f"{_counted(listing)} read."


def _is_unread(view: GpuView) -> bool:
    # Of a GPU that MIG divides only root is told the sum; the instances are told all the same.
    instances = value_of(view.activity.instances) or ()
    told = any(isinstance(one.memory_bytes, Known) for one in instances)
    return isinstance(view.activity.gpu.memory_bytes, Unknown) and not told


def _counted(listing: Listing) -> str:
    count = len(listing.views)
    return f"{count} GPU{'s' if count != 1 else ''}"


def _judge_fit(fits: tuple[Fit, ...]) -> tuple[str, str]:
    fitting = [fit for fit in fits if fit.fits]
    if fitting:
        return COMPATIBLE, f"The job fits in the free memory of {', '.join(fit.place for fit in fitting)}."
    if not fits or any(fit.fits is None for fit in fits):
        return UNDETERMINED, "The free memory of the GPUs could not be read."
    return INCOMPATIBLE, "The job fits in the free memory of no GPU."
