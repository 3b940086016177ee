"""Read what DKMS has of the driver: which releases it built or failed to build, for which kernels."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source
from envcheck.model.machine import DkmsModule

_ROOT = "/var/lib/dkms"


def read_dkms(host: Host) -> Fact[Tuple[DkmsModule, ...]]:
    """List /var/lib/dkms/nvidia*/RELEASE/KERNEL; a folder `build` that stays behind holds a failed build."""
    names = host.list_folder(_ROOT)
    if not isinstance(names, Known):
        return names
    modules: List[DkmsModule] = []
    for name in names.value:
        if re.match(r"nvidia(-|$)", name):
            modules.extend(_releases(host, f"{_ROOT}/{name}"))
    if not modules:
        return Absent((f"{_ROOT}/nvidia*",))
    return Known(tuple(modules), Source("file", _ROOT, f"nvidia {modules[0].version} {modules[0].state}"))


def _releases(host: Host, folder: str) -> List[DkmsModule]:
    names = _names(host, folder)
    installed = _installed(host, folder, names)
    found: List[DkmsModule] = []
    for version in (name for name in names if re.match(r"\d", name)):
        found.extend(_builds(host, f"{folder}/{version}", version, installed))
    return found


def _builds(host: Host, folder: str, version: str, installed: Dict[str, str]) -> List[DkmsModule]:
    inner = _names(host, folder)
    kernels = [name for name in inner if name not in ("source", "build")]
    found = [DkmsModule(version, name, "installed" if installed.get(name) == version else "built") for name in kernels]
    failed = _failed_kernel(host, folder) if "build" in inner else None
    if failed and failed not in kernels:
        found.append(DkmsModule(version, failed, "failed"))
    return found or [DkmsModule(version, "", "added")]


def _installed(host: Host, folder: str, names: Tuple[str, ...]) -> Dict[str, str]:
    # kernel-6.8.0-45-generic-x86_64 is a link to 550.163.01/6.8.0-45-generic/x86_64.
    links = [host.real_path(f"{folder}/{name}") for name in names if name.startswith("kernel-")]
    found = (re.search(r"/(\d[^/]*)/([^/]+)/[^/]+$", link.value) for link in links if isinstance(link, Known))
    return {match.group(2): match.group(1) for match in found if match}


def _failed_kernel(host: Host, folder: str) -> Optional[str]:
    log = host.read_text(f"{folder}/build/make.log", 4096)
    return parse_make_log(log.value) if isinstance(log, Known) else None


def parse_make_log(text: str) -> Optional[str]:
    """Read the kernel a build was for from the first lines of make.log.

    "DKMS make.log for nvidia-550.163.01 for kernel 6.8.0-45-generic (x86_64)" -> "6.8.0-45-generic"
    """
    found = re.search(r"make\.log for \S+ for kernel (\S+)", text)
    return found.group(1) if found else None


def _names(host: Host, folder: str) -> Tuple[str, ...]:
    names = host.list_folder(folder)
    return names.value if isinstance(names, Known) else ()
