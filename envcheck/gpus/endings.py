"""The exact command to end a process that holds a GPU, and what to know before; nothing is ever run."""

from __future__ import annotations

import json
from functools import lru_cache

from envcheck.host.data_files import read_data
from envcheck.model.activity import ProcessReading, SeenProcess
from envcheck.model.records import dataclass

RUNNING, ORPHANED, ZOMBIE, STUCK, OUTSIDE, DEAD, SERVICE = (
    "running", "orphaned", "zombie", "stuck", "outside", "dead", "service",
)  # fmt: skip
_RESET = "the reset ends all work on this GPU."


@dataclass(frozen=True)
class Ending:
    """What a process is, and how it is ended."""

    state: str
    argv: tuple[str, ...]  # empty: no command ends it
    remark: str = ""


def ending_of(pid: int, seen: SeenProcess | None, reading: ProcessReading, system: str, index: int) -> Ending:
    """Say how process `pid`, on the GPU of this index, is ended; `seen` is None where the system does not show it."""
    if system == "windows":
        return Ending(RUNNING, ("taskkill", "/F", "/PID", str(pid)))
    if seen is None:
        return _unseen(pid, reading, index)
    if pid == 1:
        return Ending(SERVICE, (), "It is the first process of this system or container.")
    service = _services().get(seen.name)
    if service:
        unit = service["unit"]
        return Ending(SERVICE, ("sudo", "systemctl", "stop", unit) if unit else (), f"It {service['is']}.")
    if seen.state == "Z":
        return _zombie(seen, reading, index)
    if seen.state == "D":
        return Ending(
            STUCK, (), "It waits in the driver, where no signal reaches it; only a restart of the machine helps."
        )
    return _alive(seen, reading)


def _alive(seen: SeenProcess, reading: ProcessReading) -> Ending:
    argv = _kill(seen.pid, seen.owner, reading)
    if seen.container:
        return Ending(RUNNING, argv, f"It runs in container {seen.container}.")
    if seen.parent == 1:
        return Ending(ORPHANED, argv, "Its parent has ended or left it to itself: a worker left over, or a daemon.")
    return Ending(RUNNING, argv)


def _unseen(pid: int, reading: ProcessReading, index: int) -> Ending:
    if reading.isolated:
        return Ending(OUTSIDE, ("sudo", "kill", str(pid)), "It lives outside this container: type this on the host.")
    return Ending(
        DEAD, _reset(index), "It has ended, but the driver still lists it. A reset ends all work on this GPU."
    )


def _zombie(seen: SeenProcess, reading: ProcessReading, index: int) -> Ending:
    if seen.parent <= 1:
        return Ending(ZOMBIE, _reset(index), f"It is dead and still holds the GPU: {_RESET}")
    remark = f"It is dead, but its parent, process {seen.parent}, has not noticed: end that one."
    return Ending(ZOMBIE, _kill(seen.parent, seen.owner, reading), remark)


def _kill(pid: int, owner: int, reading: ProcessReading) -> tuple[str, ...]:
    own = reading.own_user in (0, owner)
    return (*(() if own else ("sudo",)), "kill", str(pid))


def _reset(index: int) -> tuple[str, ...]:
    return ("sudo", "nvidia-smi", "--gpu-reset", "-i", str(index))


@lru_cache(maxsize=1)
def _services() -> dict[str, dict[str, str]]:
    rows = json.loads(read_data("gpu_services.json"))["services"]
    return {row["name"][:15]: row for row in rows}  # the kernel keeps fifteen characters of a name
