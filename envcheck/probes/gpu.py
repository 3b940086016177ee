"""Find every GPU of the machine and join what PCI, the driver and NVML tell of each."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown, value_of
from envcheck.model.machine import Gpu
from envcheck.model.records import field_names, replaced
from envcheck.probes.driver_choice import tried_of
from envcheck.probes.driver_libraries import find_libraries
from envcheck.probes.gpu_jetson import find_jetson
from envcheck.probes.gpu_names import named
from envcheck.probes.gpu_pci import PciDevice, scan_pci
from envcheck.probes.gpu_proc import read_information
from envcheck.probes.gpu_windows import absent_in_wsl, registered_gpus
from envcheck.probes.nvml import read_nvml
from envcheck.probes.smi import read_smi

_WSL_DEVICE = "/dev/dxg"


def collect_gpus(host: Host) -> Fact[Tuple[Gpu, ...]]:
    """Read all GPUs, in NVML's order, those it does not list after them.

    Sources: PCI in sysfs (needs no driver), /proc/driver/nvidia/gpus, NVML, nvidia-smi where NVML did
    not answer, the device tree of a Jetson; names and capabilities not told come from data/gpus.json.
    Readings are joined by PCI address, then by UUID; CUDA's own numbering plays no part.
    """
    if host.system not in ("linux", "windows"):
        return Absent((f"CUDA, which {host.system} does not run",))
    bus = scan_pci(host) if host.system == "linux" else Absent((f"PCI in sysfs (this is {host.system})",))
    jetson = find_jetson(host)
    nvml = read_nvml(host, find_libraries(host).nvml_to_ask)
    smi = read_smi(host, needed=not nvml.is_complete)
    reported = smi.gpus if isinstance(smi.gpus, Known) and not isinstance(nvml.gpus, Known) else nvml.gpus
    gpus = _join(_from_bus(host, bus, reported), list(_values(reported)), jetson)
    if gpus:
        return Known(named(host, gpus), _source(bus, reported, jetson))
    none = _none(host, (bus, jetson, nvml.gpus), smi.gpus)
    return none if isinstance(none, Absent) else _without_driver(host, none)


def _without_driver(host: Host, otherwise: Fact[Tuple[Gpu, ...]]) -> Fact[Tuple[Gpu, ...]]:
    # Where only a driver names GPUs and none is there, Windows itself may tell.
    if host.system == "linux":
        return absent_in_wsl(host) or otherwise
    registered = registered_gpus(host)
    if isinstance(registered, Known):
        return Known(named(host, registered.value), registered.source)
    return registered if isinstance(registered, Absent) else otherwise


def _values(fact: Fact[Tuple[Any, ...]]) -> Tuple[Any, ...]:
    return fact.value if isinstance(fact, Known) else ()


def _source(*readings: Fact[Any]) -> Source:
    return next(fact.source for fact in readings if isinstance(fact, Known) and fact.value)


def _from_bus(host: Host, bus: Fact[Tuple[PciDevice, ...]], reported: Fact[Tuple[Gpu, ...]]) -> List[Gpu]:
    devices = [device for device in _values(bus) if device.is_gpu]
    return [_bus_gpu(host, device, reported) for device in devices]


def _bus_gpu(host: Host, device: PciDevice, reported: Fact[Tuple[Gpu, ...]]) -> Gpu:
    source = Source("file", f"/sys/bus/pci/devices/{device.address}", f"10de:{device.device_id} {device.device_class}")
    untold: Unknown = Unknown("failed", "there is no NVML to tell it", tried_of(reported))
    index: Fact[int] = untold
    if isinstance(reported, Known):
        untold = Unknown("failed", "NVML does not list this GPU", (reported.source.where,))
        index = Absent((reported.source.where,))
    elif isinstance(reported, Unknown):
        untold = index = reported
    model, uuid = read_information(host, device.address)
    device_id: Fact[str] = Unknown("failed", f"{source.where}/device is not readable", (source.where,))
    if device.device_id:
        device_id = Known(device.device_id, source)
    return Gpu(
        nvml_index=index, name=model, uuid=uuid if isinstance(uuid, Known) else untold,
        pci_address=Known(device.address, source), pci_id=device_id,
        compute_capability=untold, kernel_driver=device.driver, memory_bytes=untold, memory_used_bytes=untold,
        compute_mode=untold, mig_enabled=untold, mig_devices=untold, processes=untold,
    )  # fmt: skip


def _join(found: List[Gpu], reported: List[Gpu], jetson: Fact[Gpu]) -> List[Gpu]:
    by_address = {value_of(gpu.pci_address): position for position, gpu in enumerate(found)}
    by_uuid = {gpu.uuid.value: position for position, gpu in enumerate(found) if isinstance(gpu.uuid, Known)}
    joined: Dict[int, Gpu] = dict(enumerate(found))
    reported, lost = _told_apart(reported)
    if len(lost) == 1 and len(found) == len(reported) + 1:
        places = {_place(gpu, by_address, by_uuid) for gpu in reported}
        free = [position for position in joined if position not in places]
        joined.update((position, _lost(lost[0], joined[position])) for position in free if len(free) == 1)
    else:
        reported += lost
    for gpu in reported:
        position = _place(gpu, by_address, by_uuid)
        joined[len(joined) if position is None else position] = _merge(
            gpu, joined.get(-1 if position is None else position)
        )
    gpus = list(joined.values())
    if isinstance(jetson, Known):
        gpus = _with_integrated(gpus, jetson.value)
    return sorted(gpus, key=_order)


def _told_apart(reported: List[Gpu]) -> Tuple[List[Gpu], List[Gpu]]:
    """Separate the GPUs that NVML counts but cannot open: it tells nothing to know them by."""
    nameless = [isinstance(gpu.pci_address, Unknown) and isinstance(gpu.uuid, Unknown) for gpu in reported]
    pairs = list(zip(reported, nameless))
    return [gpu for gpu, is_lost in pairs if not is_lost], [gpu for gpu, is_lost in pairs if is_lost]


def _lost(reported: Gpu, device: Gpu) -> Gpu:
    """Give the one GPU that NVML cannot open the place and name of the one device left on the bus."""
    seen = {name: getattr(device, name) for name in ("name", "pci_address", "pci_id", "kernel_driver")}
    return replaced(reported, **seen)


def _place(gpu: Gpu, by_address: Dict[Optional[str], int], by_uuid: Dict[str, int]) -> Optional[int]:
    if isinstance(gpu.pci_address, Known) and gpu.pci_address.value in by_address:
        return by_address[gpu.pci_address.value]
    return by_uuid.get(gpu.uuid.value) if isinstance(gpu.uuid, Known) else None


def _merge(reported: Gpu, base: Optional[Gpu]) -> Gpu:
    if base is None:
        return reported
    kept = {
        name: getattr(base, name)
        for name in field_names(Gpu)
        if isinstance(getattr(base, name), Known) and not isinstance(getattr(reported, name), Known)
    }
    return replaced(reported, **{**kept, "kernel_driver": base.kernel_driver})


def _with_integrated(gpus: List[Gpu], integrated: Gpu) -> List[Gpu]:
    # NVML lists the integrated GPU on newer images, without a PCI device of the bus behind it.
    for position, gpu in enumerate(gpus):
        if isinstance(gpu.kernel_driver, Unknown) and isinstance(gpu.nvml_index, Known):
            return [*gpus[:position], _merge(gpu, integrated), *gpus[position + 1 :]]
    return [*gpus, integrated]


def _order(gpu: Gpu) -> Tuple[bool, int, str]:
    index = value_of(gpu.nvml_index)
    return index is None, index or 0, value_of(gpu.pci_address) or ""


def _none(host: Host, readings: Tuple[Fact[Any], ...], smi: Fact[Any]) -> Fact[Tuple[Gpu, ...]]:
    # Every reading must have said no. nvidia-smi counts only where GPUs are on no bus this system shows.
    off_bus = host.system == "windows" or not isinstance(host.status(_WSL_DEVICE), Absent)
    for reading in (*readings, smi) if off_bus else readings:
        if isinstance(reading, Unknown):
            return reading
    tried = ("/sys/bus/pci/devices", _WSL_DEVICE, *tried_of(*readings))
    if off_bus and isinstance(readings[-1], Absent):
        return Unknown("failed", "only the driver names GPUs here, and neither NVML nor nvidia-smi does", tried)
    return Absent(tuple(dict.fromkeys(tried)))
