"""Read CPU features, memory and processes from the operating system."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from typing import Any, Collection, Iterator, List, Optional, Set, Tuple

from envcheck.model import ProcessInfo, ProcessScan
from envcheck.model.text import find_group, parse_fields

# winnt.h: PF_XMMI_INSTRUCTIONS_AVAILABLE, PF_XMMI64_INSTRUCTIONS_AVAILABLE,
# PF_SSE3_INSTRUCTIONS_AVAILABLE ...
_FEATURES = {
    "sse": 6,
    "sse2": 10,
    "sse3": 13,
    "ssse3": 36,
    "sse4_1": 37,
    "sse4_2": 38,
    "avx": 39,
    "avx2": 40,
}
# XSTATE_MASK_AVX: older Windows reports AVX only through the registers that it saves
_AVX_STATE = 1 << 2


def has_sse42() -> bool:
    """Return whether this processor has SSE 4.2 or is not an x86.

    False where the system does not say.
    """
    if sys.platform == "darwin":
        return True  # so does every Mac that runs a supported Python
    if os.name == "nt":
        return not {"sse4_2", "avx"}.isdisjoint(read_windows_cpu_features())
    return parse_sse42(_read_file("/proc/cpuinfo", 1 << 16))


def has_avx() -> bool:
    """Return whether this processor is known to have AVX."""
    if os.name == "nt":
        return "avx" in read_windows_cpu_features()
    return (
        re.search(r"^flags\s*:.* avx ", _read_file("/proc/cpuinfo", 1 << 16), re.MULTILINE)
        is not None
    )


def parse_sse42(cpuinfo: str) -> bool:
    r"""Parse the first processor of /proc/cpuinfo.

    Sample: 'processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme sse4_1 sse4_2 x2apic\n';
    an Arm processor has 'Features' instead: 'processor\t: 0\nFeatures\t: fp asimd evtstrm aes\n'
    """
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is None:
        return re.search(r"^Features\s*:", cpuinfo, re.MULTILINE) is not None
    return "sse4_2" in flags.group(1).split()


def read_windows_cpu_features() -> Tuple[str, ...]:
    """List the vector instructions that Windows enables, with the names of /proc/cpuinfo.

    Raises AttributeError elsewhere.
    """
    import ctypes  # only for Windows

    windows: Any = ctypes
    kernel = windows.windll.kernel32
    kernel.GetEnabledXStateFeatures.restype = ctypes.c_uint64
    features = [
        name for name, number in _FEATURES.items() if kernel.IsProcessorFeaturePresent(number)
    ]
    saves_avx = kernel.GetEnabledXStateFeatures() & _AVX_STATE
    return (*features, *(("avx",) if saves_avx and "avx" not in features else ()))


def read_available_memory() -> Optional[int]:
    """Return the bytes available without swapping; None where the system does not report them."""
    return parse_available_memory(_read_file("/proc/meminfo", 1 << 16))


def parse_available_memory(text: str) -> Optional[int]:
    r"""Parse the MemAvailable line of /proc/meminfo, in bytes.

    Sample: 'MemTotal:       24627000 kB\nMemFree:        22626160 kB\nMemAvailable:   23834136
    kB\n'
    """
    match = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    return int(match.group(1)) << 10 if match else None


def read_resident_memory(pid: int) -> Optional[int]:
    """Return the resident bytes of a process and its descendants.

    Return None where the system does not report them.

    A descendant counts without the pages it shares with files: its libraries are those of the first
    process.
    """
    own = _read_pages(pid)
    if own is None:
        return None
    pages = own[0]
    for child in _list_descendants(pid):
        resident, shared = _read_pages(child) or [0, 0]
        pages += max(0, resident - shared)
    return pages * os.sysconf("SC_PAGE_SIZE")


def _read_pages(pid: int) -> Optional[List[int]]:
    """Return [resident, shared] of /proc/PID/statm."""
    numbers = _read_file(f"/proc/{pid}/statm").split()[1:3]
    return [int(number) for number in numbers] or None


def _list_descendants(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        # Empty on a kernel without CONFIG_PROC_CHILDREN.
        for child in map(
            int, _read_file(f"/proc/{parent}/task/{parent}/children", 1 << 16).split()
        ):
            yield child
            waiting.append(child)


_DEVICES = ("/dev/nvidia", "/dev/dxg")  # WSL has the second
_INITIAL_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO: the kernel's first PID namespace
_CONTAINER = r"(?:docker|libpod|crio|cri-containerd|lxc|kubepods)[^\n]*?([0-9a-f]{12})[0-9a-f]{52}"


def read_processes(wanted: Collection[int], folder: str = "/proc") -> ProcessScan:
    """Read the processes `wanted` and all that have an NVIDIA device open, except this one.

    A wanted process that is missing has ended, or is in another PID namespace.
    """
    processes: List[ProcessInfo] = []
    unreadable = 0
    pids = _list_pids(folder)
    for pid in pids:
        place, state = f"{folder}/{pid}", ""
        links = _list_open_files(place)
        devices = _find_devices(links or ())
        if not links and "\nState:\tZ" in _read_file(f"{place}/status"):
            devices, state = _find_devices_of_threads(place)
        else:
            unreadable += links is None
        if (devices or pid in wanted) and pid != os.getpid():
            processes += _read_process(place, pid, devices, state)
    own = os.getuid() if hasattr(os, "getuid") else 0
    return ProcessScan(
        tuple(processes), unreadable, _is_isolated(folder), bool(pids) and 1 not in pids, own
    )


def list_programs_in(place: str, folder: str = "/proc") -> Tuple[Tuple[int, str], ...]:
    """List the processes, and their names, that run from a folder or map a file of it.

    This one is left out.
    """
    found = []
    for pid in _list_pids(folder):
        process = f"{folder}/{pid}"
        if pid != os.getpid() and _runs_from(process, place.rstrip("/") + "/"):
            found.append((pid, _read_file(f"{process}/comm").strip() or "a program"))
    return tuple(found)


def _runs_from(process: str, place: str) -> bool:
    """Return whether a process was started from a folder, or has a file of it mapped."""
    return _read_file(f"{process}/cmdline").startswith(place) or f" {place}" in _read_file(
        f"{process}/maps"
    )


def _list_pids(folder: str) -> List[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []  # no /proc: Windows, macOS
    return sorted(int(name) for name in names if name.isdigit())


def _list_open_files(folder: str) -> Optional[List[str]]:
    """List the links to the open files of a process or thread.

    Return None where this user may not see them.
    """
    try:
        return [f"{folder}/fd/{name}" for name in os.listdir(f"{folder}/fd")]
    except PermissionError:
        return None
    except OSError:
        return []  # it has just ended


def _find_devices(links: Collection[str]) -> Tuple[str, ...]:
    """Return the NVIDIA devices among open files."""
    devices: Set[str] = set()
    for link in links:
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target.startswith(_DEVICES):
                devices.add(target.replace(" (deleted)", ""))  # the driver has recreated it
    return tuple(sorted(devices))


def _find_devices_of_threads(folder: str) -> Tuple[Tuple[str, ...], str]:
    """Return the devices of the first thread that has any, and its state.

    Where one thread of a killed trainer waits in the driver, `ps` shows a zombie that still holds
    its GPU. The files of its main thread are closed then, and hidden even from the owner of the
    process.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{folder}/task"):
            thread = f"{folder}/task/{name}"
            devices = _find_devices(_list_open_files(thread) or ())
            if devices:
                return devices, parse_fields(_read_file(f"{thread}/status")).get("State", "?")[:1]
    return (), ""


