"""Read NVIDIA's devices on the PCI bus, and the names of products."""

from __future__ import annotations

import re
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Host
from envcheck.model import (
    Absent,
    Fact,
    Gpu,
    GpuTable,
    Known,
    PciProduct,
    Source,
    Unknown,
    collect_tried,
    from_file,
    replace,
)
from envcheck.probes.nvml import make_gpu

PCI_FOLDER = "/sys/bus/pci/devices"
_NVIDIA = "10de"
# VGA, 3D controller (laptops, data center), other display
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380")
_NVSWITCH_CLASS = "0x0680"  # "other bridge", the class of every NVSwitch
# the network ports of NVIDIA's mainboard chips (before 2010) have that class too
_FIRST_NVSWITCH_ID = "1ac0"


class PciDevice(NamedTuple):
    """An NVIDIA device in sysfs."""

    address: str  # 0000:07:00.0
    device_id: str  # 20b0; empty when unreadable
    device_class: str  # 0x030200
    driver: Fact[str]
    vendor: str = "10de"

    @property
    def is_gpu(self) -> bool:
        """Return whether this is a graphics or compute device."""
        return self.device_class.startswith(_GPU_CLASSES)

    @property
    def is_nvswitch(self) -> bool:
        """Return whether this is a switch between GPUs."""
        return (
            self.device_class.startswith(_NVSWITCH_CLASS) and self.device_id >= _FIRST_NVSWITCH_ID
        )


def scan_pci(host: Host, vendors: Sequence[str] = (_NVIDIA,)) -> Fact[Tuple[PciDevice, ...]]:
    """List the devices of some vendors on the PCI bus.

    Known and empty for a readable bus without any.
    """
    names = host.list_folder(PCI_FOLDER)
    if isinstance(names, Absent):
        # A machine may have no PCI bus (small boards, some virtual machines); a sandbox may hide
        # it.
        if isinstance(host.status("/sys/bus"), Known):
            return from_file((), "/sys/bus", "no folder pci")
        return Unknown(
            "failed",
            f"{PCI_FOLDER} does not exist: sysfs is not mounted or hidden",
            (PCI_FOLDER, "/sys/bus"),
        )
    if isinstance(names, Unknown):
        return names
    devices: List[PciDevice] = []
    for name in names.value:
        vendor = host.read_text(f"{PCI_FOLDER}/{name}/vendor", 16)
        if isinstance(vendor, Unknown):
            return vendor
        if _parse_hex(vendor) in vendors:
            devices.append(_read_pci_device(host, name, _parse_hex(vendor)))
    kind = "NVIDIA " if _NVIDIA in vendors else ""
    return from_file(
        tuple(devices), PCI_FOLDER, f"{len(devices)} {kind}devices of {len(names.value)}"
    )


def _read_pci_device(host: Host, address: str, vendor: str) -> PciDevice:
    folder = f"{PCI_FOLDER}/{address}"
    driver = host.real_path(f"{folder}/driver")
    if isinstance(driver, Known):
        name = driver.value.rsplit("/", 1)[-1]
        driver = from_file(name, f"{folder}/driver", name)
    device_id, device_class = (
        _parse_hex(host.read_text(f"{folder}/{name}", 16)) for name in ("device", "class")
    )
    return PciDevice(address, device_id, f"0x{device_class}", driver, vendor)


def _parse_hex(text: Fact[str]) -> str:
    """Return the digits of "0x20B0" in lower case, "" where there are none."""
    digits = (text.value or "").strip().lower()
    return digits[2:] if digits.startswith("0x") else ""


def detect_nvswitch(devices: Fact[Tuple[PciDevice, ...]]) -> Fact[bool]:
    """Return whether the machine has an NVSwitch, by its bridge on PCI."""
    switch = next((device for device in devices.value or () if device.is_nvswitch), None)
    if switch:
        return from_file(True, f"{PCI_FOLDER}/{switch.address}/class", switch.device_class)
    if isinstance(devices, Known):
        return Known(False, devices.source)
    return devices


