"""Find every GPU of the machine, and join what PCI, the driver, NVML, Windows and Jetson report of each."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from envcheck.host.data_files import read_data
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Gpu, Known, Source, Unknown, collect_tried, get_value, list_fields, replace
from envcheck.probes.driver_libraries import find_driver_libraries
from envcheck.probes.nvml import read_nvml, read_smi

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


def detect_nvswitch(host: Host, devices: Fact[Tuple[PciDevice, ...]]) -> Fact[bool]:
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


_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_TABLE = "data/gpus.json"


def add_product_names(host: Host, gpus: Sequence[Gpu]) -> Tuple[Gpu, ...]:
    """Fill in name and compute capability where no driver told them."""
    if all(_is_told(gpu) for gpu in gpus):
        return tuple(gpus)
    rows = json.loads(read_data("gpus.json"))["pci"]
    return tuple(gpu if _is_told(gpu) else _filled(host, gpu, _row_of(rows, gpu)) for gpu in gpus)


def _is_told(gpu: Gpu) -> bool:
    return isinstance(gpu.name, Known) and isinstance(gpu.compute_capability, Known)


def _filled(host: Host, gpu: Gpu, row: Optional[Mapping[str, Any]]) -> Gpu:
    if not isinstance(gpu.name, Known):
        gpu = replace(gpu, name=_name(host, gpu, row))
    if not isinstance(gpu.compute_capability, Known):
        gpu = replace(gpu, compute_capability=_capability(gpu, row))
    return gpu


def _row_of(rows: Mapping[str, Dict[str, Any]], gpu: Gpu) -> Optional[Mapping[str, Any]]:
    if isinstance(gpu.pci_id, Known):
        return rows.get(gpu.pci_id.value)
    if not isinstance(gpu.name, Known):
        return None
    # One product name may stand for several chips; only an unambiguous one tells the capability.
    same = [row for row in rows.values() if row["name"].lower() == gpu.name.value.lower()]
    return same[0] if len({row["cc"] for row in same}) == 1 else None


def _name(host: Host, gpu: Gpu, row: Optional[Mapping[str, Any]]) -> Fact[str]:
    # Sources: the program's own table, then the system's pci.ids (newer, perhaps), which has no capability.
    if row is not None:
        return Known(str(row["name"]), Source("file", _TABLE, _shown(gpu)))
    if not isinstance(gpu.pci_id, Known):
        return gpu.name
    for path in _PCI_IDS:
        text = host.read_text(path, 8 << 20)
        found = parse_pci_ids(text.value, gpu.pci_id.value) if isinstance(text, Known) else None
        if found is not None:
            return Known(found, Source("file", path, _shown(gpu)))
    return Unknown("failed", f"no table names PCI id {_shown(gpu)}", (_TABLE, *_PCI_IDS))


def _capability(gpu: Gpu, row: Optional[Mapping[str, Any]]) -> Fact[str]:
    if row is not None:
        return Known(str(row["cc"]), Source("file", _TABLE, _shown(gpu)))
    return Unknown("failed", f"{_TABLE} has no compute capability for {_shown(gpu)}", (_TABLE,))


def _shown(gpu: Gpu) -> str:
    if isinstance(gpu.pci_id, Known):
        return f"10de:{gpu.pci_id.value}"
    return gpu.name.value if isinstance(gpu.name, Known) else "a GPU without PCI id or name"


def parse_pci_ids(text: str, device_id: str) -> Optional[str]:
    r"""Read a device's product name, else its chip, in pci.ids.

    "10de  NVIDIA Corporation\n\t2684  AD102 [GeForce RTX 4090]\n" with "2684" -> "NVIDIA GeForce RTX 4090"
    """
    start = text.find("\n10de  ")
    block = text[start + 1 :] if start >= 0 else ""
    end = re.search(r"\n[0-9a-zA-Z]", block)
    found = re.search(rf"^\t{re.escape(device_id)}  (.+)$", block[: end.start() if end else len(block)], re.MULTILINE)
    if found is None:
        return None
    product = re.search(r"\[(.+)\]", found.group(1))
    return "NVIDIA " + (product.group(1) if product else found.group(1)).strip()


_FOLDER = "/proc/driver/nvidia/gpus"


def read_information(host: Host, address: str) -> Tuple[Fact[str], Fact[str]]:
    """Return product name and UUID of the GPU at a PCI address."""
    path = f"{_FOLDER}/{address}/information"
    text = host.read_text(path, 8192)
    if not isinstance(text, Known):
        return text, text
    lines = parse_information(text.value)
    return _told(lines, "Model", path), _told(lines, "GPU UUID", path)


def _told(lines: Dict[str, str], name: str, path: str) -> Fact[str]:
    value = lines.get(name, "")
    if not value or "?" in value or value == "Unknown":  # the driver has not initialised this GPU yet
        return Absent((f"{path}: {name}",))
    return Known(value, Source("file", path, f"{name}: {value}"))


def parse_information(text: str) -> Dict[str, str]:
    r"""Read the lines of an information file.

    "Model: \t\t NVIDIA GeForce RTX 3090\nIRQ:   \t\t 151\nGPU UUID: \t GPU-5a1b…\nBus Location: \t 0000:01:00.0\n"
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


