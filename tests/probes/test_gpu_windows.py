"""Whether Windows or WSL without a driver has an NVIDIA GPU, with fake answers."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, Unknown
from envcheck.probes.gpus import collect_gpus
from tests.hosts.recorded_host import RecordedHost
from tests.probes.gpu_machines import bare

REG = r"C:\Windows\System32\reg.exe"
QUERY = [REG, "query", r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"]
ROOT = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Enum\PCI"
INTEL = rf"{ROOT}\VEN_8086&DEV_46A6&SUBSYS_0B191028&REV_0C"
RTX4090 = rf"{ROOT}\VEN_10DE&DEV_2684&SUBSYS_889D1043&REV_A1"
SOUND = rf"{ROOT}\VEN_10DE&DEV_22BA&SUBSYS_889D1043&REV_A1"


def windows(*lines: str, **more: Any) -> RecordedHost:
    command = {"argv": QUERY, "stdout": "\r\n".join(("", *lines, "")), **more}
    return RecordedHost({"system": "windows", "commands": [command]})


def test_a_windows_machine_without_an_nvidia_device_has_no_gpu() -> None:
    assert isinstance(collect_gpus(windows(INTEL)), Absent)


def test_a_gpu_without_a_driver_is_found_in_the_registry() -> None:
    gpus = collect_gpus(windows(INTEL, SOUND, RTX4090, RTX4090))
    assert gpus.value is not None
    (gpu,) = gpus.value
    assert gpu.name.value == "NVIDIA GeForce RTX 4090"
    assert gpu.compute_capability.value == "8.9"
    assert isinstance(gpu.nvml_index, Unknown)


@pytest.mark.parametrize(
    "host",
    [
        windows(INTEL, SOUND),
        windows(),
        windows(INTEL, returncode=1),
        RecordedHost(
            {"system": "windows", "commands": [{"argv": QUERY, "unknown": ["timeout", "1 s"]}]}
        ),
        RecordedHost({"system": "windows"}),
    ],
)
def test_an_unclear_registry_is_unknown(host: RecordedHost) -> None:
    assert isinstance(collect_gpus(host), Unknown)


DXG = {"/dev/dxg": {"kind": "char", "mode": "crw-rw-rw-"}}
MICROSOFT = ["libd3d12.so", "libd3d12core.so", "libdxcore.so"]
NO_NVIDIA = [
    "iigd_dch.inf_amd64_0f9f9f6f0c4e4c4d",
    "nvdimm.inf_amd64_1a2b",
    "nvraid.inf_amd64_3c4d",
    "usbport.inf_amd64_9",
]


def wsl(libraries: list[str], drivers: list[str]) -> RecordedHost:
    return bare(DXG, folders={"/usr/lib/wsl/lib": libraries, "/usr/lib/wsl/drivers": drivers})


def test_wsl_on_a_machine_with_another_makers_gpu() -> None:
    assert isinstance(collect_gpus(wsl(MICROSOFT, NO_NVIDIA)), Absent)


@pytest.mark.parametrize(
    ("libraries", "drivers"),
    [
        (MICROSOFT, [*NO_NVIDIA, "nv_dispi.inf_amd64_7a5e"]),  # too old a driver hands nothing in
        ([*MICROSOFT, "libcuda.so.1.1"], NO_NVIDIA),
        (MICROSOFT, []),
    ],
)
def test_wsl_with_a_trace_of_nvidia_is_unknown(libraries: list[str], drivers: list[str]) -> None:
    assert isinstance(collect_gpus(wsl(libraries, drivers)), Unknown)
