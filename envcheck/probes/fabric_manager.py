"""Find the fabric manager of machines with NVSwitch, and whether it runs."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Unknown, from_file, parse_fact
from envcheck.model.text import find_group
from envcheck.probes.package_managers import DPKG_STATUS

_FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"
_PID_FILE = "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid"
_COMM = "nv-fabricmanage"  # the kernel keeps 15 characters of a process name
_MAX_PROCESSES = 4096
_NO_NVSWITCH = Absent(("no NVSwitch: the fabric manager was not looked for",))


def read_fabric_manager(
    host: Host, nvswitch: Fact[bool], packages: Fact[Mapping[str, str]]
) -> Tuple[Fact[str], Fact[bool]]:
    """Return the fabric manager's release and whether it runs.

    Only for machines with an NVSwitch.
    """
    if not isinstance(nvswitch, Known):
        return nvswitch, nvswitch
    if not nvswitch.value:
        return _NO_NVSWITCH, _NO_NVSWITCH
    return _read_fabric_version(host, packages), _is_fabric_manager_running(host)


def _read_fabric_version(host: Host, packages: Fact[Mapping[str, str]]) -> Fact[str]:
    # The program itself, then dpkg.
    done = host.run([_FABRIC_MANAGER, "--version"], timeout=1.0)
    if isinstance(done, Known):
        text = done.value.stdout + done.value.stderr
        return parse_fact(Known(text, done.source), parse_fabric_version, "fabric manager version")
    for name, version in (packages.value or {}).items():
        match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", version)
        if name.startswith("nvidia-fabricmanager") and "dev" not in name and match:
            return from_file(match.group(1), DPKG_STATUS, f"{name} {version}")
    return done


def parse_fabric_version(text: str) -> Optional[str]:
    """Parse the output of nv-fabricmanager --version: "Fabric Manager version is : 535.183.01"."""
    return find_group(r"version is\s*:\s*(\d+(?:\.\d+)+)", text) or None


def _is_fabric_manager_running(host: Host) -> Fact[bool]:
    # Its pid file, then the names of all processes.
    pid = (host.read_text(_PID_FILE, 64).value or "").strip()
    if _is_fabric_manager(host, pid):
        return from_file(True, _PID_FILE, pid)
    names = host.list_folder("/proc")
    if not isinstance(names, Known):
        return names
    for name in [name for name in names.value if name.isdigit()][:_MAX_PROCESSES]:
        if _is_fabric_manager(host, name):
            return from_file(True, f"/proc/{name}/comm", _COMM)
    in_container = any(
        isinstance(host.status(path), Known) for path in ("/.dockerenv", "/run/.containerenv")
    )
    if in_container or "KUBERNETES_SERVICE_HOST" in host.environment():
        return Unknown(
            "failed", "a container does not show the processes of its host", ("/proc/*/comm",)
        )
    return from_file(False, "/proc/*/comm", f"no {_COMM}")


def _is_fabric_manager(host: Host, pid: str) -> bool:
    return pid.isdigit() and (host.read_text(f"/proc/{pid}/comm", 64).value or "").strip() == _COMM