def read_bus_gpu(device: PciDevice, reported: Fact[Tuple[Gpu, ...]]) -> Gpu:
    """Describe a GPU by sysfs, for what NVML does not report."""
    source = Source(
        "file", f"{PCI_FOLDER}/{device.address}", f"10de:{device.device_id} {device.device_class}"
    )
    unknown: Unknown = Unknown("failed", "NVML is not available", collect_tried(reported))
    index: Fact[int] = unknown
    if isinstance(reported, Known):
        unknown = Unknown("failed", "NVML does not list this GPU", (reported.source.where,))
        index = Absent((reported.source.where,))
    elif isinstance(reported, Unknown):
        unknown = index = reported
    device_id: Fact[str] = Unknown(
        "failed", f"{source.where}/device is not readable", (source.where,)
    )
    if device.device_id:
        device_id = Known(device.device_id, source)
    return make_gpu(
        unknown,
        nvml_index=index,
        pci_address=Known(device.address, source),
        pci_id=device_id,
        kernel_driver=device.driver,
    )


_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_TABLE = "data/nvidia/gpus.json"


def add_product_names(host: Host, gpus: Sequence[Gpu]) -> Tuple[Gpu, ...]:
    """Return the GPUs with the names and compute capabilities that no driver reported."""
    if all(gpu.name.value is not None and gpu.compute_capability.value is not None for gpu in gpus):
        return tuple(gpus)
    rows = load_data("nvidia/gpus", GpuTable).pci
    return tuple(_add_product_name(host, gpu, _find_row(rows, gpu)) for gpu in gpus)


def _add_product_name(host: Host, gpu: Gpu, row: Optional[PciProduct]) -> Gpu:
    if gpu.name.value is None:
        gpu = replace(gpu, name=_find_name(host, gpu, row))
    if gpu.compute_capability.value is None:
        gpu = replace(gpu, compute_capability=_find_capability(gpu, row))
    return gpu


def _find_row(rows: Mapping[str, PciProduct], gpu: Gpu) -> Optional[PciProduct]:
    if gpu.pci_id.value is not None:
        return rows.get(gpu.pci_id.value)
    if gpu.name.value is None:
        return None
    # Several chips may share a product name; only a name of one capability counts.
    same_name = [row for row in rows.values() if row.name.lower() == gpu.name.value.lower()]
    return same_name[0] if len({row.cc for row in same_name}) == 1 else None


def _find_name(host: Host, gpu: Gpu, row: Optional[PciProduct]) -> Fact[str]:
    # The program's own table, then the system's pci.ids, which may be newer but has no
    # capabilities.
    if row is not None:
        return from_file(row.name, _TABLE, _describe(gpu))
    if gpu.pci_id.value is None:
        return gpu.name
    name = find_pci_name(host, _NVIDIA, gpu.pci_id.value)
    if isinstance(name, Known):
        return replace(name, value=f"NVIDIA {name.value}")
    return Unknown("failed", f"no table contains PCI id {_describe(gpu)}", (_TABLE, *_PCI_IDS))


def find_pci_name(host: Host, vendor: str, device_id: str) -> Fact[str]:
    """Find the product name of a device in the system's pci.ids."""
    for path in _PCI_IDS:
        text = host.read_text(path, 8 << 20)
        name = None
        if text.value is not None:
            name = parse_pci_ids(text.value, device_id, vendor)
        if name is not None:
            return from_file(name, path, f"{vendor}:{device_id}")
    return Unknown("failed", f"no table contains PCI id {vendor}:{device_id}", _PCI_IDS)


def _find_capability(gpu: Gpu, row: Optional[PciProduct]) -> Fact[str]:
    if row is not None:
        return from_file(row.cc, _TABLE, _describe(gpu))
    return Unknown("failed", f"{_TABLE} has no compute capability for {_describe(gpu)}", (_TABLE,))


def _describe(gpu: Gpu) -> str:
    if gpu.pci_id.value is not None:
        return f"10de:{gpu.pci_id.value}"
    return gpu.name.value or "a GPU without PCI id or name"


def parse_pci_ids(text: str, device_id: str, vendor: str = _NVIDIA) -> Optional[str]:
    r"""Parse a device's product name, else its chip, in pci.ids.

    "10de  NVIDIA Corporation\n\t2684  AD102 [GeForce RTX 4090]\n" with "2684" -> "GeForce RTX 4090"
    """
    start = text.find(f"\n{vendor}  ")
    block = text[start + 1 :] if start >= 0 else ""
    end = re.search(r"\n[0-9a-zA-Z]", block)
    line = re.search(
        rf"^\t{re.escape(device_id)}  (.+)$",
        block[: end.start() if end else len(block)],
        re.MULTILINE,
    )
    if line is None:
        return None
    product = re.search(r"\[(.+)\]", line.group(1))
    return (product.group(1) if product else line.group(1)).strip()
