"""Rows of measurements for a CSV file, in the columns and the spelling of nvidia-smi; a lost GPU keeps its row."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.model.activity import GpuActivity
from envcheck.model.facts import Absent, Fact, Known, value_of

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
        told = {index: one for one in value_of(gpus) or () for index in _index(one)}
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
            self._names[index] = value_of(gpu.name) or UNKNOWN
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