# Sources: the device tree's chip (decisive), its model text, the release file of the vendor's image.
_COMPATIBLE = "/proc/device-tree/compatible"
_MODEL = "/proc/device-tree/model"
_RELEASE = "/etc/nv_tegra_release"


def find_jetson(host: Host) -> Fact[Gpu]:
    """Return the integrated GPU with name and compute capability, absent on any other machine."""
    if host.system != "linux":
        return Absent((f"Jetson (this is {host.system})",))
    compatible, model = host.read_text(_COMPATIBLE, 4096), host.read_text(_MODEL, 4096)
    release = host.read_text(_RELEASE, 4096)
    traces = [fact for fact in (compatible, model, release) if isinstance(fact, Known)]
    if not traces:
        unread = [fact for fact in (compatible, model, release) if isinstance(fact, Unknown)]
        return unread[0] if unread else Absent(collect_tried(compatible, model, release))
    chip, source = _chip(compatible, model)
    if chip is None and not isinstance(release, Known):
        return Absent((_COMPATIBLE, _MODEL, _RELEASE))
    return Known(_gpu(chip, source or traces[-1].source, model), source or traces[-1].source)


def _chip(compatible: Fact[str], model: Fact[str]) -> Tuple[Optional[Dict[str, Any]], Optional[Source]]:
    table = json.loads(read_data("jetson.json"))
    for text, parse in ((compatible, parse_compatible), (model, parse_model)):
        chip = parse(text.value, table) if isinstance(text, Known) else None
        if chip is not None and isinstance(text, Known):
            shown = text.value.strip("\0\n").replace("\0", " ")
            return table["chips"][chip], Source("file", text.source.where, shown)
    return None, None


def parse_compatible(text: str, table: Dict[str, Any]) -> Optional[str]:
    r"""Read the chip in the device tree's compatible list.

    "nvidia,p3737-0000+p3701-0000\0nvidia,p3701-0000\0nvidia,tegra234\0" -> "tegra234"
    """
    names = [name.partition(",")[2] for name in text.split("\0")]
    return next((name for name in names if name in table["chips"]), None)


def parse_model(text: str, table: Dict[str, Any]) -> Optional[str]:
    r"""Read the chip out of the board's model: "NVIDIA Jetson Orin Nano Developer Kit\0" -> "tegra234"."""
    if "jetson" not in text.lower():
        return None
    return next((row["chip"] for row in table["models"] if row["contains"] in text), None)


