"""Kernel module and libraries: mismatch, forward compatibility, the loader, WSL."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import COMPATIBLE, ERROR, NOTE
from envcheck.rules.context import UndecidedError
from envcheck.rules.driver import is_compat
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
from tests.typed import argv

MISMATCH, COMPAT, OFF_PATH, WSL = (
    "driver-library-mismatch", "forward-compat-misused", "libcuda-not-on-path", "driver-wsl",
)  # fmt: skip
GEFORCE = gpu("NVIDIA GeForce RTX 3090", "8.6")
AHEAD = {
    "libcuda_path": known("/usr/local/cuda-12.9/compat/libcuda.so.575.57.08"),
    "libcuda_version": known("575.57.08"),
    "cuda_init_result": UNREAD,
}


def commands(finding: Any) -> list[tuple[str, ...]]:
    return [argv(command) for command in finding.fix.actions]


def test_compat_folders() -> None:
    assert is_compat("/usr/local/cuda-12.9/compat/libcuda.so.575.57.08")
    assert is_compat("/opt/conda/cuda-compat/libcuda.so.1")
    assert not is_compat("/usr/lib/x86_64-linux-gnu/libcuda.so.575.57.08")


def updated(**more: Any) -> Any:
    other = known("550.163.01")
    return driver("550.90.07", **{"libcuda_version": other, "libnvidia_ml_version": other, **more})


def test_an_updated_driver_wants_a_restart_not_a_reinstall() -> None:
    found = only(MISMATCH, context(gpu(), driver=updated(cuda_init_result=known(803))))
    assert "550.90.07" in found.message
    assert "550.163.01" in found.message
    assert commands(found) == [("sudo", "reboot")]
    (reload,) = found.fix.alternatives  # type: ignore[union-attr]
    assert [argv(command)[1] for command in reload.actions] == ["modprobe", "modprobe"]


@pytest.mark.parametrize(
    "signal",
    [{"nvml_result": known(18)}, {"smi_exit_code": known(18)}, {"cuda_init_result": known(803)}],
)
def test_what_the_tools_say_is_enough(signal: dict[str, Any]) -> None:
    unread: dict[str, Any] = {
        "kernel_module_version": UNREAD,
        "libcuda_version": UNREAD,
        "libnvidia_ml_version": UNREAD,
    }
    assert only(
        MISMATCH, context(gpu(), driver=driver(**{**unread, "cuda_init_result": UNREAD, **signal}))
    )


def test_a_driver_that_starts_does_not_mismatch() -> None:
    assert run(MISMATCH, context(gpu(), driver=updated())) == []
    same = driver("515.48.7", libcuda_version=known("515.48.07"), cuda_init_result=UNREAD)
    assert run(MISMATCH, context(gpu(), driver=same)) == []


def test_versions_differ_on_purpose_in_wsl_and_windows() -> None:
    differs = updated(cuda_init_result=known(100))
    assert run(MISMATCH, context(gpu(), driver=differs, host={"wsl_version": known(2)})) == []
    assert run(MISMATCH, context(gpu(), driver=differs, host={"os": known("windows")})) == []


def test_a_stray_libcuda_is_taken_away() -> None:
    stray = driver(
        libcuda_path=known("/opt/old/libcuda.so.470.256.02"),
        libcuda_version=known("470.256.02"),
        cuda_init_result=UNREAD,
    )
    found = only(MISMATCH, context(gpu(), driver=stray))
    assert "/opt/old" in found.message
    assert ("sudo", "reboot") not in commands(found)


def test_compat_ahead_is_not_called_a_mismatch() -> None:
    assert run(MISMATCH, context(GEFORCE, driver=driver(**AHEAD))) == []


def test_compat_is_for_data_centre_gpus() -> None:
    assert "GeForce RTX 3090" in only(COMPAT, context(GEFORCE, driver=driver(**AHEAD))).message
    assert run(COMPAT, context(gpu(), driver=driver(**AHEAD))) == []
    assert run(COMPAT, context(GEFORCE)) == []


@pytest.mark.parametrize("code", [803, 804])
def test_cuda_refuses_compat(code: int) -> None:
    refused = driver(**{**AHEAD, "cuda_init_result": known(code)})
    assert str(code) in only(COMPAT, context(gpu(), driver=refused)).message


def test_804_alone_is_enough() -> None:
    assert only(COMPAT, context(GEFORCE, driver=driver(cuda_init_result=known(804))))


def test_compat_older_than_the_driver() -> None:
    older = driver("580.95.05", "13.0", **AHEAD)
    assert "older" in only(COMPAT, context(gpu(), driver=older)).message
    same = driver("575.57.08", "12.9", **AHEAD)
    assert run(COMPAT, context(GEFORCE, driver=same)) == []


def test_compat_that_starts_is_right() -> None:
    assert (
        run(COMPAT, context(GEFORCE, driver=driver(**{**AHEAD, "cuda_init_result": known(0)})))
        == []
    )


UNFOUND: dict[str, Any] = {"libcuda_path": NONE, "libcuda_version": NONE, "cuda_init_result": NONE}


def test_libcuda_lies_where_the_loader_does_not_look() -> None:
    lying = driver(**UNFOUND, libcuda_elsewhere=known(("/usr/lib64/nvidia/libcuda.so.550.163.01",)))
    found = only(OFF_PATH, context(gpu(), driver=lying))
    assert "/usr/lib64/nvidia" in found.message
    assert any("ldconfig" in argv[-1] for argv in commands(found))


def test_libcuda_is_not_installed() -> None:
    found = only(OFF_PATH, context(gpu(), driver=driver(**UNFOUND)))
    assert commands(found) == [
        ("sudo", "apt-get", "install", "-y", "libnvidia-compute-550=550.163.01*")
    ]
    assert found.fix is not None
    (install,) = found.fix.actions
    assert (install.check().argv[-1], install.undo().argv[-1]) == ("libnvidia-compute-550",) * 2
    stubs = driver(**UNFOUND, libcuda_elsewhere=known(("/usr/local/cuda/lib64/stubs/libcuda.so",)))
    assert "not installed" in only(OFF_PATH, context(gpu(), driver=stubs)).message
    arch = {"distribution_id": known("arch"), "distribution_like": NONE}
    assert commands(only(OFF_PATH, context(gpu(), driver=driver(**UNFOUND), host=arch))) == []


def test_odd_folders_do_not_enter_a_command() -> None:
    odd = driver(**UNFOUND, libcuda_elsewhere=known(("/opt/a b;c/libcuda.so.1",)))
    assert commands(only(OFF_PATH, context(gpu(), driver=odd))) == []


def test_libcuda_is_not_missed_without_driver_or_in_an_empty_container() -> None:
    assert run(OFF_PATH, context(gpu(), driver=driver(**NO_DRIVER))) == []
    assert run(OFF_PATH, context(driver=driver(**UNFOUND))) == []
    assert (
        run(OFF_PATH, context(gpu(), driver=driver(**UNFOUND), host={"container": known("docker")}))
        == []
    )


def test_an_unread_libcuda_is_undetermined() -> None:
    with pytest.raises(UndecidedError, match="libcuda_path"):
        run(OFF_PATH, context(gpu(), driver=driver(**{**UNFOUND, "libcuda_path": UNREAD})))


WSL2 = {"wsl_version": known(2), "distribution_id": known("ubuntu")}
LINUX_DRIVER = {
    "libcuda_path": known("/usr/lib/x86_64-linux-gnu/libcuda.so.535.261.03"),
    "cuda_init_result": known(100),
}


def test_a_linux_driver_in_wsl_hides_the_windows_one() -> None:
    packages = known({"libnvidia-compute-535": "535.261.03-0ubuntu1", "nvidia-settings": "510"})
    found = only(WSL, context(gpu(), driver=driver(**LINUX_DRIVER, packages=packages), host=WSL2))
    assert commands(found) == [("sudo", "apt-get", "purge", "-y", "libnvidia-compute-535")]
    found = only(WSL, context(gpu(), driver=driver(**LINUX_DRIVER), host=WSL2))
    assert "Windows" in found.fix.summary  # type: ignore[union-attr]


def test_windows_hands_in_no_library() -> None:
    found = only(WSL, context(gpu(), driver=driver(**UNFOUND), host=WSL2))
    assert found.severity == ERROR
    assert ("wsl.exe", "--update") in commands(found)
    assert run(OFF_PATH, context(gpu(), driver=driver(**UNFOUND), host=WSL2)) == []
    with pytest.raises(UndecidedError, match="libcuda_elsewhere"):
        run(WSL, context(gpu(), driver=driver(**UNFOUND, libcuda_elsewhere=UNREAD), host=WSL2))


def test_an_unfound_wsl_library_is_not_the_windows_drivers_fault() -> None:
    lying = driver(**UNFOUND, libcuda_elsewhere=known(("/usr/lib/wsl/lib/libcuda.so.1",)))
    assert run(WSL, context(gpu(), driver=lying, host=WSL2)) == []
    assert only(OFF_PATH, context(gpu(), driver=lying, host=WSL2))


def test_wsl_that_works() -> None:
    assert run(WSL, context(gpu(), host=WSL2)) == []
    assert run(WSL, context(host=WSL2)) == []
    own = driver(libcuda_path=known("/usr/lib/wsl/lib/libcuda.so.1"), cuda_init_result=UNREAD)
    assert run(WSL, context(gpu(), driver=own, host=WSL2)) == []
    assert run(WSL, context(gpu(), driver=driver(**LINUX_DRIVER))) == []
    docker = {**WSL2, "container": known("docker")}
    assert run(WSL, context(gpu(), driver=driver(**LINUX_DRIVER), host=docker)) == []


def test_wsl_1_has_no_gpu() -> None:
    host = {"wsl_version": known(1)}
    found = only(WSL, context(host=host, expect="gpu"))
    assert found.severity == ERROR
    assert commands(found) == [("wsl.exe", "--set-version", "DISTRIBUTION", "2")]
    note = only(WSL, context(host=host))
    assert (note.verdict, note.severity) == (COMPATIBLE, NOTE)
    assert run(WSL, context(host=host, expect="cpu")) == []


def test_a_container_with_nodes_whose_library_lies_off_the_path() -> None:
    lying = driver(
        **UNFOUND,
        device_nodes=nodes("0", "ctl", "-uvm"),
        libcuda_elsewhere=known(("/usr/lib64/libcuda.so.1",)),
    )
    assert only(OFF_PATH, context(gpu(), driver=lying, host={"container": known("docker")}))
