"""Read how much memory the machine has, and which processes have a GPU's device open."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Collection, Dict, Iterator, List, Optional, Set, Tuple

from envcheck.model.activity import ProcessInfo, ProcessScan


def available_memory() -> Optional[int]:
    """Return the bytes that can be used without swapping; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii", errors="replace") as stream:
            return parse_available(stream.read(1 << 16))
    except OSError:
        return None


def parse_available(text: str) -> Optional[int]:
    r"""Read the MemAvailable line of /proc/meminfo, in bytes.

    Sample: 'MemTotal:       24627000 kB\nMemFree:        22626160 kB\nMemAvailable:   23834136 kB\n'
    """
    found = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) << 10 if found else None


def resident_memory(pid: int) -> Optional[int]:
    """Return the resident bytes of a process and its descendants; None where the system does not tell.

    Of a descendant only what it does not share with files counts: its libraries are in the first process already.
    """
    first = _pages(pid)
    if first is None:
        return None
    total = first[0]
    for child in _descendants(pid):
        resident, shared = _pages(child) or [0, 0]
        total += max(0, resident - shared)
    return total * _page_size()


def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _pages(pid: int) -> Optional[List[int]]:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as stream:
            return [int(word) for word in stream.read(256).split()[1:3]]
    except (OSError, ValueError):
        return None


def _descendants(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            yield child
            waiting.append(child)


def _children(pid: int) -> List[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            return [int(word) for word in stream.read(1 << 16).split()]
    except (OSError, ValueError):  # a kernel without CONFIG_PROC_CHILDREN
        return []


_DEVICES = ("/dev/nvidia", "/dev/dxg")  # the second in WSL
_FIRST_NAMESPACE = "pid:[4026531836]"  # the kernel's fixed number of the PID namespace it starts with
_LIMIT = 4096  # bytes of a file below /proc
_CONTAINER = r"(?:docker|libpod|crio|cri-containerd|lxc|kubepods)[^\n]*?([0-9a-f]{12})[0-9a-f]{52}"


def read_processes(wanted: Collection[int], folder: str = "/proc") -> ProcessScan:
    """Read every process that has an NVIDIA device open and those `wanted`, except this one.

    A wanted process that is not there is left out: it has ended, or lives in another PID namespace.
    """
    found: List[ProcessInfo] = []
    unreadable = 0
    pids = _pids(folder)
    for pid in pids:
        links, state = _open_files(f"{folder}/{pid}"), ""
        devices = _devices(links or ())
        if not links and _is_dead(f"{folder}/{pid}"):
            devices, state = _of_threads(f"{folder}/{pid}")
        else:
            unreadable += links is None
        if (devices or pid in wanted) and pid != os.getpid():
            found += _process(f"{folder}/{pid}", pid, devices, state)
    own = os.getuid() if hasattr(os, "getuid") else 0
    return ProcessScan(tuple(found), unreadable, _is_isolated(folder), bool(pids) and 1 not in pids, own)


def _pids(folder: str) -> List[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []  # no /proc: Windows, macOS
    return sorted(int(name) for name in names if name.isdigit())


def _open_files(folder: str) -> Optional[List[str]]:
    """Return the links to a process's or thread's open files; None where this user may not see them."""
    try:
        return [f"{folder}/fd/{name}" for name in os.listdir(f"{folder}/fd")]
    except PermissionError:
        return None
    except OSError:
        return []  # it has just ended


def _devices(links: Collection[str]) -> Tuple[str, ...]:
    """Return the NVIDIA devices among open files."""
    found: Set[str] = set()
    for link in links:
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target.startswith(_DEVICES):
                found.add(target.replace(" (deleted)", ""))  # made anew since it was opened
    return tuple(sorted(found))


def _is_dead(folder: str) -> bool:
    return _read(f"{folder}/status").find("\nState:\tZ") >= 0


def _of_threads(folder: str) -> Tuple[Tuple[str, ...], str]:
    """Return the devices that threads have open whose first one has ended, and the state of one of them.

    A trainer that was killed while a thread of it waits in the driver is dead to `ps`, and holds its GPU all the same;
    the files of the first thread are closed then, and hidden even from the process's owner.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{folder}/task"):
            devices = _devices(_open_files(f"{folder}/task/{name}") or ())
            if devices:
                return devices, parse_status(_read(f"{folder}/task/{name}/status")).get("State", "?")[:1]
    return (), ""


def _process(folder: str, pid: int, devices: Tuple[str, ...], state: str) -> List[ProcessInfo]:
    status = parse_status(_read(f"{folder}/status"))
    if not status:
        return []
    container = re.search(_CONTAINER, _read(f"{folder}/cgroup"))
    return [
        ProcessInfo(
            pid=pid,
            name=status.get("Name", ""),
            owner=_number(status.get("Uid", "")),
            state=state or status.get("State", "?")[:1],
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
