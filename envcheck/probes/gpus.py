"""Find every GPU, by PCI, the driver, NVML, Windows and Jetson."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

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
    dataclass,
    list_fields,
    replace,
)
from envcheck.probes.driver_libraries import find_driver_libraries
from envcheck.probes.nvml import make_gpu, read_nvml, read_smi

WSL_DEVICE = "/dev/dxg"


def collect_gpus(host: Host) -> Fact[Tuple[Gpu, ...]]:
    """Read all GPUs in the order of NVML, then those that it does not list.

    Sources: PCI in sysfs (needs no driver), /proc/driver/nvidia/gpus, NVML, nvidia-smi where NVML
    does not answer, the device tree of a Jetson; data/nvidia/gpus.json has missing names and
    capabilities. Readings are matched by PCI address, then by UUID; the numbering of CUDA is not
    used.
    """
    if host.system not in ("linux", "windows"):
        return Absent((f"CUDA, which {host.system} does not run",))
    if host.system == "linux":
        bus = scan_pci(host)
    else:
        bus = Absent((f"PCI in sysfs (this is {host.system})",))
    jetson = find_jetson(host)
    nvml = read_nvml(host, find_driver_libraries(host).nvml_to_query)
    smi = read_smi(host, needed=not nvml.is_complete)
    reported = nvml.gpus
    if isinstance(smi.gpus, Known) and not isinstance(nvml.gpus, Known):
        reported = smi.gpus
    on_bus = [_read_bus_gpu(host, device, reported) for device in bus.value or () if device.is_gpu]
    gpus = _combine(on_bus, list(reported.value or ()), jetson.value)
    if gpus:
        sources = (fact.source for fact in (bus, reported, jetson) if fact.value)
        return Known(add_product_names(host, gpus), next(sources))
    none = _explain_no_gpu(host, (bus, jetson, nvml.gpus), smi.gpus)
    return none if isinstance(none, Absent) else _find_without_driver(host, none)


def _explain_no_gpu(
    host: Host, readings: Tuple[Fact[Any], ...], smi: Fact[Any]
) -> Fact[Tuple[Gpu, ...]]:
    # Absent only if every reading is. nvidia-smi counts only where this system shows no bus with
    # GPUs.
    is_off_bus = host.system == "windows" or not isinstance(host.status(WSL_DEVICE), Absent)
    for reading in (*readings, smi) if is_off_bus else readings:
        if isinstance(reading, Unknown):
            return reading
    tried = (_PCI, WSL_DEVICE, *collect_tried(*readings))
    if is_off_bus and isinstance(readings[-1], Absent):
        return Unknown(
            "failed",
            "only the driver lists GPUs here, and neither NVML nor nvidia-smi lists any",
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
    by_uuid = {
        gpu.uuid.value: position
        for position, gpu in enumerate(on_bus)
        if gpu.uuid.value is not None
    }
    combined: Dict[int, Gpu] = dict(enumerate(on_bus))
    # NVML counts GPUs that it cannot open, without anything to match them by.
    lost = [
        gpu
        for gpu in reported
        if isinstance(gpu.pci_address, Unknown) and isinstance(gpu.uuid, Unknown)
    ]
    reported = [gpu for gpu in reported if gpu not in lost]
    if len(lost) == 1 and len(on_bus) == len(reported) + 1:
        positions = {_find_position(gpu, by_address, by_uuid) for gpu in reported}
        free = [position for position in combined if position not in positions]
        combined.update(
            (position, _name_lost_gpu(lost[0], combined[position]))
            for position in free
            if len(free) == 1
        )
    else:
        reported += lost
    for gpu in reported:
        position = _find_position(gpu, by_address, by_uuid)
        if position is None:
            combined[len(combined)] = gpu
        else:
            combined[position] = _merge(gpu, combined[position])
    gpus = list(combined.values())
    return sorted(_add_integrated(gpus, integrated) if integrated else gpus, key=_get_sort_key)


def _find_position(
    gpu: Gpu, by_address: Dict[Optional[str], int], by_uuid: Dict[str, int]
) -> Optional[int]:
    if gpu.pci_address.value in by_address:
        return by_address[gpu.pci_address.value]
    return by_uuid.get(gpu.uuid.value) if gpu.uuid.value is not None else None


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


_PCI = "/sys/bus/pci/devices"
_NVIDIA = "10de"
# VGA, 3D controller (laptops, data center), other display
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380")
_NVSWITCHES = "/proc/driver/nvidia-nvswitch/devices"
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
    names = host.list_folder(_PCI)
    if isinstance(names, Absent):
        # A machine may have no PCI bus (small boards, some virtual machines); a sandbox may hide
        # it.
        if isinstance(host.status("/sys/bus"), Known):
            return Known((), Source("file", "/sys/bus", "no folder pci"))
        return Unknown(
            "failed", f"{_PCI} does not exist: sysfs is not mounted or hidden", (_PCI, "/sys/bus")
        )
    if isinstance(names, Unknown):
        return names
    devices: List[PciDevice] = []
    for name in names.value:
        vendor = host.read_text(f"{_PCI}/{name}/vendor", 16)
        if isinstance(vendor, Unknown):
            return vendor
        if _parse_hex(vendor) in vendors:
            devices.append(_read_pci_device(host, name, _parse_hex(vendor)))
    kind = "NVIDIA " if _NVIDIA in vendors else ""
    return Known(
        tuple(devices), Source("file", _PCI, f"{len(devices)} {kind}devices of {len(names.value)}")
    )


def _read_pci_device(host: Host, address: str, vendor: str) -> PciDevice:
    folder = f"{_PCI}/{address}"
    driver = host.real_path(f"{folder}/driver")
    if isinstance(driver, Known):
        name = driver.value.rsplit("/", 1)[-1]
        driver = Known(name, Source("file", f"{folder}/driver", name))
    device_id, device_class = (
        _parse_hex(host.read_text(f"{folder}/{name}", 16)) for name in ("device", "class")
    )
    return PciDevice(address, device_id, f"0x{device_class}", driver, vendor)


def _parse_hex(text: Fact[str]) -> str:
    """Return the digits of "0x20B0" in lower case, "" where there are none."""
    digits = (text.value or "").strip().lower()
    return digits[2:] if digits.startswith("0x") else ""


def detect_nvswitch(host: Host, devices: Fact[Tuple[PciDevice, ...]]) -> Fact[bool]:
    """Return whether the machine has an NVSwitch.

    Its bridge on PCI, else an entry of the driver.
    """
    switch = next((device for device in devices.value or () if device.is_nvswitch), None)
    if switch:
        return Known(True, Source("file", f"{_PCI}/{switch.address}/class", switch.device_class))
    # /dev/nvidia-nvswitchctl proves nothing (the driver creates it everywhere); an entry per switch
    # does.
    entries = host.list_folder(_NVSWITCHES).value
    if entries:
        return Known(True, Source("file", _NVSWITCHES, entries[0]))
    return Known(False, devices.source) if isinstance(devices, Known) else devices


def _read_bus_gpu(host: Host, device: PciDevice, reported: Fact[Tuple[Gpu, ...]]) -> Gpu:
    source = Source(
        "file", f"{_PCI}/{device.address}", f"10de:{device.device_id} {device.device_class}"
    )
    unknown: Unknown = Unknown("failed", "NVML is not available", collect_tried(reported))
    index: Fact[int] = unknown
    if isinstance(reported, Known):
        unknown = Unknown("failed", "NVML does not list this GPU", (reported.source.where,))
        index = Absent((reported.source.where,))
    elif isinstance(reported, Unknown):
        unknown = index = reported
    model, uuid = read_information(host, device.address)
    device_id: Fact[str] = Unknown(
        "failed", f"{source.where}/device is not readable", (source.where,)
    )
    if device.device_id:
        device_id = Known(device.device_id, source)
    return make_gpu(
        unknown,
        nvml_index=index,
        name=model,
        uuid=uuid if isinstance(uuid, Known) else unknown,
        pci_address=Known(device.address, source),
        pci_id=device_id,
        kernel_driver=device.driver,
    )


_INFORMATION = "/proc/driver/nvidia/gpus"


def read_information(host: Host, address: str) -> Tuple[Fact[str], Fact[str]]:
    """Return product name and UUID of the GPU at a PCI address."""
    path = f"{_INFORMATION}/{address}/information"
    text = host.read_text(path, 8192)
    if not isinstance(text, Known):
        return text, text
    lines = parse_information(text.value)
    return _make_line_fact(lines, "Model", path), _make_line_fact(lines, "GPU UUID", path)


def _make_line_fact(lines: Dict[str, str], name: str, path: str) -> Fact[str]:
    value = lines.get(name, "")
    if not value or "?" in value or value == "Unknown":  # the driver has not initialized this GPU
        return Absent((f"{path}: {name}",))
    return Known(value, Source("file", path, f"{name}: {value}"))


def parse_information(text: str) -> Dict[str, str]:
    r"""Parse the lines of an information file.

    "Model: \t\t NVIDIA GeForce RTX 3090\nIRQ:   \t\t 151\nGPU UUID: \t GPU-5a1b…\nBus Location: \t
    0000:01:00.0\n"
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


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
        return Known(row.name, Source("file", _TABLE, _describe(gpu)))
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
            return Known(name, Source("file", path, f"{vendor}:{device_id}"))
    return Unknown("failed", f"no table contains PCI id {vendor}:{device_id}", _PCI_IDS)


