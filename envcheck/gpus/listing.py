"""Describe the GPUs at one moment: the listing, its verdict and its CSV rows."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.gpus.fits import Fit, Job
from envcheck.gpus.holders import GpuView, list_free, list_free_instances
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    UNDETERMINED,
    Absent,
    Fact,
    GpuActivity,
    Unknown,
    dataclass,
)
from envcheck.model.text import counted

COLUMNS = (
    "timestamp",
    "name",
    "index",
    "utilization.gpu",
    "memory.total",
    "memory.used",
    "power.draw",
)
NOT_AVAILABLE, UNKNOWN, LOST = "[N/A]", "[Unknown Error]", "[GPU is lost]"

Row = tuple[str, ...]


class RowBuilder:
    """Build CSV rows from successive readings; a GPU that disappears keeps its row."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._totals: dict[int, str] = {}

    def build_rows(self, timestamp: str, gpus: Fact[tuple[GpuActivity, ...]]) -> list[Row]:
        """Return a row for each GPU of this reading and of earlier ones.

        `timestamp` is like nvidia-smi's: 2026/11/21 14:03:59.123; memory is in MiB, power in W,
        utilization in percent.
        """
        indexed = {activity.gpu.nvml_index.value: activity for activity in gpus.value or ()}
        current = {index: activity for index, activity in indexed.items() if index is not None}
        missing = LOST if current else UNKNOWN  # NVML answers for other GPUs: this one is gone
        for index, activity in current.items():
            self._remember(index, activity)
        return [
            (
                timestamp,
                self._names[index],
                str(index),
                *self._build_cells(index, current.get(index), missing),
            )
            for index in sorted({*current, *self._names})
        ]

    def _remember(self, index: int, activity: GpuActivity) -> None:
        gpu = activity.gpu
        if gpu.name.value is not None or index not in self._names:
            self._names[index] = gpu.name.value or UNKNOWN
            self._totals[index] = _format_cell(gpu.memory_bytes, _format_mebibytes)

    def _build_cells(self, index: int, activity: GpuActivity | None, missing: str) -> Row:
        if activity is None or is_lost(activity):
            reason = missing if activity is None else LOST
            return (reason, self._totals[index], reason, reason)
        used = _format_cell(activity.gpu.memory_used_bytes, _format_mebibytes)
        power = _format_cell(activity.power_watts, "{:.2f}".format)
        return (_format_cell(activity.utilization_percent), self._totals[index], used, power)


def is_lost(activity: GpuActivity) -> bool:
    """Return whether NVML counts a GPU that it cannot open, because it is no longer on the bus."""
    gpu = activity.gpu
    return not any(
        fact.value is not None
        for fact in (gpu.memory_bytes, activity.utilization_percent, gpu.processes)
    )


def _format_mebibytes(value: float) -> str:
    return str(int(value) >> 20)


def _format_cell(fact: Fact[int] | Fact[float], show: Callable[[float], str] = str) -> str:
    if fact.value is not None:
        return show(fact.value)
    return NOT_AVAILABLE if isinstance(fact, Absent) else UNKNOWN


@dataclass
class Listing:
    """The GPUs of a machine, their processes and, on request, whether a job fits."""

    taken_at: str  # ISO 8601, UTC
    driver: Fact[str]
    gpus: Fact[tuple[GpuView, ...]]
    blind_spots: tuple[str, ...] = ()
    job: Job | None = None
    fits: tuple[Fit, ...] = ()
    wanted: int = 0  # free GPUs that were asked for
    free: tuple[str, ...] = ()  # UUIDs of GPUs that no process uses, or of one MIG instance

    @property
    def views(self) -> tuple[GpuView, ...]:
        """Return the GPUs, () where they could not be read."""
        return self.gpus.value or ()


def judge(listing: Listing) -> tuple[str, str]:
    """Return the verdict and its sentence; a machine without GPU is incompatible."""
    if isinstance(listing.gpus, Absent):
        return INCOMPATIBLE, "This machine has no NVIDIA GPU."
    if isinstance(listing.gpus, Unknown):
        return UNDETERMINED, f"The GPUs could not be read: {listing.gpus.detail}."
    if listing.job is not None:
        return _judge_fit(listing.fits)
    if listing.wanted:
        return _judge_free(listing)
    gpus = counted(len(listing.views), "GPU")
    unread = [view.activity for view in listing.views if _is_unread(view.activity)]
    if not unread:
        return COMPATIBLE, f"{gpus} read."
    reason = unread[0].gpu.memory_bytes
    detail = reason.detail if isinstance(reason, Unknown) else ""
    problem = "Could not read all values of"
    if any(map(is_lost, unread)):
        problem = "No answer from"
    return UNDETERMINED, f"{problem} {len(unread)} of {gpus}: {detail}."


def _judge_free(listing: Listing) -> tuple[str, str]:
    found, wanted = len(listing.free), listing.wanted
    if found >= wanted:
        return COMPATIBLE, f"{found} GPU{'s are' if found > 1 else ' is'} free."
    unread = [
        view
        for view in listing.views
        if _is_unread(view.activity) or view.unaccounted_bytes.value is None
    ]
    asked = (
        f"{wanted} GPU{'s are' if wanted > 1 else ' is'} asked for and {found}"
        f" {'are' if found > 1 else 'is'} free"
    )
    if unread:
        return UNDETERMINED, f"{asked}; {len(unread)} could not be read."
    return INCOMPATIBLE, f"{asked}."


def choose_free(views: tuple[GpuView, ...], wanted: int) -> tuple[str, ...]:
    """Choose free GPUs, as UUIDs; of MIG instances CUDA uses only one."""
    whole = list_free(views)
    if wanted == 1:
        return (whole or list_free_instances(views))[:1]
    return whole[:wanted]


def _is_unread(activity: GpuActivity) -> bool:
    # With MIG only root may read the memory of the whole GPU; everybody may read that of the
    # instances.
    instances = activity.instances.value or ()
    is_instance_known = any(instance.memory_bytes.value is not None for instance in instances)
    return isinstance(activity.gpu.memory_bytes, Unknown) and not is_instance_known


def _judge_fit(fits: tuple[Fit, ...]) -> tuple[str, str]:
    fitting = [fit for fit in fits if fit.fits]
    if fitting:
        return (
            COMPATIBLE,
            f"The job fits in the free memory of {', '.join(fit.place for fit in fitting)}.",
        )
    if not fits or any(fit.fits is None for fit in fits):
        return UNDETERMINED, "The free memory of the GPUs could not be read."
    return INCOMPATIBLE, "The job does not fit in the free memory of any GPU."
