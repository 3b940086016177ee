"""Read the fabric manager, which machines with NVSwitch need in the driver's exact release."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.probes.driver_choice import parsed

_PROGRAM = "/usr/bin/nv-fabricmanager"
_PID_FILE = "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid"
_COMM = "nv-fabricmanage"  # the kernel keeps 15 characters of a process's name
_MOST_PROCESSES = 4096
_NO_NVSWITCH = Absent(("no NVSwitch: the fabric manager was not looked for",))


def read_fabric_manager(
    host: Host, nvswitch: Fact[bool], packages: Fact[Mapping[str, str]]
) -> Tuple[Fact[str], Fact[bool]]:
    """Return the fabric manager's release and whether it runs; looked for only where there is an NVSwitch."""
    if not isinstance(nvswitch, Known):
        return nvswitch, nvswitch
    if not nvswitch.value:
        return _NO_NVSWITCH, _NO_NVSWITCH
    return _version(host, packages), _running(host)


def _version(host: Host, packages: Fact[Mapping[str, str]]) -> Fact[str]:
    # Sources: the program itself, then dpkg.
    done = host.run([_PROGRAM, "--version"], timeout=1.0)
    if isinstance(done, Known):
        text = done.value.stdout + done.value.stderr
        return parsed(Known(text, done.source), parse_fabric_version, "fabric manager version")
    for name, version in packages.value.items() if isinstance(packages, Known) else ():
        found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", version)
        if name.startswith("nvidia-fabricmanager") and "dev" not in name and found:
            return Known(found.group(1), Source("file", "/var/lib/dpkg/status", f"{name} {version}"))
    return done


def parse_fabric_version(text: str) -> Optional[str]:
    """Read the output of nv-fabricmanager --version: "Fabric Manager version is : 535.183.01"."""
    found = re.search(r"version is\s*:\s*(\d+(?:\.\d+)+)", text)
    return found.group(1) if found else None


def _running(host: Host) -> Fact[bool]:
    # Sources: its pid file, then the names of all processes.
    pid = host.read_text(_PID_FILE, 64)
    if isinstance(pid, Known) and _is_fabric_manager(host, pid.value.strip()):
        return Known(True, Source("file", _PID_FILE, pid.value.strip()))
    names = host.list_folder("/proc")
    if not isinstance(names, Known):
        return names
    for name in [name for name in names.value if name.isdigit()][:_MOST_PROCESSES]:
        if _is_fabric_manager(host, name):
            return Known(True, Source("file", f"/proc/{name}/comm", _COMM))
    return _not_seen(host)


def _is_fabric_manager(host: Host, pid: str) -> bool:
    comm = host.read_text(f"/proc/{pid}/comm", 64) if pid.isdigit() else None
    return isinstance(comm, Known) and comm.value.strip() == _COMM


def _not_seen(host: Host) -> Fact[bool]:
    marks = [path for path in ("/.dockerenv", "/run/.containerenv") if isinstance(host.status(path), Known)]
    if marks or "KUBERNETES_SERVICE_HOST" in host.environment():
        return Unknown("failed", "a container does not show the processes of its host", ("/proc/*/comm",))
    return Known(False, Source("file", "/proc/*/comm", f"no {_COMM}"))
