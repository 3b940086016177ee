"""Name the integrated GPU of a Jetson, which is on no PCI bus."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional, Tuple

from envcheck.host.data_files import read_data
from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.machine import Gpu
from envcheck.probes.driver_choice import tried_of

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
        return unread[0] if unread else Absent(tried_of(compatible, model, release))
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
