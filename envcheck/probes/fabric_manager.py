"""Find the fabric manager of machines with NVSwitch, and whether it runs."""

from __future__ import annotations

from typing import Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Unknown, from_file, parse_fact
from envcheck.model.text import find_group
from envcheck.probes.container import detect_container

_FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"
_COMM = "nv-fabricmanage"  # the kernel keeps 15 characters of a process name
_NO_NVSWITCH = Absent(("no NVSwitch: the fabric manager was not looked for",))


def read_fabric_manager(host: Host, nvswitch: Fact[bool]) -> Tuple[Fact[str], Fact[bool]]:
    """Return the fabric manager's release and whether it runs.

    Only for machines with an NVSwitch.
    """
    if not isinstance(nvswitch, Known):
        return nvswitch, nvswitch
    if not nvswitch.value:
        return _NO_NVSWITCH, _NO_NVSWITCH
    return _read_fabric_version(host), _is_fabric_manager_running(host)


def _read_fabric_version(host: Host) -> Fact[str]:
    done = host.run([_FABRIC_MANAGER, "--version"], timeout=1.0)
    if not isinstance(done, Known):
        return done
    text = done.value.stdout + done.value.stderr
    return parse_fact(Known(text, done.source), parse_fabric_version, "fabric manager version")


def parse_fabric_version(text: str) -> Optional[str]:
    """Parse the output of nv-fabricmanager --version: "Fabric Manager version is : 535.183.01"."""
    return find_group(r"version is\s*:\s*(\d+(?:\.\d+)+)", text) or None


def _is_fabric_manager_running(host: Host) -> Fact[bool]:
    names = host.list_folder("/proc")
    if not isinstance(names, Known):
        return names
    for name in filter(str.isdigit, names.value):
        if (host.read_text(f"/proc/{name}/comm", 64).value or "").strip() == _COMM:
            return from_file(True, f"/proc/{name}/comm", _COMM)
    if detect_container(host).value is not None:
        return Unknown(
            "failed", "a container does not show the processes of its host", ("/proc/*/comm",)
        )
    return from_file(False, "/proc/*/comm", f"no {_COMM}")
