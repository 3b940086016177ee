"""Find every GPU, by PCI, the driver, NVML, Windows and Jetson; name those of other vendors."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Completed, Host
from envcheck.model import (
    NOT_STATED,
    Absent,
    Fact,
    Gpu,
    GpuTable,
    Known,
    OtherGpu,
    OtherGpuVendors,
    OtherVendor,
    PciProduct,
    Source,
    Unknown,
    collect_tried,
    dataclass,
    from_file,
    list_fields,
    replace,
)
from envcheck.probes.host import read_cpu
from envcheck.probes.nvml import find_driver_libraries, make_gpu, read_nvml, read_smi_gpus

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


# The device tree's chip is decisive, then the release file of the vendor's image.
_COMPATIBLE = "/proc/device-tree/compatible"
_RELEASE = "/etc/nv_tegra_release"


@dataclass
class JetsonChip:
    """A chip of Jetson modules."""

    name: str
    compute_capability: str


@dataclass
class JetsonTable:
    """The content of data/nvidia/jetson.json."""

    chips: Mapping[str, JetsonChip]


def find_jetson(host: Host) -> Fact[Gpu]:
    """Return the integrated GPU with name and compute capability, absent on any other machine."""
    if host.system != "linux":
        return Absent((f"Jetson (this is {host.system})",))
    compatible = host.read_text(_COMPATIBLE, 4096)
    for name in parse_compatible(compatible.value or ""):
        chip = load_data("nvidia/jetson", JetsonTable).chips.get(name)
        if chip is not None:
            source = Source("file", _COMPATIBLE, name)
            return _make_jetson_gpu(chip.name, Known(chip.compute_capability, source), source)
    release = host.read_text(_RELEASE, 4096)
    if isinstance(release, Known):
        unknown = Unknown("failed", "the chip of this Jetson is unknown", (_COMPATIBLE,))
        return _make_jetson_gpu("Jetson", unknown, release.source)
    for fact in (compatible, release):
        if isinstance(fact, Unknown):
            return fact
    return Absent((_COMPATIBLE, _RELEASE))


def parse_compatible(text: str) -> Tuple[str, ...]:
    r"""Parse NVIDIA's names in the device tree's compatible list.

    "nvidia,p3701-0000\0nvidia,tegra234\0" -> "p3701-0000", "tegra234"
    """
    names = text.split("\0")
    return tuple(name[len("nvidia,") :] for name in names if name.startswith("nvidia,"))


def _make_jetson_gpu(name: str, capability: Fact[str], source: Source) -> Known[Gpu]:
    none = Absent(("integrated: no PCI device",))
    gpu = make_gpu(
        Unknown(
            "failed",
            "only NVML reports it for an integrated GPU, where it supports the board",
            (_COMPATIBLE,),
        ),
        name=Known(name, source),
        pci_address=none,
        pci_id=none,
        compute_capability=capability,
        mig_enabled=none,
        mig_devices=none,
    )
    return Known(gpu, source)


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
    found = tuple(_read_other_gpu(host, device, vendors) for device in gpus)
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


def _read_other_gpu(host: Host, device: PciDevice, vendors: Mapping[str, str]) -> OtherGpu:
    folder = f"/sys/bus/pci/devices/{device.address}"
    source = Source("file", folder, f"{device.vendor}:{device.device_id} {device.device_class}")
    integrated: Fact[bool] = NOT_STATED
    if vendors[device.vendor] == "intel":
        integrated = Known(device.address == _INTEL_GRAPHICS, source)
    return OtherGpu(
        vendors[device.vendor],
        name=_find_board_name(host, device, f"{folder}/product_name"),
        pci_address=Known(device.address, source),
        pci_id=Known(device.device_id, source),
        kernel_driver=device.driver,
        integrated=integrated,
    )


def _find_board_name(host: Host, device: PciDevice, path: str) -> Fact[str]:
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
