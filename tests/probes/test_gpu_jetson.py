"""Jetson: the integrated GPU by device tree and release file."""

from __future__ import annotations

import pytest

from envcheck.model import Absent, Unknown
from envcheck.probes.gpus import collect_gpus, parse_compatible
from tests.probes.gpu_machines import bare, installed, nvml_answer, nvml_gpu

ORIN = {
    "/proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0000\0nvidia,p3701-0000\0nvidia,tegra234\0",
}


@pytest.mark.parametrize(
    ("chip", "capability"),
    [
        ("tegra210", "5.3"),
        ("tegra186", "6.2"),
        ("tegra194", "7.2"),
        ("tegra234", "8.7"),
        ("tegra264", "11.0"),
    ],
)
def test_chips(chip: str, capability: str) -> None:
    gpus = collect_gpus(bare({"/proc/device-tree/compatible": f"nvidia,board\0nvidia,{chip}\0"}))
    assert gpus.value is not None
    assert gpus.value[0].compute_capability.value == capability
    assert isinstance(gpus.value[0].pci_address, Absent)


def test_the_names_of_a_device_tree() -> None:
    names = parse_compatible(ORIN["/proc/device-tree/compatible"])
    assert names == ("p3737-0000+p3701-0000", "p3701-0000", "tegra234")
    assert parse_compatible("raspberrypi,4-model-b\0brcm,bcm2711\0") == ()


def test_nvml_and_device_tree_describe_one_gpu() -> None:
    refused = {"error": 3, "text": "Not Supported"}
    answer = nvml_answer(
        nvml_gpu(
            name="Orin (nvgpu)", pci_address=refused, pci_id=refused, compute_capability=refused
        )
    )
    gpus = collect_gpus(bare({**ORIN, **installed()}, answers=[answer]))
    assert gpus.value is not None
    (gpu,) = gpus.value
    assert gpu.name.value == "Orin (nvgpu)"
    assert gpu.compute_capability.value == "8.7"
    assert gpu.nvml_index.value == 0


def test_a_release_file_proves_a_jetson_of_unknown_chip() -> None:
    gpus = collect_gpus(
        bare({"/etc/nv_tegra_release": "# R35 (release), REVISION: 4.1, BOARD: t186ref\n"})
    )
    assert gpus.value is not None
    assert isinstance(gpus.value[0].compute_capability, Unknown)


def test_another_board_is_not_a_jetson() -> None:
    assert isinstance(
        collect_gpus(
            bare({"/proc/device-tree/compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0"})
        ),
        Absent,
    )


def test_an_unreadable_device_tree_is_unknown() -> None:
    gpus = collect_gpus(bare({"/proc/device-tree/compatible": {"error": "denied"}}))
    assert isinstance(gpus, Unknown)
    assert gpus.why == "denied"
