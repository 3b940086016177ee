"""Busy, split and limited GPUs."""

from __future__ import annotations

import pytest

from envcheck.model import ERROR, WARNING, GpuProcess
from envcheck.rules.context import Context, UndecidedError
from tests.rules.factory_machine import (
    NONE,
    UNREAD,
    build,
    context,
    gpu,
    known,
    only,
    run,
    split_gpu,
)
from tests.typed import argv

GIB = 1 << 30
PYTHON = known((GpuProcess(4711, "python"),))


def test_full_memory_is_a_warning() -> None:
    held = gpu(memory_used_bytes=known(37 * GIB), processes=PYTHON)
    found = only("gpu-memory-held", context(held))
    assert found.severity == WARNING
    assert "process 4711 python" in found.message
    assert "37.0 of 40.0 GiB" in found.message


def test_memory_that_no_process_accounts_for() -> None:
    held = gpu(memory_used_bytes=known(37 * GIB))
    found = only("gpu-memory-held", context(held))
    assert "no process" in found.message
    assert found.fix is not None
    assert [argv(command) for command in found.fix.actions] == [("envcheck", "gpus")]


def commands(context: Context) -> list[tuple[str, ...]]:
    found = only("gpu-memory-held", context)
    assert found.fix is not None
    return [argv(command) for command in found.fix.actions]


def test_hidden_holders_beside_a_small_listed_process() -> None:
    def shared(size: int) -> Context:
        holders = (GpuProcess(4711, "python", known(size)), GpuProcess(4712, "jupyter", known(GIB)))
        return context(gpu(memory_used_bytes=known(37 * GIB), processes=known(holders)))

    hidden = only("gpu-memory-held", shared(2 * GIB))
    assert (
        "process 4711 python, 4712 jupyter, and most of it is held by one that the driver does not list"
        in hidden.message
    )
    assert commands(shared(2 * GIB)) == [("envcheck", "gpus")]
    assert "that the driver does not list" not in only("gpu-memory-held", shared(34 * GIB)).message
    assert commands(shared(34 * GIB))[0][:1] == ("ps",)


def test_a_holder_whose_memory_is_untold_is_not_taken_for_small() -> None:
    held = gpu(memory_used_bytes=known(37 * GIB), processes=PYTHON)  # its share is not stated
    assert "that the driver does not list" not in only("gpu-memory-held", context(held)).message
    assert commands(context(held))[-1] == ("envcheck", "gpus")
    assert commands(context(held, host={"os": known("windows")})) == [("envcheck", "gpus")]


@pytest.mark.parametrize("used", [known(36 * GIB), UNREAD, NONE])
def test_memory_to_spare_or_untold_is_no_finding(used: object) -> None:
    assert run("gpu-memory-held", context(gpu(memory_used_bytes=used))) == []


def test_a_prohibited_gpu() -> None:
    prohibited = gpu(compute_mode=known("prohibited"))
    found = only("gpu-memory-held", context(prohibited))
    assert found.severity == ERROR
    assert found.fix is not None
    assert argv(found.fix.actions[0]) == ("sudo", "nvidia-smi", "-i", "0", "-c", "DEFAULT")
    assert only("gpu-memory-held", context(prohibited, gpu(index=1))).severity == WARNING


def test_an_exclusive_gpu_matters_when_it_is_taken() -> None:
    taken = gpu(compute_mode=known("exclusive-process"), processes=PYTHON, nvml_index=NONE)
    assert only("gpu-memory-held", context(taken)).severity == WARNING
    assert run("gpu-memory-held", context(gpu(compute_mode=known("exclusive-process")))) == []
    assert run("gpu-memory-held", context(gpu(compute_mode=UNREAD))) == []


def test_mig_without_an_instance() -> None:
    found = only("mig-config", context(split_gpu()))
    assert found.severity == ERROR
    beside = [item.severity for item in run("mig-config", context(split_gpu(), gpu(index=1)))]
    assert beside == [WARNING]
    assert (
        only("mig-config", context(gpu(mig_enabled=known(True), nvml_index=NONE))).severity == ERROR
    )


def test_one_of_several_mig_instances_is_used() -> None:
    found = only("mig-config", context(split_gpu("MIG-1a", "MIG-2b")))
    assert found.severity == WARNING
    assert found.fix is not None
    assert argv(found.fix.actions[0]) == ("export", "CUDA_VISIBLE_DEVICES=MIG-1a")
    odd = only("mig-config", context(split_gpu("MIG-1 $(x)", "MIG-2")))
    assert odd.fix is not None
    assert odd.fix.actions == ()


def test_mig_that_is_chosen_or_off_is_no_finding() -> None:
    chosen = {"environment": known({"CUDA_VISIBLE_DEVICES": "MIG-1a"})}
    assert run("mig-config", context(split_gpu("MIG-1a", "MIG-2b"), host=chosen)) == []
    assert run("mig-config", context(split_gpu("MIG-1a"))) == []
    assert run("mig-config", context(gpu(), gpu(mig_enabled=known(False)))) == []


def test_unread_instances_are_undetermined() -> None:
    with pytest.raises(UndecidedError, match="mig_devices"):
        run("mig-config", context(gpu(mig_enabled=known(True), mig_devices=UNREAD)))


DOCKER = {"container": known("docker"), "shm_bytes": known(64 << 20)}


def test_a_small_shared_memory_between_gpus() -> None:
    found = only("os-limit", context(gpu(), gpu(index=1), host=DOCKER, builds=(build(),)))
    assert found.severity == WARNING
    assert "64 MiB" in found.message


@pytest.mark.parametrize(
    "changed", [{"shm_bytes": known(1 << 30)}, {"shm_bytes": UNREAD}, {"container": NONE}]
)
def test_shared_memory_that_suffices(changed: dict[str, object]) -> None:
    assert (
        run("os-limit", context(gpu(), gpu(index=1), host={**DOCKER, **changed}, builds=(build(),)))
        == []
    )


def test_one_gpu_or_no_framework_needs_no_shared_memory() -> None:
    assert run("os-limit", context(gpu(), host=DOCKER, builds=(build(),))) == []
    assert run("os-limit", context(gpu(), gpu(index=1), host=DOCKER)) == []
