"""The whole driver: which reading is chosen, what is absent, and machines without GPU."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from envcheck.model import Absent, DriverFacts, Unknown
from envcheck.probes.driver import collect_driver
from tests.hosts.recorded_host import RecordedHost, UnrecordedError
from tests.probes.gpu_machines import (
    LIBRARIES,
    bare,
    cuda_answers,
    healthy,
    installed,
    loaded,
    nvml_answer,
    nvml_gpu,
    pci,
)

CUDA = f"{LIBRARIES}/libcuda.so.550.163.01"
SMI = "/usr/bin/nvidia-smi"
BANNER = "| NVIDIA-SMI 550.163.01   Driver Version: 550.163.01     CUDA Version: 12.4     |\n"
NO_MODULE = {"script": "nvml_devices", "result": {"init": 9, "text": "Driver Not Loaded"}}


def why(fact: Any) -> str:
    assert isinstance(fact, Unknown), fact
    return fact.why


def test_a_healthy_driver() -> None:
    # nvidia-smi is not recorded: it must not run
    facts = collect_driver(healthy(files={SMI: "binary"}))
    assert facts.release.value == "550.163.01"
    assert facts.release == facts.kernel_module_version
    assert facts.cuda_driver_version.value == "12.4"
    assert facts.kernel_module_kind.value == "proprietary"
    assert facts.libcuda_path.value == CUDA
    assert facts.libcuda_version.value == facts.libnvidia_ml_version.value == "550.163.01"
    assert facts.libcuda_unversioned.value == CUDA
    assert facts.cuda_init_result.value == facts.nvml_result.value == 0
    assert facts.uvm_loaded.value is True
    assert facts.nouveau_loaded.value is False
    assert facts.nvswitch_present.value is False
    assert facts.smi_path.value == SMI
    assert why(facts.smi_exit_code) == "failed"
    assert facts.device_nodes.value is not None
    assert len(facts.device_nodes.value) == 3


def test_a_machine_without_gpu_starts_nothing_and_states_every_fact() -> None:
    facts = collect_driver(
        bare(
            {"/var/lib/dpkg/status": "Package: libnvidia-ml1\nStatus: i ok installed\nVersion: 1\n"}
        )
    )
    assert [
        item.name for item in fields(DriverFacts) if isinstance(getattr(facts, item.name), Unknown)
    ] == []
    for name in (
        "release",
        "cuda_driver_version",
        "libcuda_path",
        "nvml_result",
        "smi_path",
        "device_nodes",
    ):
        assert isinstance(getattr(facts, name), Absent), name
    assert isinstance(facts.packages, Absent)  # 5 MB that are not read without a trace of a driver
    assert facts.uvm_loaded.value is False


def test_libraries_without_module() -> None:
    answers = [
        NO_MODULE,
        *cuda_answers({"result": {"version": 12040}}, {"result": {"init": 100}}, CUDA),
    ]
    facts = collect_driver(bare(installed(), answers=answers))
    assert isinstance(facts.release, Absent)
    assert facts.cuda_driver_version.value == "12.4"
    assert facts.cuda_init_result.value == 100
    assert facts.nvml_result.value == 9


def test_kernel_and_libraries_of_different_releases() -> None:
    mismatch = {
        "script": "nvml_devices",
        "result": {"init": 18, "text": "Driver/library version mismatch"},
    }
    commands = [
        {
            "argv": [SMI],
            "returncode": 18,
            "stdout": "Failed to initialize NVML: Driver/library version mismatch\n",
        }
    ]
    answers = [
        mismatch,
        *cuda_answers({"result": {"version": 12040}}, {"result": {"init": 803}}, CUDA),
    ]
    host = bare(
        {**installed(), **loaded("535.261.03"), SMI: "x"}, answers=answers, commands=commands
    )
    facts = collect_driver(host)
    assert facts.release.value == "535.261.03"
    assert facts.libcuda_version.value == "550.163.01"
    assert facts.smi_exit_code.value == 18
    assert "mismatch" in (facts.smi_message.value or "")


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ({"unknown": ["crashed", "ended by signal 11"]}, "crashed"),
        ({"unknown": ["timeout", "no answer within 3.0 s"]}, "timeout"),
        ({"result": {"load_error": "invalid ELF header"}}, "failed"),
        ({"result": {"error": 34}}, "failed"),
        ({"result": {"error": 999}}, "failed"),
        ({"result": {"version": "rubbish"}}, "unparsable"),
    ],
)
def test_a_libcuda_that_does_not_answer(version: dict[str, Any], reason: str) -> None:
    cuda = cuda_answers(version, version, CUDA)
    facts = collect_driver(bare(installed(), answers=[NO_MODULE, *cuda]))
    assert why(facts.cuda_driver_version) == reason
    with_nvml = collect_driver(
        bare(installed(), answers=[nvml_answer(nvml_gpu(), cuda=12020), *cuda])
    )
    assert with_nvml.cuda_driver_version.value == "12.2"


def test_a_crash_of_cuinit_does_not_hide_the_version() -> None:
    cuda = cuda_answers(
        {"result": {"version": 12040}}, {"unknown": ["crashed", "ended by signal 11"]}, CUDA
    )
    facts = collect_driver(bare({**installed(), **loaded()}, answers=[nvml_answer(), *cuda]))
    assert facts.cuda_driver_version.value == "12.4"
    assert why(facts.cuda_init_result) == "crashed"


def test_an_unrecorded_child_raises() -> None:
    with pytest.raises(UnrecordedError):
        collect_driver(bare(installed(), answers=[nvml_answer()]))


def test_root_does_not_load_libraries_that_others_can_change() -> None:
    files = {**installed(), CUDA: {"kind": "file", "mode": "-rwxr-xr-x", "owner": "1000:1000"}}
    facts = collect_driver(bare(files, answers=[NO_MODULE], system_facts={"is_root": True}))
    assert why(facts.cuda_init_result) == "denied"


def test_a_sticky_parent_folder_is_trusted() -> None:
    files = {**installed(), "/usr": {"kind": "folder", "mode": "drwxrwxrwt"}}
    answers = [
        NO_MODULE,
        *cuda_answers({"result": {"version": 12040}}, {"result": {"init": 0}}, CUDA),
    ]
    facts = collect_driver(bare(files, answers=answers, system_facts={"is_root": True}))
    assert facts.cuda_init_result.value == 0


def test_wsl_reads_the_release_from_user_space() -> None:
    files = {
        "/dev/dxg": {"kind": "char"},
        "/usr/lib/wsl/lib/libnvidia-ml.so.1": "x",
        "/usr/lib/wsl/lib/libcuda.so.1": "x",
    }
    facts = collect_driver(bare(files, answers=[nvml_answer(driver="551.61")]))
    assert facts.release.value == "551.61"
    assert isinstance(facts.libcuda_path, Absent)
    assert facts.libcuda_elsewhere.value == ("/usr/lib/wsl/lib/libcuda.so.1",)
    hanging = bare(files, answers=[{"script": "nvml_devices", "unknown": ["timeout", "3 s"]}])
    assert why(collect_driver(hanging).release) == "timeout"
    assert isinstance(collect_driver(bare({"/dev/dxg": {"kind": "char"}})).release, Absent)


def test_nvidia_smi_is_the_last_source() -> None:
    facts = collect_driver(
        bare({SMI: "x", "/dev/dxg": {"kind": "char"}}, commands=[{"argv": [SMI], "stdout": BANNER}])
    )
    assert facts.release.value == "550.163.01"
    assert facts.cuda_driver_version.value == "12.4"
    assert facts.release == facts.smi_driver_version


def test_a_sandbox_that_hides_the_kernel_is_unknown() -> None:
    facts = collect_driver(RecordedHost({}))
    assert why(facts.release) == why(facts.uvm_loaded) == why(facts.kernel_module_kind) == "failed"
    assert why(facts.nvswitch_present) == "failed"
    assert isinstance(facts.fabric_manager_running, Unknown)


@pytest.mark.parametrize("system", ["windows", "darwin"])
def test_other_systems_do_not_crash(system: str) -> None:
    facts = collect_driver(RecordedHost({"system": system}))
    assert isinstance(facts.release, Absent)
    assert isinstance(facts.smi_path, Absent)


def test_windows_libraries() -> None:
    place = "C:\\Windows\\System32\\nvml.dll"
    source = {"kind": "file", "where": place}
    calls = {"real_path": {place: {"known": place, "source": source}}}
    facts = collect_driver(
        RecordedHost(
            {"system": "windows", "calls": calls, "answers": [nvml_answer(driver="551.61")]}
        )
    )
    assert facts.release.value == "551.61"


def test_a_gpu_without_driver_is_a_trace() -> None:
    status = (
        "Package: nvidia-driver-535\nStatus: install ok installed\nVersion: 535.261.03-0ubuntu1\n\n"
    )
    facts = collect_driver(bare({**pci(driver=""), "/var/lib/dpkg/status": status}))
    assert facts.packages.value == {"nvidia-driver-535": "535.261.03-0ubuntu1"}
    assert facts.packages.value is not None
