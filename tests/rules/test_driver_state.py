"""Is a kernel driver there, is it the right one, does the fabric manager run, does CUDA start."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import ERROR, DkmsModule
from envcheck.model.fixes import ServiceGpu
from envcheck.rules.context import UndecidedError
from tests.rules.factory_machine import (
    NO_DRIVER,
    NONE,
    UNREAD,
    context,
    driver,
    gpu,
    known,
    nodes,
    only,
    run,
)
from tests.typed import argvs

GONE: dict[str, Any] = {**NO_DRIVER}
UNBOUND = {"kernel_driver": NONE}


def without(**more: Any) -> Any:
    return driver(**{**GONE, **more})


def typed(finding: Any) -> list[tuple[str, ...]]:
    return argvs(finding.fix.actions)


def test_a_gpu_without_driver() -> None:
    found = only("driver-missing", context(gpu(**UNBOUND), driver=without()))
    assert found.severity == ERROR
    assert ("sudo", "ubuntu-drivers", "install") in typed(found)


def test_a_working_driver_and_no_gpu_are_no_finding() -> None:
    assert run("driver-missing", context(gpu())) == []
    assert run("driver-missing", context(driver=without())) == []


def test_an_unread_kernel_is_undetermined() -> None:
    with pytest.raises(UndecidedError, match="kernel_module_version"):
        run("driver-missing", context(gpu(), driver=without(kernel_module_version=UNREAD)))


def test_what_is_left_of_a_driver_is_named() -> None:
    unloaded = without(module_file=known("/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko"))
    assert "not loaded" in only("driver-missing", context(gpu(), driver=unloaded)).message
    failed = without(dkms=known((DkmsModule("550.163.01", "6.8.0-45-generic", "failed"),)))
    assert "failed" in only("driver-missing", context(gpu(), driver=failed)).message
    other = without(dkms=known((DkmsModule("550.163.01", "6.5.0-41-generic", "installed"),)))
    found = only("driver-missing", context(gpu(), driver=other))
    assert "6.5.0-41-generic" in found.message
    assert ("sudo", "apt-get", "install", "-y", "linux-headers-6.8.0-45-generic") in typed(found)


def test_containers_wsl_and_jetson_have_no_kernel_driver_of_their_own() -> None:
    for host in (
        {"container": known("docker")},
        {"wsl_version": known(2)},
        {"jetson_release": known("R36.3.0")},
    ):
        assert run("driver-missing", context(gpu(), driver=without(), host=host)) == []


def test_windows_without_driver() -> None:
    host = {"os": known("windows")}
    fix = only("driver-missing", context(gpu(), driver=without(), host=host)).fix
    assert fix is not None
    assert "nvidia.com" in fix.summary
    with pytest.raises(UndecidedError, match=r"driver\.release"):
        run("driver-missing", context(gpu(), driver=without(release=UNREAD), host=host))


@pytest.mark.parametrize("owner", ["nouveau", "vfio-pci"])
def test_another_driver_owns_the_gpu(owner: str) -> None:
    judged = context(gpu(kernel_driver=known(owner)), driver=without())
    found = only("driver-nouveau", judged)
    assert owner in found.message
    assert run("driver-missing", judged) == []


def test_nouveau_is_kept_from_loading() -> None:
    fedora = {"distribution_id": known("fedora"), "distribution_like": NONE}
    judged = context(gpu(kernel_driver=known("nouveau")), driver=without(), host=fedora)
    assert ("sudo", "dracut", "--force") in typed(only("driver-nouveau", judged))


def test_nouveau_loaded_without_a_bound_gpu() -> None:
    judged = context(gpu(**UNBOUND), driver=without(nouveau_loaded=known(True)))
    assert only("driver-nouveau", judged)
    assert run("driver-missing", judged) == []


def test_nouveau_beside_a_running_driver_is_no_fault() -> None:
    assert run("driver-nouveau", context(gpu(), driver=driver(nouveau_loaded=known(True)))) == []
    assert run("driver-nouveau", context(gpu(), driver=without(nouveau_loaded=known(True)))) == []


UNSIGNED = {"module_file": known("/lib/modules/x/nvidia.ko"), "module_file_signed": known(False)}


def test_secure_boot_refuses_an_unsigned_module() -> None:
    judged = context(gpu(**UNBOUND), driver=without(**UNSIGNED), host={"secure_boot": known(True)})
    found = only("driver-secure-boot", judged)
    assert ("sudo", "mokutil", "--import", "/var/lib/shim-signed/mok/MOK.der") in typed(found)
    assert run("driver-missing", judged) == []


def test_secure_boot_alone_is_no_fault() -> None:
    host = {"secure_boot": known(True)}
    assert run("driver-secure-boot", context(gpu(), host=host)) == []
    signed = without(module_file=known("/x"), module_file_signed=known(True))
    assert run("driver-secure-boot", context(gpu(), driver=signed, host=host)) == []
    assert run("driver-secure-boot", context(gpu(), driver=without(**UNSIGNED))) == []


def test_secure_boot_without_a_known_key_says_so() -> None:
    host = {"secure_boot": known(True), "distribution_id": known("arch"), "distribution_like": NONE}
    assert typed(
        only("driver-secure-boot", context(gpu(), driver=without(**UNSIGNED), host=host))
    ) == [("sudo", "reboot")]


NO_START = {"cuda_init_result": known(100)}


def test_the_kind_of_module_must_fit_the_gpu() -> None:
    blackwell = gpu("NVIDIA GeForce RTX 5090", "12.0")
    closed = driver("580.95.05", kernel_module_kind=known("proprietary"), **NO_START)
    assert (
        "needs the open one." in only("driver-missing", context(blackwell, driver=closed)).message
    )
    volta = gpu("Tesla V100", "7.0")
    opened = driver("550.163.01", kernel_module_kind=known("open"), **NO_START)
    assert (
        "needs the proprietary one."
        in only("driver-missing", context(volta, driver=opened)).message
    )


def test_the_kind_of_module_does_not_matter_otherwise() -> None:
    working = driver("580.95.05", kernel_module_kind=known("proprietary"))
    assert (
        run("driver-missing", context(gpu("NVIDIA GeForce RTX 5090", "12.0"), driver=working)) == []
    )
    old = driver("560.35.03", kernel_module_kind=known("proprietary"), **NO_START)
    assert run("driver-missing", context(gpu("NVIDIA GeForce RTX 5090", "12.0"), driver=old)) == []
    ampere = driver(kernel_module_kind=known("proprietary"), **NO_START)
    assert "nothing else" in only("driver-missing", context(gpu(), driver=ampere)).message


@pytest.mark.parametrize("code", [3, 100, 101, 304])
def test_cuda_that_does_not_start_is_never_passed_over(code: int) -> None:
    found = only("driver-missing", context(gpu(), driver=driver(cuda_init_result=known(code))))
    assert str(code) in found.message


def test_a_busy_gpu_is_held() -> None:
    busy = driver(cuda_init_result=known(46))
    assert only("gpu-memory-held", context(gpu(), driver=busy)).severity == ERROR
    prohibited = gpu(compute_mode=known("prohibited"))
    assert len(run("gpu-memory-held", context(prohibited, driver=busy))) == 1


def test_a_stub_libcuda_is_a_path_conflict() -> None:
    stub = driver(
        libcuda_path=known("/usr/local/cuda/lib64/stubs/libcuda.so"),
        libcuda_version=NONE,
        cuda_init_result=known(34),
    )
    judged = context(gpu(), driver=stub)
    found = [item for item in run("toolkit-path-conflict", judged) if "stub" in item.message]
    assert len(found) == 1
    assert run("driver-missing", judged) == []


HGX = {
    "nvswitch_present": known(True),
    "fabric_manager_version": known("550.163.01"),
    "cuda_init_result": known(802),
}


def test_the_fabric_manager_must_run_in_the_drivers_release() -> None:
    stopped = driver(**{**HGX, "fabric_manager_running": known(False)})
    found = only("fabric-manager", context(gpu(), driver=stopped))
    assert "not running" in found.message
    assert ("sudo", "apt-get", "install", "-y", "nvidia-fabricmanager-550") in typed(found)
    other = driver(
        **{
            **HGX,
            "fabric_manager_running": known(True),
            "fabric_manager_version": known("550.90.07"),
        }
    )
    assert "550.90.07" in only("fabric-manager", context(gpu(), driver=other)).message
    fits = driver(**{**HGX, "fabric_manager_running": known(True), "cuda_init_result": known(100)})
    assert run("fabric-manager", context(gpu(), driver=fits)) == []


def test_gpus_that_have_not_joined_the_fabric_say_why_cuda_waits() -> None:
    runs = driver(**{**HGX, "fabric_manager_running": known(True)})
    waits = gpu(fabric_state=known("in progress"))
    found = only("fabric-manager", context(waits, driver=runs))
    assert "have not joined" in found.message
    assert found.cure == ServiceGpu("reboot")
    assert found.evidence[-1].fact == "gpus.fabric_state"
    assert run("fabric-manager", context(gpu(fabric_state=known("completed")), driver=runs)) == []
    started = driver(**{**HGX, "fabric_manager_running": known(True), "cuda_init_result": known(0)})
    assert run("fabric-manager", context(waits, driver=started)) == []


def test_the_fabric_manager_matters_only_with_nvswitch() -> None:
    assert run("fabric-manager", context(gpu())) == []
    assert run("fabric-manager", context(gpu(), driver=driver(**NO_START))) == []
    card = gpu("NVIDIA GeForce RTX 3090", "8.6")
    assert (
        run("fabric-manager", context(card, driver=driver(nvswitch_present=UNREAD, **NO_START)))
        == []
    )


def test_a_system_not_ready_waits_for_a_fabric_manager_out_of_sight() -> None:
    waiting = driver(cuda_init_result=known(802))
    assert "802" in only("fabric-manager", context(gpu(), driver=waiting)).message
    docker = {"container": known("docker")}
    in_container = driver(**{**HGX, "fabric_manager_running": NONE})
    assert (
        "host" in only("fabric-manager", context(gpu(), driver=in_container, host=docker)).message
    )
    quiet = driver(**{**HGX, "cuda_init_result": UNREAD})
    assert run("fabric-manager", context(gpu(), driver=quiet, host=docker)) == []


def test_an_unread_switch_or_service_is_undetermined() -> None:
    with pytest.raises(UndecidedError, match="nvswitch_present"):
        run("fabric-manager", context(gpu(), driver=driver(nvswitch_present=UNREAD, **NO_START)))
    with pytest.raises(UndecidedError, match="fabric_manager_running"):
        run(
            "fabric-manager",
            context(gpu(), driver=driver(**{**HGX, "fabric_manager_running": UNREAD})),
        )


def test_nodes_without_driver_are_not_blamed() -> None:
    assert (
        run("driver-device-nodes", context(gpu(), driver=without(device_nodes=nodes("ctl")))) == []
    )
