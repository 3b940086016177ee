"""Look up GPU products by PCI device id or by name."""

from __future__ import annotations

import re
from functools import lru_cache

from envcheck.host.data_files import load_data
from envcheck.model import Gpu, GpuProduct, GpuTable, PciProduct


def find_gpu_by_pci_id(device_id: str) -> GpuProduct | None:
    """Return the product of a PCI device id such as 2684 (hexadecimal, any case)."""
    row = _load_table().pci.get(device_id.lower())
    return _make_product(row) if row else None


@lru_cache(maxsize=64)
def find_gpu_by_name(name: str) -> GpuProduct | None:
    """Return the product of a name as drivers report it.

    A name of several chips has several capabilities.
    """
    normalised = _normalise(name)
    row = _load_table().names.get(normalised)
    if row:
        return GpuProduct(name, None, None, row.cc, row.data_center)
    word = normalised.rpartition(" ")[2]  # normalising all 1,300 names takes 2 ms
    named = (item for item in _load_table().pci.values() if word in item.name.lower())
    found = next((item for item in named if _normalise(item.name) == normalised), None)
    return _make_product(found) if found else None


@lru_cache(maxsize=64)
def find_capabilities(text: str) -> tuple[str, ...]:
    """List the compute capabilities of the products that "RTX 4090" or "H100" may mean."""
    separated = _insert_blanks(text)
    return _find_by_words(text) or (_find_by_words(separated) if separated != text else ())


def _find_by_words(text: str) -> tuple[str, ...]:
    exact = find_gpu_by_name(text)
    if exact:
        return exact.compute_capabilities
    phrase, words = f" {_normalise(text)} ", _normalise(text).split()
    products = [(name, row.cc) for name, row in _load_table().names.items()]
    products += [(row.name, (row.cc,)) for row in _load_table().pci.values()]
    rows = [
        (_separate_words(name), cc)
        for name, cc in products
        if all(word in name.lower() for word in words)
    ]
    named = [numbers for name, numbers in rows if phrase in name]
    if not named and len(words) > 1:  # "Jetson Thor" of "Jetson AGX Thor"
        named = [numbers for name, numbers in rows if all(f" {word} " in name for word in words)]
    return tuple(sorted({number for numbers in named for number in numbers}, key=float))


def _insert_blanks(text: str) -> str:
    """Insert the blanks that users often omit: "GTX1080Ti" -> "GTX 1080 Ti"."""
    series = re.sub(r"(?i)\b(rtx|gtx|gt|quadro|tesla)(?=[a-z]?\d)", r"\1 ", text)
    return re.sub(r"(?i)(\d{3,4})(ti|super)\b", r"\1 \2", series)


def _load_table() -> GpuTable:
    return load_data("nvidia/gpus", GpuTable)


def _make_product(row: PciProduct) -> GpuProduct:
    return GpuProduct(
        row.name, row.chip, _load_table().chips.get(row.chip), (row.cc,), row.data_center
    )


def _normalise(name: str) -> str:
    """Convert to lower case, collapse blanks, drop the vendor and the MIG part.

    "NVIDIA H200 MIG 1g.18gb" -> "h200".
    """
    return " ".join(name.lower().split()).removeprefix("nvidia ").partition(" mig ")[0]


def unify_gpu_spelling(name: str) -> str:
    """Spell a name in one way.

    Drivers report "NVIDIA A100-SXM4-40GB", the PCI ids list "A100 SXM4 40GB".
    """
    return _normalise(name.replace("-", " "))


def get_gpu_model(gpu: Gpu) -> str:
    """Return a GPU's name in one spelling; "" where it is unknown."""
    return unify_gpu_spelling(gpu.name.value or "")


def _separate_words(name: str) -> str:
    """Put blanks around each word: "NVIDIA A100-SXM4-40GB" -> " a100 sxm4 40gb a100-sxm4-40gb "."""
    plain = _normalise(re.sub(r"[()/]", " ", name))
    return f" {plain.replace('-', ' ')} {plain} "
