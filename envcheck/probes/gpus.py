"""Find every GPU, by PCI, the driver, NVML, Windows and Jetson."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model import (
    Absent,
    Fact,
    Gpu,
    Known,
    Source,
    Unknown,
    collect_tried,
    list_fields,
    replace,
)
from envcheck.probes.driver_libraries import find_driver_libraries
from envcheck.probes.jetson import find_jetson
from envcheck.probes.nvml import read_nvml, read_smi_gpus
from envcheck.probes.pci import PCI_FOLDER, add_product_names, read_bus_gpu, scan_pci
from envcheck.probes.windows_gpus import check_wsl_drivers, read_registered_gpus

WSL_DEVICE = "/dev/dxg"


def collect_gpus(host: Host) -> Fact[Tuple[Gpu, ...]]:
    """Read all GPUs in the order of NVML, then those that it does not list.

    Sources: PCI in sysfs (needs no driver), NVML or nvidia-smi, the device tree of a Jetson;
    data/nvidia/gpus.json has missing names and capabilities. Readings are matched by PCI address;
    the numbering of CUDA is not used.
    """
    if host.system not in ("linux", "windows"):
        return Absent((f"CUDA, which {host.system} does not run",))
    if host.system == "linux":
        bus = scan_pci(host)
    else:
        bus = Absent((f"PCI in sysfs (this is {host.system})",))
    jetson = find_jetson(host)
    reported = read_nvml(host, find_driver_libraries(host).nvml_to_query).gpus
    in_table = () if isinstance(reported, Known) else read_smi_gpus(host)
    if in_table:
        source = Source("command", "nvidia-smi", f"{len(in_table)} GPUs in its table")
        reported = Known(in_table, source)
    on_bus = [read_bus_gpu(device, reported) for device in bus.value or () if device.is_gpu]
    gpus = _combine(on_bus, list(reported.value or ()), jetson.value)
    if gpus:
        sources = (fact.source for fact in (bus, reported, jetson) if fact.value)
        return Known(add_product_names(host, gpus), next(sources))
    none = _explain_no_gpu(host, (bus, jetson, reported))
    return none if isinstance(none, Absent) else _find_without_driver(host, none)


def _explain_no_gpu(host: Host, readings: Tuple[Fact[Any], ...]) -> Fact[Tuple[Gpu, ...]]:
    # absent only if every reading is
    for reading in readings:
        if isinstance(reading, Unknown):
            return reading
    is_off_bus = host.system == "windows" or not isinstance(host.status(WSL_DEVICE), Absent)
    tried = (PCI_FOLDER, WSL_DEVICE, *collect_tried(*readings))
    if is_off_bus and isinstance(readings[-1], Absent):
        return Unknown(
            "failed",
            "only the driver lists GPUs here, and NVML lists none",
            tried,
        )
    return Absent(tuple(dict.fromkeys(tried)))


def _find_without_driver(host: Host, otherwise: Fact[Tuple[Gpu, ...]]) -> Fact[Tuple[Gpu, ...]]:
    # Without a driver that lists the GPUs, Windows itself may.
    if host.system == "linux":
        return check_wsl_drivers(host) or otherwise
    registered = read_registered_gpus(host)
    if isinstance(registered, Known):
        return Known(add_product_names(host, registered.value), registered.source)
    return registered if isinstance(registered, Absent) else otherwise


def _combine(on_bus: List[Gpu], reported: List[Gpu], integrated: Optional[Gpu]) -> List[Gpu]:
    by_address = {gpu.pci_address.value: position for position, gpu in enumerate(on_bus)}
    combined: Dict[int, Gpu] = dict(enumerate(on_bus))
    # NVML counts GPUs that it cannot open, without anything to match them by.
    lost = [gpu for gpu in reported if isinstance(gpu.pci_address, Unknown)]
    reported = [gpu for gpu in reported if gpu not in lost]
    if len(lost) == 1 and len(on_bus) == len(reported) + 1:
        positions = {by_address.get(gpu.pci_address.value) for gpu in reported}
        free = [position for position in combined if position not in positions]
        if len(free) == 1:
            combined[free[0]] = _name_lost_gpu(lost[0], combined[free[0]])
    else:
        reported += lost
    for gpu in reported:
        position = by_address.get(gpu.pci_address.value)
        if position is None:
            combined[len(combined)] = gpu
        else:
            combined[position] = _merge(gpu, combined[position])
    gpus = list(combined.values())
    return sorted(_add_integrated(gpus, integrated) if integrated else gpus, key=_get_sort_key)


def _name_lost_gpu(reported: Gpu, device: Gpu) -> Gpu:
    """Return the GPU that NVML cannot open with the address of the one device left."""
    names = ("name", "pci_address", "pci_id", "kernel_driver")
    return replace(reported, **{name: getattr(device, name) for name in names})


def _merge(reported: Gpu, base: Gpu) -> Gpu:
    kept = {
        name: getattr(base, name)
        for name in list_fields(Gpu)
        if isinstance(getattr(base, name), Known) and not isinstance(getattr(reported, name), Known)
    }
    return replace(reported, **{**kept, "kernel_driver": base.kernel_driver})


def _add_integrated(gpus: List[Gpu], integrated: Gpu) -> List[Gpu]:
    # NVML on newer images lists the integrated GPU, which is not on the PCI bus.
    for position, gpu in enumerate(gpus):
        if isinstance(gpu.kernel_driver, Unknown) and gpu.nvml_index.value is not None:
            return [*gpus[:position], _merge(gpu, integrated), *gpus[position + 1 :]]
    return [*gpus, integrated]


def _get_sort_key(gpu: Gpu) -> Tuple[bool, int, str]:
    index = gpu.nvml_index.value
    return index is None, index or 0, gpu.pci_address.value or ""
