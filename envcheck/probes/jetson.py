"""Recognise the GPU of a Jetson by the device tree."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from envcheck.host.data_files import load_data
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Gpu, Known, Source, Unknown, collect_tried, dataclass
from envcheck.probes.nvml import make_gpu

# The device tree's chip is decisive, then its model text, then the release file of the vendor's
# image.
_COMPATIBLE = "/proc/device-tree/compatible"
_MODEL = "/proc/device-tree/model"
_RELEASE = "/etc/nv_tegra_release"


def find_jetson(host: Host) -> Fact[Gpu]:
    """Return the integrated GPU with name and compute capability, absent on any other machine."""
    if host.system != "linux":
        return Absent((f"Jetson (this is {host.system})",))
    compatible = host.read_text(_COMPATIBLE, 4096)
    model = host.read_text(_MODEL, 4096)
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