def _read_process(folder: str, pid: int, devices: Tuple[str, ...], state: str) -> List[ProcessInfo]:
    status = parse_fields(_read_file(f"{folder}/status"))
    if not status:
        return []
    return [
        ProcessInfo(
            pid=pid,
            name=status.get("Name", ""),
            owner=_parse_first_number(status.get("Uid", "")),
            state=state or status.get("State", "?")[:1],
            parent=_parse_first_number(status.get("PPid", "")),
            devices=devices,
            container=find_group(_CONTAINER, _read_file(f"{folder}/cgroup")),
            command_line=_read_file(f"{folder}/cmdline").replace("\0", " ").strip(),
            user=_find_user_name(_parse_first_number(status.get("Uid", ""))),
            seconds=_read_run_time(folder),
        )
    ]


def _find_user_name(number: int) -> str:
    try:
        import pwd  # not on Windows
    except ImportError:
        return ""
    with contextlib.suppress(KeyError, OverflowError):
        return pwd.getpwuid(number).pw_name
    return str(number) if number >= 0 else ""


def _read_run_time(folder: str) -> Optional[int]:
    """Return the seconds since a process started.

    Field 22 of its stat counts clock ticks since the system's start.
    """
    fields = _read_file(f"{folder}/stat").rpartition(")")[2].split()
    up = _read_file("/proc/uptime").split()
    try:
        return max(0, int(float(up[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK")))
    except (IndexError, ValueError):
        return None


def _parse_first_number(text: str) -> int:
    first = text.partition("\t")[0].strip()
    return int(first) if first.isdigit() else -1


def _read_file(path: str, limit: int = 4096) -> str:
    """Read the start of a file below /proc; "" where it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def _is_isolated(folder: str) -> bool:
    try:
        return os.readlink(f"{folder}/self/ns/pid") != _INITIAL_NAMESPACE
    except OSError:
        return False


_ROUNDS = 5  # a process may start another while the list is read


def kill_processes_with_variable(name: str, value: str) -> None:
    """Kill this user's processes with `name=value` in their environment; Linux only.

    Ansible's workers and their ssh run in their own sessions, and outlive a kill of Ansible and its
    limits.
    """
    for _ in range(_ROUNDS):
        pids = list(_find_processes_with_variable(f"{name}={value}".encode()))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return


def _find_processes_with_variable(variable: bytes) -> Iterator[int]:
    for pid in _list_pids("/proc"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as stream:
            if variable in stream.read().split(b"\0"):
                yield pid
