"""Find NVIDIA GPUs and NVSwitches on the PCI bus, with or without a driver."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown

_DEVICES = "/sys/bus/pci/devices"
_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380")  # VGA, 3D controller (laptops, data centre), other display
_NVSWITCH_ENTRIES = "/proc/driver/nvidia-nvswitch/devices"
_NVSWITCH_CLASS = "0x0680"  # "other bridge", the class of every NVSwitch
_FIRST_NVSWITCH_ID = "1ac0"  # the network ports of NVIDIA's mainboard chips (before 2010) bear that class too


class PciDevice(NamedTuple):
    """An NVIDIA device as sysfs shows it."""

    address: str  # 0000:07:00.0
    device_id: str  # 20b0; empty when unreadable
    device_class: str  # 0x030200
    driver: Fact[str]

    @property
    def is_gpu(self) -> bool:
        """Tell whether this is a graphics or compute device."""
        return self.device_class.startswith(_GPU_CLASSES)

    @property
    def is_nvswitch(self) -> bool:
        """Tell whether this is a switch between GPUs."""
        return self.device_class.startswith(_NVSWITCH_CLASS) and self.device_id >= _FIRST_NVSWITCH_ID


def scan_pci(host: Host) -> Fact[Tuple[PciDevice, ...]]:
    """List the NVIDIA devices on the PCI bus; known and empty when the bus was read and holds none."""
    names = host.list_folder(_DEVICES)
    if isinstance(names, Absent):
        return _without_bus(host)
    if isinstance(names, Unknown):
        return names
    devices: List[PciDevice] = []
    for name in names.value:
        vendor = host.read_text(f"{_DEVICES}/{name}/vendor", 16)
        if isinstance(vendor, Unknown):
            return Unknown(vendor.why, vendor.detail, vendor.tried)
        if isinstance(vendor, Known) and vendor.value.strip().lower() == _NVIDIA:
            devices.append(_device(host, name))
    return Known(tuple(devices), Source("file", _DEVICES, f"{len(devices)} NVIDIA devices of {len(names.value)}"))


def _without_bus(host: Host) -> Fact[Tuple[PciDevice, ...]]:
    # A machine may have no PCI bus (small boards, some virtual machines); a sandbox may just not show it.
    if isinstance(host.status("/sys/bus"), Known):
        return Known((), Source("file", "/sys/bus", "no folder pci"))
    return Unknown("failed", f"{_DEVICES} is not there: sysfs is not mounted or hidden", (_DEVICES, "/sys/bus"))


def _device(host: Host, address: str) -> PciDevice:
    folder = f"{_DEVICES}/{address}"
    driver = host.real_path(f"{folder}/driver")
    if isinstance(driver, Known):
        bound = driver.value.rsplit("/", 1)[-1]
        driver = Known(bound, Source("file", f"{folder}/driver", bound))
    device_id = _hexadecimal(host.read_text(f"{folder}/device", 16)) or ""
    device_class = _hexadecimal(host.read_text(f"{folder}/class", 16)) or ""
    return PciDevice(address, device_id, f"0x{device_class}", driver)


def _hexadecimal(text: Fact[str]) -> Optional[str]:
    if not isinstance(text, Known):
        return None
    digits = text.value.strip().lower()
    return digits[2:] if digits.startswith("0x") else None


def nvswitch_present(host: Host, devices: Fact[Tuple[PciDevice, ...]]) -> Fact[bool]:
    """Tell whether the machine has an NVSwitch: its bridge on PCI, else the driver's entry for it."""
    switches = [device for device in _known(devices) if device.is_nvswitch]
    if switches:
        return Known(True, Source("file", f"{_DEVICES}/{switches[0].address}/class", switches[0].device_class))
    # /dev/nvidia-nvswitchctl proves nothing (the driver makes it everywhere); an entry per switch does.
    entries = host.list_folder(_NVSWITCH_ENTRIES)
    if isinstance(entries, Known) and entries.value:
        return Known(True, Source("file", _NVSWITCH_ENTRIES, entries.value[0]))
    if isinstance(devices, Known):
        return Known(False, devices.source)
    return devices


def _known(devices: Fact[Tuple[PciDevice, ...]]) -> Tuple[PciDevice, ...]:
    return devices.value if isinstance(devices, Known) else ()
