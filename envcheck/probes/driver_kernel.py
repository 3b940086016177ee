"""Read the kernel side of the driver: the loaded module, its kind, and what is loaded beside it."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.probes.driver_choice import first_known, parsed, tried_of

_SYS_VERSION = "/sys/module/nvidia/version"
_PROC_VERSION = "/proc/driver/nvidia/version"


class KernelSide(NamedTuple):
    """The nvidia module as the running kernel shows it."""

    version: Fact[str]
    kind: Fact[str]
    uvm_loaded: Fact[bool]
    nouveau_loaded: Fact[bool]


def read_kernel(host: Host) -> KernelSide:
    """Read the loaded modules; absent means that the kernel was seen to run without the driver."""
    if host.system != "linux":
        elsewhere: Absent = Absent((f"Linux kernel modules (this is {host.system})",))
        return KernelSide(elsewhere, elsewhere, elsewhere, elsewhere)
    line = host.read_text(_PROC_VERSION, 4096)
    # Sources: sysfs (bare version), then procfs (its line also names the kind).
    version = first_known(
        parsed(host.read_text(_SYS_VERSION, 256), parse_sys_version, "driver version"),
        parsed(line, parse_proc_version, "driver version"),
    )
    kind = parsed(line, parse_module_kind, "kind of kernel module")
    modules = host.read_text("/proc/modules", 1 << 18)
    return KernelSide(
        _confirmed(host, version, modules),
        _confirmed(host, kind, modules),
        is_loaded(host, "nvidia_uvm", modules),
        is_loaded(host, "nouveau", modules),
    )


def _confirmed(host: Host, reading: Fact[str], modules: Fact[str]) -> Fact[str]:
    # Without sysfs and /proc/modules (a sandbox) a missing file says nothing about the kernel.
    if not isinstance(reading, Absent) or isinstance(modules, Known) or isinstance(host.status("/sys/module"), Known):
        return reading
    tried = (*reading.tried, "/sys/module", "/proc/modules")
    return Unknown("failed", "neither /sys/module nor /proc/modules is readable here", tried)


def is_loaded(host: Host, module: str, modules: Fact[str]) -> Fact[bool]:
    """Tell whether a module is loaded: its sysfs folder (built-in ones too), else its line in /proc/modules."""
    folder = f"/sys/module/{module}"
    status = host.status(folder)
    if isinstance(status, Known):
        return Known(True, Source("file", folder))
    if isinstance(modules, Known):
        loaded = module in parse_modules(modules.value)
        return Known(loaded, Source("file", "/proc/modules", module if loaded else f"no line {module}"))
    if isinstance(status, Absent) and isinstance(host.status("/sys/module"), Known):
        return Known(False, Source("file", "/sys/module", f"no folder {module}"))
    return Unknown("failed", "neither /sys/module nor /proc/modules is readable here", tried_of(status, modules))


def parse_sys_version(text: str) -> Optional[str]:
    r"""Read /sys/module/nvidia/version: "580.95.05\n"."""
    found = re.match(r"\d+(?:\.\d+)+$", text.strip())
    return found.group() if found else None


def parse_proc_version(text: str) -> Optional[str]:
    """Read the version in /proc/driver/nvidia/version.

    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Fri Jan 10 20:00:00 UTC 2025",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3)  Tue Sep 23
    09:55:41 UTC 2025"
    """
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", text)
    return found.group(1) if found else None


def parse_module_kind(text: str) -> Optional[str]:
    """Read open or proprietary from /proc/driver/nvidia/version.

    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build" -> "open"
    """
    if "Open Kernel Module" in text:
        return "open"
    return "proprietary" if "Kernel Module" in text else None


def parse_modules(text: str) -> Tuple[str, ...]:
    """Read the module names in /proc/modules.

    "nvidia_uvm 1540096 0 - Live 0x0000000000000000 (POE)" -> ("nvidia_uvm",)
    """
    return tuple(line.split(" ", 1)[0] for line in text.splitlines() if line)
