"""GPU products: the rows of data/gpus.json, and the answer about one product."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from envcheck.model.records import dataclass


@dataclass(frozen=True)
class PciProduct:
    """The product behind a PCI device id."""

    name: str  # as drivers report it
    chip: str  # AD102
    cc: str  # compute capability
    data_center: Optional[bool] = None


@dataclass(frozen=True)
class NamedProduct:
    """The product behind a name that has no PCI device id here, or stands for several chips."""

    cc: Tuple[str, ...]  # compute capabilities of its chips
    data_center: Optional[bool] = None


@dataclass(frozen=True)
class GpuTable:
    """The content of data/gpus.json."""

    checked: str
    sources: Tuple[str, ...]
    chips: Mapping[str, str]  # AD102 -> Ada
    names: Mapping[str, NamedProduct]  # in lower case, without the vendor
    pci: Mapping[str, PciProduct]  # by device id in lower case


@dataclass(frozen=True)
class GpuProduct:
    """A GPU product by PCI device id or name; several compute capabilities when the name is ambiguous."""

    name: str
    chip: Optional[str]  # None when looked up by name
    architecture: Optional[str]  # Ada; None when looked up by name
    compute_capabilities: Tuple[str, ...]
    data_center: Optional[bool]  # forward compatibility is offered there; None: the name does not tell
