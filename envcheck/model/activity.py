"""What GPUs do at one moment, and which processes use them."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.facts import NOT_STATED, Fact
from envcheck.model.machine import Gpu
from envcheck.model.records import dataclass, field


@dataclass(frozen=True)
class InstanceMemory:
    """The memory of a MIG instance."""

    uuid: str
    name: str
    memory_bytes: Fact[int] = NOT_STATED
    memory_used_bytes: Fact[int] = NOT_STATED
    memory_reserved_bytes: Fact[int] = NOT_STATED


@dataclass(frozen=True)
class GpuActivity:
    """One GPU and how busy it is."""

    gpu: Gpu = field(default_factory=Gpu)
    minor: Fact[int] = NOT_STATED  # of /dev/nvidia<minor>; not always NVML's index
    memory_reserved_bytes: Fact[int] = NOT_STATED  # by the driver; unknown where it counts them as used
    utilization_percent: Fact[int] = NOT_STATED  # share of the last second in which a kernel ran
    temperature_celsius: Fact[int] = NOT_STATED
    power_watts: Fact[float] = NOT_STATED
    power_limit_watts: Fact[float] = NOT_STATED
    instances: Fact[Tuple[InstanceMemory, ...]] = NOT_STATED


@dataclass(frozen=True)
class ActivityReading:
    """All GPUs of a machine at one moment."""

    driver: Fact[str] = NOT_STATED
    gpus: Fact[Tuple[GpuActivity, ...]] = NOT_STATED  # absent: this machine has no NVIDIA GPU


@dataclass(frozen=True)
class ProcessInfo:
    """A process as /proc shows it; never write `command_line` to a report or log, it may hold secrets."""

    pid: int
    name: str
    owner: int  # user id
    state: str  # the kernel's letter: R, S, D, Z, T, I
    parent: int
    devices: Tuple[str, ...]  # the device files it has open: /dev/nvidia0 ...
    container: str = ""  # first digits of its id
    command_line: str = ""


@dataclass(frozen=True)
class ProcessScan:
    """The requested processes, those that use a GPU, and what hides others."""

    processes: Tuple[ProcessInfo, ...] = ()
    unreadable: int = 0  # processes whose open files this user may not list
    isolated: bool = False  # this is a PID namespace (a container): it does not show processes outside
    hides_others: bool = False  # /proc shows only this user's processes (hidepid)
    own_user: int = 0
