"""Find the GPUs that NVIDIA did not make, and what drives them. They are named, not judged."""

from __future__ import annotations

from typing import Mapping, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Host
from envcheck.model import NOT_STATED, Absent, Fact, Known, OtherGpu, OtherGpuVendors, Source, Unknown, get_value
from envcheck.probes.gpus import PciDevice, find_pci_name, scan_pci
from envcheck.probes.host import read_cpu

_ACCELERATORS = "0x1200"  # PCI class "processing accelerator": AMD's Instinct MI300 and newer

_INTEL_GRAPHICS = "0000:00:02.0"  # where Intel's processors have theirs


def collect_other_gpus(host: Host) -> Fact[Tuple[OtherGpu, ...]]:
    """Read the GPUs of AMD and Intel from PCI, and Apple's from the processor that holds it.

    A GPU behind Windows or WSL is unknown: only the driver of its own vendor lists it there.
    """
    if host.system == "darwin":
        return _read_apple_gpu(host)
    if host.system != "linux":
        return Unknown("failed", f"GPUs of other vendors are not read on {host.system}")
    vendors = {vendor.pci: name for name, vendor in load_data("other_gpus", OtherGpuVendors).vendors.items()}
    bus = scan_pci(host, tuple(filter(None, vendors)))
    if not isinstance(bus, Known):
        return bus
    gpus = [device for device in bus.value if device.is_gpu or device.device_class.startswith(_ACCELERATORS)]
    found = tuple(_read_gpu(host, device, vendors) for device in gpus)
    return Known(found, bus.source) if found else Absent((bus.source.where,))


def _read_gpu(host: Host, device: PciDevice, vendors: Mapping[str, str]) -> OtherGpu:
    folder = f"/sys/bus/pci/devices/{device.address}"
    source = Source("file", folder, f"{device.vendor}:{device.device_id} {device.device_class}")
    return OtherGpu(
        vendors[device.vendor],
        name=_find_name(host, device, f"{folder}/product_name"),
        pci_address=Known(device.address, source),
        pci_id=Known(device.device_id, source),
        kernel_driver=device.driver,
        integrated=Known(device.address == _INTEL_GRAPHICS, source)
        if vendors[device.vendor] == "intel"
        else NOT_STATED,
    )


def _find_name(host: Host, device: PciDevice, path: str) -> Fact[str]:
    """Return the name that the driver amdgpu reads of the board, else the one in the system's table of PCI devices."""
    text = (get_value(host.read_text(path, 256)) or "").strip()
    return Known(text, Source("file", path, text)) if text else find_pci_name(host, device.vendor, device.device_id)


def _read_apple_gpu(host: Host) -> Fact[Tuple[OtherGpu, ...]]:
    """Return the GPU of an Apple processor."""
    model, _ = read_cpu(host)
    if not isinstance(model, Known):
        return model
    if not model.value.startswith("Apple"):
        return Absent((f"processor {model.value}",))
    return Known((OtherGpu("apple", name=Known(f"{model.value} GPU", model.source)),), model.source)
