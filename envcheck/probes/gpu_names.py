"""Name a GPU and its compute capability from its PCI id or product name, with no driver installed."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from envcheck.host.data_files import read_data
from envcheck.host.protocol import Host
from envcheck.model.facts import Fact, Known, Source, Unknown
from envcheck.model.machine import Gpu
from envcheck.model.records import replaced

_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_TABLE = "data/gpus.json"


def named(host: Host, gpus: Sequence[Gpu]) -> Tuple[Gpu, ...]:
    """Fill in name and compute capability where no driver told them."""
    if all(_is_told(gpu) for gpu in gpus):
        return tuple(gpus)
    rows = json.loads(read_data("gpus.json"))["pci"]
    return tuple(gpu if _is_told(gpu) else _filled(host, gpu, _row_of(rows, gpu)) for gpu in gpus)


def _is_told(gpu: Gpu) -> bool:
    return isinstance(gpu.name, Known) and isinstance(gpu.compute_capability, Known)


def _filled(host: Host, gpu: Gpu, row: Optional[Mapping[str, Any]]) -> Gpu:
    if not isinstance(gpu.name, Known):
        gpu = replaced(gpu, name=_name(host, gpu, row))
    if not isinstance(gpu.compute_capability, Known):
        gpu = replaced(gpu, compute_capability=_capability(gpu, row))
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
