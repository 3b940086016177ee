"""Which GPUs are tested: CUDA_VISIBLE_DEVICES, --gpu, MIG, several kinds, cards that others fill."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Gpu, Known, MigDevice, Source
from envcheck.proof.smoke import SmokeRequest, _choose_frameworks
from envcheck.smoke.devices import (
    CPU_DEVICE,
    GPU,
    Device,
    DeviceChoice,
    DeviceError,
    all_together,
    choose_devices,
)
from envcheck.smoke.runner import list_jobs
from envcheck.smoke.session import DRIVER, Subject

HERE = Source("library", "composed")
GIB = 1 << 30


def gpu(number: int, name: str = "NVIDIA A100", **facts: Any) -> Gpu:
    known = {"nvml_index": number, "name": name, "uuid": f"GPU-{number}", **facts}
    return Gpu(**{key: Known(value, HERE) for key, value in known.items()})


TWO = (gpu(0), gpu(1))
KINDS = (gpu(0, "NVIDIA T4"), gpu(1, "NVIDIA A100"))


def visible(choice: DeviceChoice) -> list[str]:
    return [device.visible for device in choice.devices]


@pytest.mark.parametrize(
    ("value", "shown", "hidden"),
    [
        (None, ["GPU-0", "GPU-1"], []),
        ("1", ["GPU-1"], ["GPU 0"]),
        ("1,0", ["GPU-1", "GPU-0"], []),
        ("", [], ["GPU 0", "GPU 1"]),
        ("-1", [], ["GPU 0", "GPU 1"]),
        ("GPU-1", ["GPU-1"], ["GPU 0"]),
        ("0,7,1", ["GPU-0"], ["GPU 1"]),
    ],
)
def test_the_variable_is_honoured(value: str | None, shown: list[str], hidden: list[str]) -> None:
    choice = choose_devices(TWO, value, ())
    assert visible(choice) == shown
    assert [item.label for item in choice.left_out] == hidden
    assert {item.finding for item in choice.left_out} <= {"visible-devices-hidden"}


def test_a_form_nobody_describes_is_handed_on_as_it_is() -> None:
    (device,) = choose_devices(TWO, "0 1", ()).devices
    assert (device.visible, device.in_cuda_order) == ("0 1", True)
    assert choose_devices((), "0 1", ()) == DeviceChoice(), (
        "a machine without a GPU has none to try it on"
    )


def test_numbers_among_gpus_of_several_kinds_are_cudas_own() -> None:
    (device,) = choose_devices(KINDS, "0", ()).devices
    assert (device.visible, device.in_cuda_order, device.name) == ("0", True, "")
    (device,) = choose_devices(KINDS, "0", (), "PCI_BUS_ID").devices
    assert (device.visible, device.in_cuda_order, device.name) == ("GPU-0", False, "NVIDIA T4")
    assert visible(choose_devices(KINDS, None, ())) == ["GPU-0", "GPU-1"]


def test_each_mig_instance_is_a_device_and_none_is_a_reason() -> None:
    parts = (MigDevice("MIG-a", "1g.5gb"), MigDevice("MIG-b", "2g.10gb"))
    split = (gpu(0, mig_enabled=True, mig_devices=parts), gpu(1, mig_enabled=True, mig_devices=()))
    choice = choose_devices(split, None, ())
    assert [(device.label, device.visible, device.name) for device in choice.devices] == [
        ("GPU 0 instance 0", "MIG-a", "1g.5gb"),
        ("GPU 0 instance 1", "MIG-b", "2g.10gb"),
    ]
    assert [(item.label, item.finding) for item in choice.left_out] == [("GPU 1", "mig-config")]
    assert all_together(choice.devices) is None
    assert visible(choose_devices(split, "MIG-b", ())) == ["MIG-b"]
    assert visible(choose_devices(split, "MIG-b,MIG-a", ())) == ["MIG-b"], (
        "CUDA uses the first instance listed"
    )
    assert visible(choose_devices(split, None, ("0",))) == ["MIG-a", "MIG-b"]
    assert visible(choose_devices(split, None, ("MIG-b", "0 instance 1"))) == ["MIG-b"]
    (old,) = choose_devices(split, "MIG-GPU-0/1/0", ()).devices
    assert (old.visible, old.count) == ("MIG-GPU-0/1/0", 1)


def test_gpus_are_named_by_number_or_uuid() -> None:
    assert visible(choose_devices(TWO, None, ("1",))) == ["GPU-1"]
    assert visible(choose_devices(TWO, None, ("GPU-0", "1", "1"))) == ["GPU-0", "GPU-1"]
    with pytest.raises(DeviceError, match=r"--gpu 7: no such GPU here \(there are: GPU 0, GPU 1\)"):
        choose_devices(TWO, None, ("7",))
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES=1 hides it"):
        choose_devices(TWO, "1", ("0",))
    with pytest.raises(DeviceError, match="there are: none"):
        choose_devices((), None, ("0",))


def test_a_gpu_without_uuid_goes_by_its_number() -> None:
    bare = Gpu(name=Known("Orin", HERE))
    assert visible(choose_devices((bare,), None, ())) == ["0"]


def test_a_card_that_others_fill_is_noted() -> None:
    (device,) = choose_devices(
        (gpu(0, memory_bytes=40 * GIB, memory_used_bytes=39 * GIB),), None, ()
    ).devices
    assert device.held == "39.0 of its 40.0 GiB were in use before the test"
    (device,) = choose_devices(
        (gpu(0, memory_bytes=40 * GIB, memory_used_bytes=GIB),), None, ()
    ).devices
    assert device.held == ""


def test_jobs_are_the_cpu_each_gpu_and_all_of_them() -> None:
    devices = choose_devices(TWO, None, ()).devices
    torch, driver, jax = Subject("torch", "2.7"), Subject("driver"), Subject("jax", "0.6")
    assert [job.device.label for job in list_jobs((torch,), devices, "quick", cpu=True)] == [
        "CPU", "GPU 0", "GPU 1", "all 2 GPUs",
    ]  # fmt: skip
    assert CPU_DEVICE not in [
        job.device for job in list_jobs((driver,), devices, "quick", cpu=True)
    ]
    assert [job.part for job in list_jobs((jax,), devices, "full", cpu=False)] == [
        "",
        "",
        "",
        "share",
        "share",
    ]
    assert list_jobs((torch,), (), "quick", cpu=False) == ()


def test_the_benchmark_measures_copies_with_the_driver_beside_frameworks() -> None:
    torch, gpus = Subject("torch", "2.7.1"), DeviceChoice((Device(GPU, "GPU 0", "0", 1),))
    bench = SmokeRequest(level="bench")
    assert _choose_frameworks((torch,), gpus, bench) == (torch, Subject(DRIVER))
    assert _choose_frameworks((torch,), gpus, SmokeRequest()) == (torch,)
    assert _choose_frameworks((torch,), DeviceChoice(), bench) == (torch,)  # it has no CPU
    assert _choose_frameworks((), gpus, SmokeRequest()) == (Subject(DRIVER),)
    named = SmokeRequest(frameworks=("torch",), level="bench")
    assert _choose_frameworks((torch,), gpus, named) == (torch,)
