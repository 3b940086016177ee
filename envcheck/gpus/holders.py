"""Combine what NVML and the system report about GPU processes, and how to end each."""

from __future__ import annotations

from functools import lru_cache

from envcheck.host.data_files import load_data
from envcheck.model import (
    Absent,
    Fact,
    GpuActivity,
    GpuProcess,
    Known,
    ProcessInfo,
    ProcessScan,
    Unknown,
    dataclass,
)

RUNNING, ORPHANED, ZOMBIE, STUCK, OUTSIDE, DEAD, SERVICE = (
    "running", "orphaned", "zombie", "stuck", "outside", "dead", "service",
)  # fmt: skip


@dataclass
class Ending:
    """The state of a process, and the command that ends it."""

    state: str
    argv: tuple[str, ...]  # empty: no command ends it
    remark: str = ""


def choose_ending(
    pid: int, process: ProcessInfo | None, scan: ProcessScan, system: str, index: int
) -> Ending:
    """Return how to end process `pid` on the GPU with this index.

    `process` is None where the system hides it.
    """
    if system == "windows":
        return Ending(RUNNING, ("taskkill", "/F", "/PID", str(pid)))
    if process is None:
        return _end_hidden(pid, scan, index)
    if process.state == "Z":
        return _end_zombie(process, scan, index)
    if process.state == "D":
        return Ending(
            STUCK,
            (),
            "It waits in the driver and does not react to signals; only a reboot ends it.",
        )
    return _end_service(process, scan) or _end_running(process, scan)


def _end_service(process: ProcessInfo, scan: ProcessScan) -> Ending | None:
    if process.pid == 1:
        return Ending(SERVICE, (), "It is the first process of this system or container.")
    service = _load_services().get(process.name)
    if service is None:
        return None
    stop = (*_sudo_words(scan), "systemctl", "stop", service.unit) if service.unit else ()
    return Ending(SERVICE, stop, f"It {service.what}.")


def _end_running(process: ProcessInfo, scan: ProcessScan) -> Ending:
    argv = _kill(process.pid, process.owner, scan)
    if process.container:
        return Ending(RUNNING, argv, f"It runs in container {process.container}.")
    if process.parent == 1:
        return Ending(
            ORPHANED, argv, "Its parent process has ended: it is a leftover worker or a daemon."
        )
    return Ending(RUNNING, argv)


def _end_hidden(pid: int, scan: ProcessScan, index: int) -> Ending:
    kill = ("sudo", "kill", str(pid))
    if scan.isolated:
        return Ending(
            OUTSIDE, kill, "It runs outside this container: run this command on the host."
        )
    if scan.hides_others:
        return Ending(OUTSIDE, kill, "It belongs to another user, and this system hides it.")
    remark = (
        "It has ended, but the driver still lists it. Check again before a reset, which ends all"
        " work on this GPU."
    )
    return Ending(DEAD, _reset(index, scan), remark)


def _end_zombie(process: ProcessInfo, scan: ProcessScan, index: int) -> Ending:
    if process.parent <= 1:
        remark = "It is dead but still holds the GPU. A reset ends all work on this GPU."
        return Ending(ZOMBIE, _reset(index, scan), remark)
    remark = (
        f"It is dead, but its parent, process {process.parent},"
        " has not collected it: end the parent."
    )
    return Ending(ZOMBIE, _kill(process.parent, process.owner, scan), remark)


def _kill(pid: int, owner: int, scan: ProcessScan) -> tuple[str, ...]:
    return (*(() if scan.own_user == owner else _sudo_words(scan)), "kill", str(pid))


def _reset(index: int, scan: ProcessScan) -> tuple[str, ...]:
    return (*_sudo_words(scan), "nvidia-smi", "--gpu-reset", "-i", str(index))


def _sudo_words(scan: ProcessScan) -> tuple[str, ...]:
    return () if scan.own_user == 0 else ("sudo",)  # in a container root often has no sudo


@dataclass
class GpuService:
    """A process that belongs on a machine with a GPU."""

    name: str
    what: str  # "is the monitoring service DCGM"
    unit: str  # systemd unit that stops it; "" where there is none


@dataclass
class GpuServices:
    """The content of data/program/gpu_services.json."""

    services: tuple[GpuService, ...]


@lru_cache(maxsize=1)
def _load_services() -> dict[str, GpuService]:
    rows = load_data("program/gpu_services", GpuServices).services
    return {row.name[:15]: row for row in rows}  # the kernel keeps 15 characters of a process name


_UNLISTED = Absent(("NVML's list of processes",))
_WSL_DEVICE = "/dev/dxg"  # one device for every GPU
_TOLERANCE = 256 << 20  # bytes; the driver's own share per process varies
_RESERVED = 1 << 30  # bytes that an older driver reserves for itself and counts as used


@dataclass
class Holder:
    """A process that has a GPU open or, according to NVML, memory on it."""

    pid: int
    name: str
    memory_bytes: Fact[int]  # absent where NVML does not list it
    listed: bool  # NVML lists it, and so does nvidia-smi
    seen: bool  # the system shows it
    ending: Ending
    command_line: str = ""  # never write it to a report, it may hold secrets
    user: str = ""
    seconds: int | None = None  # since it started


@dataclass
class GpuView:
    """One GPU with the processes on it."""

    activity: GpuActivity
    holders: tuple[Holder, ...]
    unaccounted_bytes: Fact[int]  # used, but not by a process that NVML lists


def list_reported_pids(gpus: tuple[GpuActivity, ...]) -> frozenset[int]:
    """Return every process that NVML lists on a GPU."""
    return frozenset(process.pid for activity in gpus for process in _get_reported(activity))