def _find_capability(gpu: Gpu, row: Optional[PciProduct]) -> Fact[str]:
    if row is not None:
        return Known(row.cc, Source("file", _TABLE, _describe(gpu)))
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


# The device tree's chip is decisive, then its model text, then the release file of the vendor's
# image.
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
        if unread:
            return unread[0]
        return Absent(collect_tried(compatible, model, release))
    chip, source = _find_chip(compatible, model)
    if chip is None and not isinstance(release, Known):
        return Absent((_COMPATIBLE, _MODEL, _RELEASE))
    return Known(
        _make_jetson_gpu(chip, source or traces[-1].source, model), source or traces[-1].source
    )


@dataclass
class JetsonChip:
    """A chip of Jetson modules."""

    name: str
    compute_capability: str


@dataclass
class JetsonModel:
    """Words in the model name of a board, and the chip of that board."""

    contains: str
    chip: str


@dataclass
class JetsonTable:
    """The content of data/nvidia/jetson.json."""

    chips: Mapping[str, JetsonChip]
    models: Tuple[JetsonModel, ...]


def _find_chip(
    compatible: Fact[str], model: Fact[str]
) -> Tuple[Optional[JetsonChip], Optional[Source]]:
    table = load_data("nvidia/jetson", JetsonTable)
    for text, parse in ((compatible, parse_compatible), (model, parse_model)):
        chip = parse(text.value, table) if isinstance(text, Known) else None
        if chip is not None and isinstance(text, Known):
            excerpt = text.value.strip("\0\n").replace("\0", " ")
            return table.chips[chip], Source("file", text.source.where, excerpt)
    return None, None


