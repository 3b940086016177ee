"""Find the GPUs that NVIDIA did not make, and what drives them. They are named, not judged."""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Host
from envcheck.model import (
    NOT_STATED,
    Absent,
    Fact,
    Known,
    OtherGpu,
    OtherGpuVendors,
    OtherVendor,
    Source,
    Unknown,
    from_file,
)
from envcheck.probes.cpu import read_cpu
from envcheck.probes.gpus import WSL_DEVICE
from envcheck.probes.pci import PciDevice, find_pci_name, scan_pci
from envcheck.probes.windows_gpus import REG, WSL_DRIVERS, query_registry

_ACCELERATORS = "0x1200"  # PCI class "processing accelerator": AMD's Instinct MI300 and newer

_INTEL_GRAPHICS = "0000:00:02.0"  # where Intel's processors have theirs


def collect_other_gpus(host: Host) -> Fact[Tuple[OtherGpu, ...]]:
    """Read AMD's and Intel's GPUs from PCI or the registry, and Apple's from its processor.

    WSL shows the GPUs of Windows as one device without vendor and name.
    """
    if host.system == "darwin":
        return _read_apple_gpu(host)
    if host.system != "linux":
        return _read_display_adapters(host)
    if isinstance(host.status(WSL_DEVICE), Known):
        return Unknown(
            "failed",
            f"WSL shows the GPUs of Windows as {WSL_DEVICE} alone{_list_wsl_drivers(host)}",
        )
    vendors = {vendor.pci: name for name, vendor in _load_vendors().items()}
    bus = scan_pci(host, tuple(filter(None, vendors)))
    if not isinstance(bus, Known):
        return bus
    gpus = [
        device
        for device in bus.value
        if device.is_gpu or device.device_class.startswith(_ACCELERATORS)
    ]
    found = tuple(_read_gpu(host, device, vendors) for device in gpus)
    return Known(found, bus.source) if found else Absent((bus.source.where,))


def _load_vendors() -> Mapping[str, OtherVendor]:
    return load_data("program/other_gpus", OtherGpuVendors).vendors


def _list_wsl_drivers(host: Host) -> str:
    """Name the vendors whose display drivers Windows shows to WSL."""
    folders = host.list_folder(WSL_DRIVERS).value or ()
    titles = (
        vendor.title
        for vendor in _load_vendors().values()
        if any(re.match(vendor.windows_driver, name) for name in folders)
    )
    named = " and ".join(titles)
    return f"; Windows has a display driver by {named}" if named else ""


_DISPLAY_ADAPTERS = (
    r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
)


def _read_display_adapters(host: Host) -> Fact[Tuple[OtherGpu, ...]]:
    r"""Read other vendors' adapters in Windows' registry, by their drivers' names.

    Sample: 'HKEY_LOCAL_MACHINE\\SYSTEM\\…\\0000\n    DriverDesc    REG_SZ    AMD Radeon RX 7900
    XTX\n'
    """
    done = query_registry(host, _DISPLAY_ADAPTERS, "/s", "/v", "DriverDesc")
    if not isinstance(done, Known):
        return done
    names = [name.strip() for name in re.findall(r"DriverDesc\s+REG_SZ\s+(.+)", done.value.stdout)]
    if not names:  # one more key below is closed to users, so the exit status tells nothing
        return Unknown("unparsable", f"{REG} lists no display adapter", (_DISPLAY_ADAPTERS,))
    found = tuple(gpu for name in names for gpu in _name_adapter(name))
    if found:
        return Known(found, Source("command", f"reg query {_DISPLAY_ADAPTERS}"))
    return Absent((_DISPLAY_ADAPTERS,))


def _name_adapter(name: str) -> Iterator[OtherGpu]:
    source = Source("command", f"reg query {_DISPLAY_ADAPTERS}", name)
    for key, vendor in _load_vendors().items():
        if re.search(vendor.names, name):
            integrated = bool(re.search(vendor.integrated_names, name))
            yield OtherGpu(key, name=Known(name, source), integrated=Known(integrated, source))


def _read_gpu(host: Host, device: PciDevice, vendors: Mapping[str, str]) -> OtherGpu:
    folder = f"/sys/bus/pci/devices/{device.address}"
    source = Source("file", folder, f"{device.vendor}:{device.device_id} {device.device_class}")
    integrated: Fact[bool] = NOT_STATED
    if vendors[device.vendor] == "intel":
        integrated = Known(device.address == _INTEL_GRAPHICS, source)
    return OtherGpu(
        vendors[device.vendor],
        name=_find_name(host, device, f"{folder}/product_name"),
        pci_address=Known(device.address, source),
        pci_id=Known(device.device_id, source),
        kernel_driver=device.driver,
        integrated=integrated,
    )


def _find_name(host: Host, device: PciDevice, path: str) -> Fact[str]:
    """Return the board's name by amdgpu, else the one in the system's table."""
    text = (host.read_text(path, 256).value or "").strip()
    if text:
        return from_file(text, path, text)
    return find_pci_name(host, device.vendor, device.device_id)


def _read_apple_gpu(host: Host) -> Fact[Tuple[OtherGpu, ...]]:
    """Return the GPU of an Apple processor."""
    model, _ = read_cpu(host)
    if not isinstance(model, Known):
        return model
    if not model.value.startswith("Apple"):
        return Absent((f"processor {model.value}",))
    return Known((OtherGpu("apple", name=Known(f"{model.value} GPU", model.source)),), model.source)