def _gpu(chip: Optional[Dict[str, Any]], source: Source, model: Fact[str]) -> Gpu:
    untold = Unknown("failed", "an integrated GPU: only NVML could tell, where it serves this board", (_MODEL,))
    board = model.value.strip("\0\n ") if isinstance(model, Known) else "Jetson"
    capability: Fact[str] = Unknown("failed", f"which chip {board} has is not known", (_COMPATIBLE, _MODEL))
    if chip is not None:
        capability = Known(chip["compute_capability"], source)
    name = Known(chip["name"] if chip is not None else board, source)
    none = Absent(("integrated: no PCI device",))
    return Gpu(
        nvml_index=untold, name=name, uuid=untold, pci_address=none, pci_id=none, compute_capability=capability,
        kernel_driver=untold, memory_bytes=untold, memory_used_bytes=untold, compute_mode=untold,
        mig_enabled=none, mig_devices=none, processes=untold,
    )  # fmt: skip


_REG = r"C:\Windows\System32\reg.exe"
_WINDOWS_DEVICES = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"
_WSL_LIBRARIES = "/usr/lib/wsl/lib"
_WSL_DRIVERS = "/usr/lib/wsl/drivers"  # every driver package of Windows, one folder each
_DISPLAY_DRIVER = r"nv(?!dimm|raid|stor|me)\w*\.inf_"  # not those that Windows brings for disks and memory


def check_wsl_drivers(host: Host) -> Optional[Absent]:
    """Return absent when WSL shows Windows' drivers and none is NVIDIA's: /dev/dxg serves any maker's GPU."""
    libraries, drivers = host.list_folder(_WSL_LIBRARIES), host.list_folder(_WSL_DRIVERS)
    if not isinstance(libraries, Known) or not isinstance(drivers, Known) or not drivers.value:
        return None
    if any(re.match(r"libcuda|libnvidia|nvidia-smi", name) for name in libraries.value):
        return None
    if any(re.match(_DISPLAY_DRIVER, name) for name in drivers.value):
        return None
    return Absent((f"NVIDIA's libraries in {_WSL_LIBRARIES}", f"NVIDIA's display driver in {_WSL_DRIVERS}"))


def read_registered_gpus(host: Host) -> Fact[Tuple[Gpu, ...]]:
    """Read the GPUs among the PCI devices in Windows' registry; absent when none of them is of NVIDIA's making."""
    done = host.run((_REG, "query", _WINDOWS_DEVICES), timeout=1.0)
    if not isinstance(done, Known):
        return done if isinstance(done, Unknown) else Unknown("failed", f"there is no {_REG}", (_REG,))
    if done.value.returncode != 0 or "VEN_" not in done.value.stdout:
        return Unknown("unparsable", f"{_REG} lists no PCI device", (_WINDOWS_DEVICES,))
    ids = parse_registry(done.value.stdout)
    if not ids:
        return Absent((_WINDOWS_DEVICES,))
    rows = json.loads(read_data("gpus.json"))["pci"]
    gpus = tuple(_windows_gpu(device) for device in ids if device in rows)
    if not gpus:  # its sound or USB device, or a GPU newer than the table
        return Unknown("failed", f"which NVIDIA device this is, is not known: {', '.join(ids)}", (_WINDOWS_DEVICES,))
    return Known(gpus, Source("command", f"reg query {_WINDOWS_DEVICES}", f"VEN_10DE&DEV_{ids[0].upper()}"))


def parse_registry(text: str) -> Tuple[str, ...]:
    r"""Read the device ids of NVIDIA's PCI devices, each once.

    "HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Enum\PCI\VEN_10DE&DEV_2684&SUBSYS_889D1043&REV_A1" -> ("2684",)
    """
    found = re.findall(r"\\VEN_10DE&DEV_([0-9A-F]{4})", text, re.IGNORECASE)
    return tuple(dict.fromkeys(device.lower() for device in found))


