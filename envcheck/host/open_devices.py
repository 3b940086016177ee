"""See which processes have a GPU's device open, and what the system says of a process."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Collection, Dict, List, Optional, Set, Tuple

from envcheck.model.activity import ProcessReading, SeenProcess

_DEVICES = ("/dev/nvidia", "/dev/dxg")  # the second in WSL
_FIRST_NAMESPACE = "pid:[4026531836]"  # the kernel's fixed number of the PID namespace it starts with
_LIMIT = 4096  # bytes of a file below /proc
_CONTAINER = r"(?:docker|libpod|crio|cri-containerd|lxc|kubepods)[^\n]*?([0-9a-f]{12})[0-9a-f]{52}"


def read_processes(wanted: Collection[int], folder: str = "/proc") -> ProcessReading:
    """Read every process that has an NVIDIA device open and those `wanted`, except this one.

    A wanted process that is not there is left out: it has ended, or lives in another PID namespace.
    """
    found: List[SeenProcess] = []
    closed = 0
    pids = _pids(folder)
    for pid in pids:
        devices = _open_devices(f"{folder}/{pid}/fd")
        closed += devices is None
        if (devices or pid in wanted) and pid != os.getpid():
            found += _process(f"{folder}/{pid}", pid, devices or ())
    own = os.getuid() if hasattr(os, "getuid") else 0
    return ProcessReading(tuple(found), closed, _is_isolated(folder), bool(pids) and 1 not in pids, own)


def _pids(folder: str) -> List[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []  # no /proc: Windows, macOS
    return sorted(int(name) for name in names if name.isdigit())


def _open_devices(folder: str) -> Optional[Tuple[str, ...]]:
    """Return the NVIDIA devices open; None where this user may not see the open files."""
    found: Set[str] = set()
    try:
        names = os.listdir(folder)
    except PermissionError:
        return None
    except OSError:
        return ()  # it has just ended
    for name in names:
        with contextlib.suppress(OSError):
            target = os.readlink(f"{folder}/{name}")
            if target.startswith(_DEVICES):
                found.add(target)
    return tuple(sorted(found))


def _process(folder: str, pid: int, devices: Tuple[str, ...]) -> List[SeenProcess]:
    status = parse_status(_read(f"{folder}/status"))
    if not status:
        return []
    container = re.search(_CONTAINER, _read(f"{folder}/cgroup"))
    return [
        SeenProcess(
            pid=pid,
            name=status.get("Name", ""),
            owner=_number(status.get("Uid", "")),
            state=status.get("State", "?")[:1],
            parent=_number(status.get("PPid", "")),
            devices=devices,
            container=container.group(1) if container else "",
            command_line=_read(f"{folder}/cmdline").replace("\0", " ").strip(),
        )
    ]


def parse_status(text: str) -> Dict[str, str]:
    r"""Read /proc/PID/status into its fields: "Name:\tpython3\nState:\tS (sleeping)\nPPid:\t1\nUid:\t1000\t1000\n"."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: value.strip() for name, value in pairs}


def _number(text: str) -> int:
    words = text.split()
    return int(words[0]) if words and words[0].isdigit() else -1


def _read(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def _is_isolated(folder: str) -> bool:
    try:
        return os.readlink(f"{folder}/self/ns/pid") != _FIRST_NAMESPACE
    except OSError:
        return False
