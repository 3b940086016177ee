"""Join what NVML and the system report of the processes on each GPU, and say how to end each."""

from __future__ import annotations

import json
from functools import lru_cache

from envcheck.host.data_files import read_data
from envcheck.model import Absent, Fact, GpuProcess, Known, dataclass
from envcheck.model.activity import GpuActivity, ProcessInfo, ProcessScan

RUNNING, ORPHANED, ZOMBIE, STUCK, OUTSIDE, DEAD, SERVICE = (
    "running", "orphaned", "zombie", "stuck", "outside", "dead", "service",
)  # fmt: skip
_RESET = "that ends all work on this GPU."


@dataclass(frozen=True)
class Ending:
    """What a process is, and how it is ended."""

    state: str
    argv: tuple[str, ...]  # empty: no command ends it
    remark: str = ""


def ending_of(pid: int, seen: ProcessInfo | None, reading: ProcessScan, system: str, index: int) -> Ending:
    """Say how process `pid`, on the GPU of this index, is ended; `seen` is None where the system does not show it."""
    if system == "windows":
        return Ending(RUNNING, ("taskkill", "/F", "/PID", str(pid)))
    if seen is None:
        return _unseen(pid, reading, index)
    if seen.state == "Z":
        return _zombie(seen, reading, index)
    if seen.state == "D":
        return Ending(STUCK, (), "No signal reaches it while it waits in the driver; a restart of the machine ends it.")
    return _service(seen, reading) or _alive(seen, reading)


def _service(seen: ProcessInfo, reading: ProcessScan) -> Ending | None:
    if seen.pid == 1:
        return Ending(SERVICE, (), "It is the first process of this system or container.")
    known = _services().get(seen.name)
    if known is None:
        return None
    stop = (*_as_root(reading), "systemctl", "stop", known["unit"]) if known["unit"] else ()
    return Ending(SERVICE, stop, f"It {known['is']}.")


def _alive(seen: ProcessInfo, reading: ProcessScan) -> Ending:
    argv = _kill(seen.pid, seen.owner, reading)
    if seen.container:
        return Ending(RUNNING, argv, f"It runs in container {seen.container}.")
    if seen.parent == 1:
        return Ending(ORPHANED, argv, "Its parent has ended or left it to itself: a worker left over, or a daemon.")
    return Ending(RUNNING, argv)


def _unseen(pid: int, reading: ProcessScan, index: int) -> Ending:
    if reading.isolated:
        return Ending(OUTSIDE, ("sudo", "kill", str(pid)), "It lives outside this container: type this on the host.")
    if reading.hides_others:
        return Ending(OUTSIDE, ("sudo", "kill", str(pid)), "It is another user's; this system hides it.")
    return Ending(
        DEAD, _reset(index, reading), f"It has ended, but the driver lists it. Look again before a reset: {_RESET}"
    )


def _zombie(seen: ProcessInfo, reading: ProcessScan, index: int) -> Ending:
    if seen.parent <= 1:
        return Ending(ZOMBIE, _reset(index, reading), f"It is dead and still holds the GPU: {_RESET}")
    remark = f"It is dead, but its parent, process {seen.parent}, has not noticed: end that one."
    return Ending(ZOMBIE, _kill(seen.parent, seen.owner, reading), remark)


def _kill(pid: int, owner: int, reading: ProcessScan) -> tuple[str, ...]:
    own = reading.own_user in (0, owner)
    return (*(() if own else ("sudo",)), "kill", str(pid))


def _reset(index: int, reading: ProcessScan) -> tuple[str, ...]:
    return (*_as_root(reading), "nvidia-smi", "--gpu-reset", "-i", str(index))


def _as_root(reading: ProcessScan) -> tuple[str, ...]:
    return () if reading.own_user == 0 else ("sudo",)  # in a container root often has no sudo


@lru_cache(maxsize=1)
def _services() -> dict[str, dict[str, str]]:
    rows = json.loads(read_data("gpu_services.json"))["services"]
    return {row["name"][:15]: row for row in rows}  # the kernel keeps fifteen characters of a name


_UNLISTED = Absent(("NVML's list of processes",))
_IN_WSL = "/dev/dxg"  # one device for every GPU
_SMALL = 256 << 20  # bytes in use that nobody need answer for: what the driver takes for each process varies
_RESERVED = 1 << 30  # what an older driver reserves for itself and counts as used


