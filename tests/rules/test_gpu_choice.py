"""Only the GPUs that CUDA work can land on are held against a build."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import ERROR, WARNING, OtherGpu
from envcheck.rules.cudnn import cudnn_cap, list_cudnn_caps
from envcheck.rules.gpu_releases import other_gpu_name, usable_gpus
from tests.rules.factory_machine import NONE, UNREAD, build, context, gpu, known, run

NEW = gpu("NVIDIA GeForce RTX 4090", "8.9", 0)
OLD = gpu("NVIDIA GeForce GTX 980", "5.2", 1)
KEPT = gpu("NVIDIA GeForce GTX 650", "3.0", 1, nvml_index=NONE, kernel_driver=known("nouveau"))
MODERN = build(
    "2.7.1+cu128", compute_capabilities=known(("sm_75", "sm_80", "sm_86", "sm_90", "sm_120"))
)


def indices(*gpus: Any, **environment: str) -> list[int]:
    judged = context(*gpus, host={"environment": known(environment)})
    return [gpus.index(item) for item in usable_gpus(judged)]


def test_gpus_of_another_driver_are_left_out() -> None:
    assert indices(NEW, KEPT) == [0]
    unlisted = gpu(index=1, nvml_index=NONE, kernel_driver=known("vfio-pci"))
    assert indices(gpu(nvml_index=NONE), unlisted) == [0]
    assert indices(unlisted) == [0]  # where nothing is left, another rule says why


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, [0, 1]),
        # the faster GPU is the first for NVML and for CUDA alike
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "0"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": ""}, [0, 1]),
        ({"CUDA_VISIBLE_DEVICES": "0 1"}, [0, 1]),
    ],
)
def test_hidden_gpus_are_left_out(environment: dict[str, str], expected: list[int]) -> None:
    assert indices(NEW, OLD, **environment) == expected


def test_an_index_counts_only_where_the_order_is_sure() -> None:
    first, second = (
        gpu("NVIDIA GeForce GTX 980", "5.2", 0),
        gpu("NVIDIA GeForce RTX 4090", "8.9", 1),
    )
    # CUDA may number the faster one 0
    assert indices(first, second, CUDA_VISIBLE_DEVICES="0") == [0, 1]
    assert indices(first, second, CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID") == [0]
    assert indices(first, second, CUDA_VISIBLE_DEVICES="GPU-0aaa") == [0]
    assert indices(gpu(), gpu(index=1), CUDA_VISIBLE_DEVICES="1") == [1]
    assert indices(gpu(UNREAD, ""), gpu(UNREAD, "", 1), CUDA_VISIBLE_DEVICES="1") == [0, 1]


def test_an_old_gpu_matters_as_far_as_it_is_used() -> None:
    for value, severity in (("0,1", WARNING), ("1", ERROR)):
        judged = context(
            NEW, OLD, builds=(MODERN,), host={"environment": known({"CUDA_VISIBLE_DEVICES": value})}
        )
        assert [finding.severity for finding in run("gpu-arch-too-old", judged)] == [severity]
    hidden = context(
        NEW, OLD, builds=(MODERN,), host={"environment": known({"CUDA_VISIBLE_DEVICES": "0"})}
    )
    assert run("gpu-arch-too-old", hidden) == []
    assert run("gpu-arch-too-old", context(NEW, KEPT, builds=(MODERN,))) == []


@pytest.mark.parametrize(
    ("known_of", "name"),
    [
        ({}, "AMD GPU of unknown model"),
        ({"pci_id": known("1002:744c")}, "AMD GPU 1002:744c"),
        ({"name": known("Instinct MI300X")}, "AMD Instinct MI300X"),
        ({"name": known("AMD Instinct MI300X"), "pci_id": NONE}, "AMD Instinct MI300X"),
    ],
)
def test_a_gpu_of_another_vendor_is_named_by_what_is_known(
    known_of: dict[str, Any], name: str
) -> None:
    assert other_gpu_name(OtherGpu("amd", **known_of)) == name


def test_a_cudnn_that_admits_one_that_dropped_a_gpu_is_bounded() -> None:
    wheels = (
        "nvidia-cudnn-cu12<10.0,>=9.8",
        "nvidia-cudnn-cu12==9.1.0.70",  # a pin takes no newer one
        "nvidia-cublas-cu12>=12.1",
    )
    assert list_cudnn_caps(context(gpu(capability="6.1")), wheels) == (
        ("nvidia-cudnn-cu12", "<9.11"),
    )
    assert list_cudnn_caps(context(gpu(capability="9.0")), wheels) == ()
    assert cudnn_cap(context(gpu(capability="6.1")), "12", "==9.1.0.70") == ""
