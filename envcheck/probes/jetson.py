"""Recognise the GPU of a Jetson by the device tree."""

from __future__ import annotations

from typing import Mapping, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Gpu, Known, Source, Unknown, dataclass
from envcheck.probes.nvml import make_gpu

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