def _windows_gpu(device: str) -> Gpu:
    untold = Unknown("failed", "there is no driver to tell it", (_REG,))
    none = Absent((_WINDOWS_DEVICES,))
    return Gpu(
        nvml_index=untold, name=untold, uuid=untold, pci_address=none, pci_id=Known(device, Source("command", _REG)),
        compute_capability=untold, kernel_driver=untold, memory_bytes=untold, memory_used_bytes=untold,
        compute_mode=untold, mig_enabled=untold, mig_devices=untold, processes=untold,
    )  # fmt: skip


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
    nvml = read_nvml(host, find_driver_libraries(host).nvml_to_ask)
    smi = read_smi(host, needed=not nvml.is_complete)
    reported = smi.gpus if isinstance(smi.gpus, Known) and not isinstance(nvml.gpus, Known) else nvml.gpus
    gpus = _join(_from_bus(host, bus, reported), list(_values(reported)), jetson)
    if gpus:
        return Known(add_product_names(host, gpus), _source(bus, reported, jetson))
    none = _none(host, (bus, jetson, nvml.gpus), smi.gpus)
    return none if isinstance(none, Absent) else _without_driver(host, none)


def _without_driver(host: Host, otherwise: Fact[Tuple[Gpu, ...]]) -> Fact[Tuple[Gpu, ...]]:
    # Where only a driver names GPUs and none is there, Windows itself may tell.
    if host.system == "linux":
        return check_wsl_drivers(host) or otherwise
    registered = read_registered_gpus(host)
    if isinstance(registered, Known):
        return Known(add_product_names(host, registered.value), registered.source)
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
    untold: Unknown = Unknown("failed", "there is no NVML to tell it", collect_tried(reported))
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
    by_address = {get_value(gpu.pci_address): position for position, gpu in enumerate(found)}
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
    return replace(reported, **seen)


def _place(gpu: Gpu, by_address: Dict[Optional[str], int], by_uuid: Dict[str, int]) -> Optional[int]:
    if isinstance(gpu.pci_address, Known) and gpu.pci_address.value in by_address:
        return by_address[gpu.pci_address.value]
    return by_uuid.get(gpu.uuid.value) if isinstance(gpu.uuid, Known) else None


def _merge(reported: Gpu, base: Optional[Gpu]) -> Gpu:
    if base is None:
        return reported
    kept = {
        name: getattr(base, name)
        for name in list_fields(Gpu)
        if isinstance(getattr(base, name), Known) and not isinstance(getattr(reported, name), Known)
    }
    return replace(reported, **{**kept, "kernel_driver": base.kernel_driver})


def _with_integrated(gpus: List[Gpu], integrated: Gpu) -> List[Gpu]:
    # NVML lists the integrated GPU on newer images, without a PCI device of the bus behind it.
    for position, gpu in enumerate(gpus):
        if isinstance(gpu.kernel_driver, Unknown) and isinstance(gpu.nvml_index, Known):
            return [*gpus[:position], _merge(gpu, integrated), *gpus[position + 1 :]]
    return [*gpus, integrated]


def _order(gpu: Gpu) -> Tuple[bool, int, str]:
    index = get_value(gpu.nvml_index)
    return index is None, index or 0, get_value(gpu.pci_address) or ""


def _none(host: Host, readings: Tuple[Fact[Any], ...], smi: Fact[Any]) -> Fact[Tuple[Gpu, ...]]:
    # Every reading must have said no. nvidia-smi counts only where GPUs are on no bus this system shows.
    off_bus = host.system == "windows" or not isinstance(host.status(_WSL_DEVICE), Absent)
    for reading in (*readings, smi) if off_bus else readings:
        if isinstance(reading, Unknown):
            return reading
    tried = ("/sys/bus/pci/devices", _WSL_DEVICE, *collect_tried(*readings))
    if off_bus and isinstance(readings[-1], Absent):
        return Unknown("failed", "only the driver names GPUs here, and neither NVML nor nvidia-smi does", tried)
    return Absent(tuple(dict.fromkeys(tried)))