def parse_compatible(text: str, table: JetsonTable) -> Optional[str]:
    r"""Parse the chip in the device tree's compatible list.

    "nvidia,p3737-0000+p3701-0000\0nvidia,p3701-0000\0nvidia,tegra234\0" -> "tegra234"
    """
    names = [name.partition(",")[2] for name in text.split("\0")]
    return next((name for name in names if name in table.chips), None)


def parse_model(text: str, table: JetsonTable) -> Optional[str]:
    r"""Parse the chip in the board's model.

    "NVIDIA Jetson Orin Nano Developer Kit\0" -> "tegra234".
    """
    if "jetson" not in text.lower():
        return None
    return next((row.chip for row in table.models if row.contains in text), None)


def _make_jetson_gpu(chip: Optional[JetsonChip], source: Source, model: Fact[str]) -> Gpu:
    board = model.value.strip("\0\n ") if model.value is not None else "Jetson"
    capability: Fact[str] = Unknown(
        "failed", f"the chip of {board} is unknown", (_COMPATIBLE, _MODEL)
    )
    if chip is not None:
        capability = Known(chip.compute_capability, source)
    none = Absent(("integrated: no PCI device",))
    return make_gpu(
        Unknown(
            "failed",
            "only NVML reports it for an integrated GPU, where it supports the board",
            (_MODEL,),
        ),
        name=Known(chip.name if chip is not None else board, source),
        pci_address=none,
        pci_id=none,
        compute_capability=capability,
        mig_enabled=none,
        mig_devices=none,
    )


REG = r"C:\Windows\System32\reg.exe"
_WINDOWS_DEVICES = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"
_WSL_LIBRARIES = "/usr/lib/wsl/lib"
WSL_DRIVERS = "/usr/lib/wsl/drivers"  # one folder per driver package of Windows
_DISPLAY_DRIVER = r"nv(?!dimm|raid|stor|me)\w*\.inf_"  # not Windows' drivers for disks and memory


def check_wsl_drivers(host: Host) -> Optional[Absent]:
    """Return absent where WSL shows Windows' drivers and none is NVIDIA's.

    /dev/dxg serves GPUs of any maker.
    """
    libraries, drivers = host.list_folder(_WSL_LIBRARIES), host.list_folder(WSL_DRIVERS)
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
    done = host.run((REG, "query", _WINDOWS_DEVICES), timeout=1.0)
    if not isinstance(done, Known):
        if isinstance(done, Unknown):
            return done
        return Unknown("failed", f"{REG} does not exist", (REG,))
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
