"""Spell PCI addresses one way, so that readings of one GPU can be joined."""

from __future__ import annotations


def normal_pci_address(text: str) -> str:
    """Return an address as sysfs spells it: "00000000:0A:00.0" and "0A:00.0" become "0000:0a:00.0"."""
    address = text.strip().lower()
    if address.count(":") == 1:
        address = "0000:" + address
    domain, _, rest = address.partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"
