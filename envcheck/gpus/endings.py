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
_RESET = "that ends all work on this GPU."


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
    if seen.state == "Z":
        return _zombie(seen, reading, index)
    if seen.state == "D":
        return Ending(STUCK, (), "No signal reaches it while it waits in the driver; a restart of the machine ends it.")
    return _service(seen, reading) or _alive(seen, reading)


def _service(seen: SeenProcess, reading: ProcessReading) -> Ending | None:
    if seen.pid == 1:
        return Ending(SERVICE, (), "It is the first process of this system or container.")
    known = _services().get(seen.name)
    if known is None:
        return None
    stop = (*_as_root(reading), "systemctl", "stop", known["unit"]) if known["unit"] else ()
    return Ending(SERVICE, stop, f"It {known['is']}.")


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
    if reading.hides_others:
        return Ending(OUTSIDE, ("sudo", "kill", str(pid)), "It is another user's; this system hides it.")
    return Ending(
        DEAD, _reset(index, reading), f"It has ended, but the driver lists it. Look again before a reset: {_RESET}"
    )


def _zombie(seen: SeenProcess, reading: ProcessReading, index: int) -> Ending:
    if seen.parent <= 1:
        return Ending(ZOMBIE, _reset(index, reading), f"It is dead and still holds the GPU: {_RESET}")
    remark = f"It is dead, but its parent, process {seen.parent}, has not noticed: end that one."
    return Ending(ZOMBIE, _kill(seen.parent, seen.owner, reading), remark)


def _kill(pid: int, owner: int, reading: ProcessReading) -> tuple[str, ...]:
    own = reading.own_user in (0, owner)
    return (*(() if own else ("sudo",)), "kill", str(pid))


def _reset(index: int, reading: ProcessReading) -> tuple[str, ...]:
    return (*_as_root(reading), "nvidia-smi", "--gpu-reset", "-i", str(index))


def _as_root(reading: ProcessReading) -> tuple[str, ...]:
    return () if reading.own_user == 0 else ("sudo",)  # in a container root often has no sudo


@lru_cache(maxsize=1)
def _services() -> dict[str, dict[str, str]]:
    rows = json.loads(read_data("gpu_services.json"))["services"]
    return {row["name"][:15]: row for row in rows}  # the kernel keeps fifteen characters of a name
