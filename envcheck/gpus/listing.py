"""Describe the GPUs at one moment: the listing, its exit code and its CSV rows."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.gpus.fits import Fit, Job
from envcheck.gpus.holders import GpuView
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Absent, Fact, Known, Unknown, dataclass, get_value
from envcheck.model.activity import GpuActivity

COLUMNS = ("timestamp", "name", "index", "utilization.gpu", "memory.total", "memory.used", "power.draw")
NOT_AVAILABLE, UNKNOWN, LOST = "[N/A]", "[Unknown Error]", "[GPU is lost]"

Row = tuple[str, ...]


class Sampler:
    """Make rows from one reading after the other; a GPU seen once keeps its row when it is gone."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._totals: dict[int, str] = {}

    def rows(self, timestamp: str, gpus: Fact[tuple[GpuActivity, ...]]) -> list[Row]:
        """Return a row for each GPU of this reading and each one that was there before.

        `timestamp` is nvidia-smi's: 2026/11/21 14:03:59.123; memory is in MiB, power in W, utilization in percent.
        """
        told = {index: one for one in get_value(gpus) or () for index in _index(one)}
        missing = LOST if told else UNKNOWN  # where NVML answers for others, this one is gone
        for index, activity in told.items():
            self._remember(index, activity)
        return [
            self._row(timestamp, index, told[index]) if index in told else self._gone(timestamp, index, missing)
            for index in sorted({*told, *self._names})
        ]

    def _remember(self, index: int, activity: GpuActivity) -> None:
        gpu = activity.gpu
        if isinstance(gpu.name, Known) or index not in self._names:
            self._names[index] = get_value(gpu.name) or UNKNOWN
            self._totals[index] = _cell(gpu.memory_bytes, _mebibytes)

    def _row(self, timestamp: str, index: int, activity: GpuActivity) -> Row:
        if is_lost(activity):
            return self._gone(timestamp, index, LOST)
        gpu = activity.gpu
        cells = (_cell(activity.utilization_percent), self._totals[index], _cell(gpu.memory_used_bytes, _mebibytes))
        return (timestamp, self._names[index], str(index), *cells, _cell(activity.power_watts, _watts))

    def _gone(self, timestamp: str, index: int, why: str) -> Row:
        return (timestamp, self._names[index], str(index), why, self._totals[index], why, why)


def is_lost(activity: GpuActivity) -> bool:
    """Tell whether NVML counts a GPU that it cannot open any more: it fell off its bus."""
    gpu = activity.gpu
    return not any(isinstance(fact, Known) for fact in (gpu.memory_bytes, activity.utilization_percent, gpu.processes))


def _index(activity: GpuActivity) -> tuple[int, ...]:
    index = activity.gpu.nvml_index
    return (index.value,) if isinstance(index, Known) else ()


def _mebibytes(value: float) -> str:
    return str(int(value) >> 20)


def _watts(value: float) -> str:
    return f"{value:.2f}"


def _cell(fact: Fact[int] | Fact[float], shown: Callable[[float], str] = str) -> str:
    if isinstance(fact, Known):
        return shown(fact.value)
    return NOT_AVAILABLE if isinstance(fact, Absent) else UNKNOWN


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
    instances = get_value(view.activity.instances) or ()
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