def build_views(
    gpus: tuple[GpuActivity, ...], scan: ProcessScan, system: str
) -> tuple[GpuView, ...]:
    """Assign each process to each GPU that it holds."""
    reported = list_reported_pids(gpus)
    return tuple(_build_view(activity, scan, system, reported) for activity in gpus)


def _get_reported(activity: GpuActivity) -> tuple[GpuProcess, ...]:
    processes = activity.gpu.processes
    return processes.value or ()


def _build_view(
    activity: GpuActivity, scan: ProcessScan, system: str, reported: frozenset[int]
) -> GpuView:
    listed = {process.pid: process for process in _get_reported(activity)}
    # In a PID namespace the driver's number may be that of another process: one that does not have
    # the GPU open.
    seen = {
        process.pid: process for process in scan.processes if process.devices or not scan.isolated
    }
    nodes = {
        _WSL_DEVICE,
        *([f"/dev/nvidia{activity.minor.value}"] if activity.minor.value is not None else []),
    }
    # CUDA opens every GPU to count them: a process that NVML lists on another GPU has no memory on
    # this one.
    hidden = [
        pid for pid, process in seen.items() if nodes & set(process.devices) and pid not in reported
    ]
    index = activity.gpu.nvml_index.value or 0
    holders = tuple(
        _make_holder(
            pid,
            listed.get(pid),
            seen.get(pid),
            choose_ending(pid, seen.get(pid), scan, system, index),
        )
        for pid in sorted({*listed, *hidden})
    )
    return GpuView(activity, holders, _count_unaccounted(activity))


def _make_holder(
    pid: int, listed: GpuProcess | None, seen: ProcessInfo | None, ending: Ending
) -> Holder:
    return Holder(
        pid=pid,
        name=(seen.name if seen else "") or (listed.name if listed else ""),
        memory_bytes=listed.memory_bytes if listed else _UNLISTED,
        listed=listed is not None,
        seen=seen is not None,
        ending=ending,
        command_line=seen.command_line if seen else "",
        user=seen.user if seen else "",
        seconds=seen.seconds if seen else None,
    )


def _count_unaccounted(activity: GpuActivity) -> Fact[int]:
    used, processes = activity.gpu.memory_used_bytes, activity.gpu.processes
    if not isinstance(used, Known):
        return used
    if not isinstance(processes, Known):
        return processes
    held = 0
    for process in processes.value:
        if not isinstance(process.memory_bytes, Known):
            return process.memory_bytes
        held += process.memory_bytes.value
    return Known(max(0, used.value - held), used.source)


def has_unexplained_memory(view: GpuView) -> bool:
    """Return whether more memory is in use than the driver and all listed processes take."""
    left = view.unaccounted_bytes
    limit = _RESERVED
    if view.activity.memory_reserved_bytes.value is not None:
        limit = _TOLERANCE
    return left.value is not None and left.value > limit


def list_free(views: tuple[GpuView, ...]) -> tuple[str, ...]:
    """List the UUIDs of unused GPUs, those with the most free memory first.

    Services do not count as use.

    What could not be read is not free.
    """
    found = [(_count_free_bytes(view), view) for view in views if _is_free(view)]
    found.sort(key=lambda each: -each[0])
    return tuple(
        view.activity.gpu.uuid.value or str(view.activity.gpu.nvml_index.value) for _, view in found
    )


def list_free_instances(views: tuple[GpuView, ...]) -> tuple[str, ...]:
    """List the UUIDs of the MIG instances whose memory nothing uses, the largest first."""
    instances = [item for view in views for item in view.activity.instances.value or ()]
    used = ((item.memory_used_bytes.value, item) for item in instances)
    free = [item for taken, item in used if taken is not None and taken <= _TOLERANCE]
    return tuple(
        item.uuid for item in sorted(free, key=lambda item: -(item.memory_bytes.value or 0))
    )


def _is_free(view: GpuView) -> bool:
    gpu = view.activity.gpu
    usable = gpu.mig_enabled.value is not True and gpu.compute_mode.value != "prohibited"
    known = gpu.processes.value is not None and view.unaccounted_bytes.value is not None
    unused = all(holder.ending.state == SERVICE for holder in view.holders)
    return usable and known and unused and not has_unexplained_memory(view)


def _count_free_bytes(view: GpuView) -> int:
    gpu = view.activity.gpu
    return (gpu.memory_bytes.value or 0) - (gpu.memory_used_bytes.value or 0)


def list_blind_spots(
    gpus: tuple[GpuActivity, ...], scan: ProcessScan, system: str
) -> tuple[str, ...]:
    """Return sentences about what could not be read."""
    unlisted = [item.gpu.processes for item in gpus if isinstance(item.gpu.processes, Unknown)]
    reason = unlisted[0].detail.rstrip(".") if unlisted else ""
    sentences = []
    if unlisted:
        sentences.append(
            f"The driver did not list its processes ({reason}):"
            " only those that have a GPU open are shown."
        )
    if system != "linux":
        sentences.append(
            "Only processes that the driver lists are shown, because this system has no /proc."
        )
    if scan.unreadable:
        sentences.append(
            f"This user may not see the open files of {scan.unreadable} processes; root may (sudo)."
        )
    if scan.hides_others:
        sentences.append(
            "This system hides the processes of other users (hidepid); root sees them (sudo)."
        )
    if scan.isolated:
        sentences.append(
            "This is a PID namespace (a container):"
            " it does not show processes outside on the same GPU."
        )
    return tuple(sentences)
