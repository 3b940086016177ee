"""Read the GPUs that Windows knows, also from within WSL."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Completed, Host
from envcheck.model import Absent, Fact, Gpu, GpuTable, Known, Source, Unknown
from envcheck.probes.nvml import make_gpu

REG = r"C:\Windows\System32\reg.exe"
_WINDOWS_DEVICES = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"
_WSL_LIBRARIES = "/usr/lib/wsl/lib"
WSL_DRIVERS = "/usr/lib/wsl/drivers"  # one folder per driver package of Windows
_DISPLAY_DRIVER = r"nv(?!dimm|raid|stor|me)\w*\.inf_"  # not Windows' drivers for disks and memory


def check_wsl_drivers(host: Host) -> Optional[Absent]:
    """Return absent where WSL shows Windows' drivers and none is NVIDIA's.

    /dev/dxg serves GPUs of any maker.
    """
    libraries = host.list_folder(_WSL_LIBRARIES)
    drivers = host.list_folder(WSL_DRIVERS)
    if libraries.value is None or not drivers.value:
        return None
    if any(re.match(r"libcuda|libnvidia|nvidia-smi", name) for name in libraries.value):
        return None
    if any(re.match(_DISPLAY_DRIVER, name) for name in drivers.value):
        return None
    return Absent(
        (f"NVIDIA's libraries in {_WSL_LIBRARIES}", f"NVIDIA's display driver in {WSL_DRIVERS}")
    )


def read_registered_gpus(host: Host) -> Fact[Tuple[Gpu, ...]]:
    """Read the GPUs among the PCI devices in Windows' registry; absent where none is NVIDIA's."""
    done = query_registry(host, _WINDOWS_DEVICES)
    if not isinstance(done, Known):
        return done
    if done.value.returncode != 0 or "VEN_" not in done.value.stdout:
        return Unknown("unparsable", f"{REG} lists no PCI device", (_WINDOWS_DEVICES,))
    ids = parse_registry(done.value.stdout)
    if not ids:
        return Absent((_WINDOWS_DEVICES,))
    rows = load_data("nvidia/gpus", GpuTable).pci
    gpus = tuple(_make_windows_gpu(device) for device in ids if device in rows)
    if not gpus:  # a sound or USB device of a GPU, or a GPU newer than the table
        return Unknown(
            "failed",
            f"no known NVIDIA GPU has these PCI ids: {', '.join(ids)}",
            (_WINDOWS_DEVICES,),
        )
    return Known(
        gpus, Source("command", f"reg query {_WINDOWS_DEVICES}", f"VEN_10DE&DEV_{ids[0].upper()}")
    )


def query_registry(host: Host, *words: str) -> Fact[Completed]:
    """Ask Windows' registry; every Windows has it, so that no answer is unknown."""
    done = host.run((REG, "query", *words), timeout=1.0)
    if isinstance(done, Absent):
        return Unknown("failed", f"{REG} does not exist", (REG,))
    return done


def parse_registry(text: str) -> Tuple[str, ...]:
    r"""Parse the distinct device ids of NVIDIA's PCI devices.

    "HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Enum\PCI\VEN_10DE&DEV_2684&SUBSYS_889D1043&REV_A1"
    -> ("2684",)
    """
    ids = re.findall(r"\\VEN_10DE&DEV_([0-9A-F]{4})", text, re.IGNORECASE)
    return tuple(dict.fromkeys(device.lower() for device in ids))


def _make_windows_gpu(device: str) -> Gpu:
    unknown = Unknown("failed", "the NVIDIA driver is not installed", (REG,))
    return make_gpu(
        unknown,
        pci_address=Absent((_WINDOWS_DEVICES,)),
        pci_id=Known(device, Source("command", REG)),
    )
