"""Tell whether Windows, or WSL on it, has an NVIDIA GPU where no driver is there to ask."""

from __future__ import annotations

import json
import re
from typing import Optional, Tuple

from envcheck.host.data_files import read_data
from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.machine import Gpu

_REG = r"C:\Windows\System32\reg.exe"
_DEVICES = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"
_WSL_LIBRARIES = "/usr/lib/wsl/lib"
_WSL_DRIVERS = "/usr/lib/wsl/drivers"  # every driver package of Windows, one folder each
_DISPLAY_DRIVER = r"nv(?!dimm|raid|stor|me)\w*\.inf_"  # not those that Windows brings for disks and memory


def absent_in_wsl(host: Host) -> Optional[Absent]:
    """Return absent when WSL shows Windows' drivers and none is NVIDIA's: /dev/dxg serves any maker's GPU."""
    libraries, drivers = host.list_folder(_WSL_LIBRARIES), host.list_folder(_WSL_DRIVERS)
    if not isinstance(libraries, Known) or not isinstance(drivers, Known) or not drivers.value:
        return None
    if any(re.match(r"libcuda|libnvidia|nvidia-smi", name) for name in libraries.value):
        return None
    if any(re.match(_DISPLAY_DRIVER, name) for name in drivers.value):
        return None
    return Absent((f"NVIDIA's libraries in {_WSL_LIBRARIES}", f"NVIDIA's display driver in {_WSL_DRIVERS}"))


def registered_gpus(host: Host) -> Fact[Tuple[Gpu, ...]]:
    """Read the GPUs among the PCI devices in Windows' registry; absent when none of them is of NVIDIA's making."""
    done = host.run((_REG, "query", _DEVICES), timeout=1.0)
    if not isinstance(done, Known):
        return done if isinstance(done, Unknown) else Unknown("failed", f"there is no {_REG}", (_REG,))
    if done.value.returncode != 0 or "VEN_" not in done.value.stdout:
        return Unknown("unparsable", f"{_REG} lists no PCI device", (_DEVICES,))
    ids = parse_registry(done.value.stdout)
    if not ids:
        return Absent((_DEVICES,))
    rows = json.loads(read_data("gpus.json"))["pci"]
    gpus = tuple(_gpu(device) for device in ids if device in rows)
    if not gpus:  # its sound or USB device, or a GPU newer than the table
        return Unknown("failed", f"which NVIDIA device this is, is not known: {', '.join(ids)}", (_DEVICES,))
    return Known(gpus, Source("command", f"reg query {_DEVICES}", f"VEN_10DE&DEV_{ids[0].upper()}"))


def parse_registry(text: str) -> Tuple[str, ...]:
    r"""Read the device ids of NVIDIA's PCI devices, each once.

    "HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Enum\PCI\VEN_10DE&DEV_2684&SUBSYS_889D1043&REV_A1" -> ("2684",)
    """
    found = re.findall(r"\\VEN_10DE&DEV_([0-9A-F]{4})", text, re.IGNORECASE)
    return tuple(dict.fromkeys(device.lower() for device in found))


def _gpu(device: str) -> Gpu:
    untold = Unknown("failed", "there is no driver to tell it", (_REG,))
    none = Absent((_DEVICES,))
    return Gpu(
        nvml_index=untold, name=untold, uuid=untold, pci_address=none, pci_id=Known(device, Source("command", _REG)),
        compute_capability=untold, kernel_driver=untold, memory_bytes=untold, memory_used_bytes=untold,
        compute_mode=untold, mig_enabled=untold, mig_devices=untold, processes=untold,
    )  # fmt: skip
