"""GPU products by PCI id and by name."""

from __future__ import annotations

import json

import pytest

from envcheck.host.data_files import read_data
from envcheck.matrix.gpus import find_capabilities, find_gpu_by_name, find_gpu_by_pci_id


def test_by_pci_id() -> None:
    row = find_gpu_by_pci_id("2684")
    assert row
    assert (row.name, row.chip, row.architecture, row.compute_capabilities, row.data_center) == (
        "NVIDIA GeForce RTX 4090",
        "AD102",
        "Ada",
        ("8.9",),
        False,
    )
    assert find_gpu_by_pci_id("20B0") == find_gpu_by_pci_id("20b0")
    assert find_gpu_by_pci_id("ffff") is None


@pytest.mark.parametrize(
    ("name", "capabilities", "data_center"),
    [
        ("NVIDIA GeForce RTX 4090", ("8.9",), False),
        ("geforce  rtx 4090", ("8.9",), False),
        ("Tesla T4", ("7.5",), True),
        ("NVIDIA A100-SXM4-40GB", ("8.0",), True),
        ("NVIDIA H100 80GB HBM3", ("9.0",), True),
        ("GeForce GT 730", ("2.1", "3.0", "3.5"), False),
    ],
)
def test_by_name(name: str, capabilities: tuple[str, ...], data_center: bool) -> None:
    row = find_gpu_by_name(name)
    assert row
    assert (row.compute_capabilities, row.data_center) == (capabilities, data_center)


def test_unknown_name() -> None:
    assert find_gpu_by_name("Radeon RX 7900 XTX") is None


def test_table_is_small_and_its_rows_are_alike() -> None:
    content = read_data("nvidia/gpus.json")
    assert len(content) <= 120_000
    for device, row in json.loads(content)["pci"].items():
        assert len(device) == 4
        assert set(row) <= {"name", "cc", "chip", "data_center"}
        assert row["name"].startswith("NVIDIA ")


@pytest.mark.parametrize(
    ("words", "capabilities"),
    [
        ("rtx4090", ("8.9",)),
        ("GTX 1080Ti", ("6.1",)),
        ("GTX1080Ti", ("6.1",)),
        ("RTX 4070Ti SUPER", ("8.9",)),
        ("TeslaT4", ("7.5",)),
        ("RTXA6000", ("8.6",)),
        ("4090", ("8.9",)),
        ("RX7900XTX", ()),
    ],
)
def test_names_are_read_without_their_blanks_too(words: str, capabilities: tuple[str, ...]) -> None:
    assert find_capabilities(words) == capabilities