@dataclass(frozen=True)
class Holder:
    """A process that has a GPU open or, by NVML, memory on it."""

    pid: int
    name: str
    memory_bytes: Fact[int]  # absent where NVML does not list it
    listed: bool  # by NVML, as nvidia-smi shows it
    seen: bool  # by the system
    ending: Ending
    command_line: str = ""  # for a person's eyes only


@dataclass(frozen=True)
class GpuView:
    """One GPU with the processes on it."""

    activity: GpuActivity
    holders: tuple[Holder, ...]
    unaccounted_bytes: Fact[int]  # used, and held by no process that NVML lists


def listed_pids(gpus: tuple[GpuActivity, ...]) -> frozenset[int]:
    """Return every process that NVML lists on a GPU."""
    return frozenset(process.pid for activity in gpus for process in _listed(activity))


def views(gpus: tuple[GpuActivity, ...], reading: ProcessScan, system: str) -> tuple[GpuView, ...]:
    """Put each process with each GPU that it holds."""
    told = listed_pids(gpus)
    return tuple(_view(activity, reading, system, told) for activity in gpus)


def _listed(activity: GpuActivity) -> tuple[GpuProcess, ...]:
    processes = activity.gpu.processes
    return processes.value if isinstance(processes, Known) else ()


def _view(activity: GpuActivity, reading: ProcessScan, system: str, told: frozenset[int]) -> GpuView:
    # In a PID namespace of its own the driver's number may name another process here: one without the GPU open.
    listed = {process.pid: process for process in _listed(activity)}
    seen = {process.pid: process for process in reading.processes if process.devices or not reading.isolated}
    nodes = {_IN_WSL, *([f"/dev/nvidia{activity.minor.value}"] if isinstance(activity.minor, Known) else [])}
    # CUDA opens every GPU to count them: what NVML lists on another GPU has nothing on this one.
    hidden = [pid for pid, process in seen.items() if nodes & set(process.devices) and pid not in told]
    index = activity.gpu.nvml_index.value if isinstance(activity.gpu.nvml_index, Known) else 0
    holders = tuple(
        _holder(pid, listed.get(pid), seen.get(pid), ending_of(pid, seen.get(pid), reading, system, index))
        for pid in sorted({*listed, *hidden})
    )
    return GpuView(activity, holders, _unaccounted(activity))


def _holder(pid: int, listed: GpuProcess | None, seen: ProcessInfo | None, ending: Ending) -> Holder:
    return Holder(
        pid=pid,
        name=(seen.name if seen else "") or (listed.name if listed else ""),
        memory_bytes=listed.memory_bytes if listed else _UNLISTED,
        listed=listed is not None,
        seen=seen is not None,
        ending=ending,
        command_line=seen.command_line if seen else "",
    )


def _unaccounted(activity: GpuActivity) -> Fact[int]:
    gpu = activity.gpu
    if not isinstance(gpu.memory_used_bytes, Known):
        return gpu.memory_used_bytes
    if not isinstance(gpu.processes, Known):
        return gpu.processes
    shares = [process.memory_bytes for process in gpu.processes.value]
    for share in shares:
        if not isinstance(share, Known):
            return share
    held = sum(share.value for share in shares if isinstance(share, Known))
    return Known(max(0, gpu.memory_used_bytes.value - held), gpu.memory_used_bytes.source)


def is_held_by_nobody_seen(view: GpuView) -> bool:
    """Tell whether more memory is in use than the driver and every process listed take."""
    left = view.unaccounted_bytes
    bound = _SMALL if isinstance(view.activity.memory_reserved_bytes, Known) else _RESERVED
    return isinstance(left, Known) and left.value > bound


def blind_spots(reading: ProcessScan, system: str) -> tuple[str, ...]:
    """Say what could not be looked at."""
    said = []
    if system != "linux":
        said.append("Only the processes that the driver lists are shown: this system has no /proc to look for others.")
    if reading.unreadable:
        said.append(f"{reading.unreadable} processes do not show this user their open files; root sees them (sudo).")
    if reading.hides_others:
        said.append("This system hides other users' processes (hidepid); root sees them (sudo).")
    if reading.isolated:
        said.append("This is a PID namespace (a container): processes outside it, on the same GPU, cannot be seen.")
    return tuple(said)
