"""GPUs: found with and without a driver, combined from several readings, and when they are absent."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, Gpu, Known, Unknown
from envcheck.model.text import parse_fields
from envcheck.probes.gpus import collect_gpus
from envcheck.probes.nvml import normalize_pci_address
from tests.hosts.recorded_host import RecordedHost
from tests.probes.gpu_machines import A100, bare, healthy, installed, nvml_answer, nvml_gpu, pci


def found(host: RecordedHost) -> tuple[Gpu, ...]:
    gpus = collect_gpus(host)
    assert isinstance(gpus, Known), gpus
    return gpus.value


def refused(code: int, text: str = "refused") -> dict[str, Any]:
    return {"script": "nvml_devices", "result": {"init": code, "text": text}}


def test_gpus_have_names_without_a_driver() -> None:
    (gpu,) = found(bare(pci(device="0x2684", kind="0x030000", driver="")))
    assert gpu.name.value == "NVIDIA GeForce RTX 4090"
    assert gpu.compute_capability.value == "8.9"
    assert gpu.pci_address.value == A100
    assert isinstance(gpu.kernel_driver, Absent)
    assert isinstance(gpu.memory_bytes, Unknown)


@pytest.mark.parametrize("driver", ["nouveau", "vfio-pci"])
def test_the_bound_kernel_driver(driver: str) -> None:
    (gpu,) = found(bare(pci(driver=driver)))
    assert gpu.kernel_driver.value == driver


def test_other_nvidia_devices_are_not_gpus() -> None:
    files = {**pci("0000:01:00.1", kind="0x040300"), **pci("0000:02:00.0", kind="0x068000")}
    intel = {"/sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n"}
    assert isinstance(collect_gpus(bare({**files, **intel})), Absent)


def test_nvml_and_pci_match_by_address() -> None:
    (gpu,) = found(healthy())
    assert gpu.nvml_index.value == 0
    assert gpu.uuid.value == "GPU-0"
    assert gpu.kernel_driver.value == "nvidia"


def test_values_that_nvml_refuses_come_from_pci() -> None:
    error = {"error": 999, "text": "Unknown Error"}
    answer = nvml_answer(nvml_gpu(name=error, compute_capability=error, memory_bytes=error))
    (gpu,) = found(bare({**pci(), **installed()}, answers=[answer]))
    assert gpu.compute_capability.value == "8.0"
    assert "A100" in (gpu.name.value or "")
    assert isinstance(gpu.memory_bytes, Unknown)


def test_a_gpu_without_an_address_is_the_one_device_left() -> None:
    error = {"error": 999, "text": "Unknown Error"}
    answer = nvml_answer(nvml_gpu(pci_address=error))
    (gpu,) = found(bare({**pci(), **installed()}, answers=[answer]))
    assert gpu.pci_address.value == A100
    assert gpu.nvml_index.value == 0


def test_gpus_have_the_order_of_nvml_and_hidden_ones_follow() -> None:
    files = {**pci("0000:07:00.0"), **pci("0000:08:00.0"), **pci("0000:03:00.0", driver="vfio-pci")}
    answer = nvml_answer(nvml_gpu(1), nvml_gpu(0))
    gpus = found(bare({**files, **installed()}, answers=[answer]))
    assert [gpu.pci_address.value for gpu in gpus] == [
        "0000:07:00.0",
        "0000:08:00.0",
        "0000:03:00.0",
    ]
    assert isinstance(gpus[2].nvml_index, Absent)
    assert isinstance(gpus[2].uuid, Unknown)
    assert "does not list" in gpus[2].uuid.detail


def test_a_failed_nvml_is_the_reason_of_unknown_facts() -> None:
    (gpu,) = found(
        bare({**pci(), **installed()}, answers=[refused(18, "Driver/library version mismatch")])
    )
    assert isinstance(gpu.nvml_index, Unknown)
    assert "mismatch" in gpu.nvml_index.detail


def test_information_lines() -> None:
    lines = parse_fields(
        "Model: \t\t NVIDIA GeForce RTX 3090\nBus Location: \t 0000:01:00.0\nrubbish\n"
    )
    assert lines == {"Model": "NVIDIA GeForce RTX 3090", "Bus Location": "0000:01:00.0"}


def test_a_machine_without_gpus() -> None:
    gpus = collect_gpus(bare())
    assert isinstance(gpus, Absent)
    assert "/sys/bus/pci/devices" in gpus.tried
    assert "/dev/dxg" in gpus.tried


def test_a_driver_without_gpu() -> None:
    assert isinstance(
        collect_gpus(bare(installed(), answers=[refused(9, "Driver Not Loaded")])), Absent
    )
    assert isinstance(collect_gpus(bare(installed(), answers=[nvml_answer()])), Absent)


def test_a_failed_nvml_makes_gpus_unknown() -> None:
    gpus = collect_gpus(
        bare(installed(), answers=[{"script": "nvml_devices", "unknown": ["timeout", "3 s"]}])
    )
    assert isinstance(gpus, Unknown)
    assert gpus.why == "timeout"


@pytest.mark.parametrize(
    "path", ["/sys/bus/pci/devices", "/sys/bus/pci/devices/0000:07:00.0/vendor"]
)
def test_denied_sysfs_is_unknown(path: str) -> None:
    gpus = collect_gpus(bare({path: {"error": "denied"}}))
    assert isinstance(gpus, Unknown)
    assert gpus.why == "denied"


def test_hidden_sysfs_is_unknown_but_a_missing_pci_bus_is_not() -> None:
    hidden = RecordedHost({"files": {"/proc/modules": ""}})
    assert isinstance(collect_gpus(hidden), Unknown)
    boardless = RecordedHost({"folders": {"/sys/bus": ["usb"], "/sys/module": []}})
    assert isinstance(collect_gpus(boardless), Absent)


def test_broken_pci_entries() -> None:
    files = pci()
    files[f"/sys/bus/pci/devices/{A100}/device"] = "rubbish"
    (gpu,) = found(bare(files))
    assert isinstance(gpu.pci_id, Unknown)
    assert isinstance(gpu.name, Unknown)
    assert isinstance(gpu.compute_capability, Unknown)
    del files[f"/sys/bus/pci/devices/{A100}/class"]
    assert isinstance(collect_gpus(bare(files)), Absent)


DXG = {"/dev/dxg": {"kind": "char", "mode": "crw-rw-rw-"}}
WSL_LIBRARY = {"/usr/lib/wsl/lib/libnvidia-ml.so.1": "\x7fELF\x02"}


def test_wsl_reads_gpus_from_nvml() -> None:
    (gpu,) = found(bare({**DXG, **WSL_LIBRARY}, answers=[nvml_answer(nvml_gpu())]))
    assert gpu.compute_capability.value == "8.0"
    assert isinstance(gpu.kernel_driver, Unknown)


def test_gpus_come_from_nvidia_smi_where_nvml_does_not_answer() -> None:
    place = "/usr/lib/wsl/lib/nvidia-smi"
    table = (
        "| NVIDIA-SMI 550.120   Driver Version: 551.61   CUDA Version: 12.4     |\n"
        "|   0  NVIDIA GeForce RTX 4090        On  | 00000000:01:00.0  On |                  Off |\n"
    )
    (gpu,) = found(bare({**DXG, place: "binary"}, commands=[{"argv": [place], "stdout": table}]))
    assert gpu.name.value == "NVIDIA GeForce RTX 4090"
    assert gpu.compute_capability.value == "8.9"
    assert gpu.pci_address.value == "0000:01:00.0"


def test_a_broken_nvidia_smi_does_not_make_gpus_unknown() -> None:
    place = "/usr/bin/nvidia-smi"
    hanging = bare({place: "binary"}, commands=[{"argv": [place], "unknown": ["timeout", "2 s"]}])
    assert isinstance(collect_gpus(hanging), Absent)


def test_an_ambiguous_or_unknown_product_name_gives_no_capability() -> None:
    refusal = {"error": 999, "text": "Unknown Error"}
    for name in ("NVIDIA GeForce GT 730", "NVIDIA Nonesuch 9000"):
        unread: dict[str, Any] = {"name": name, "compute_capability": refusal, "pci_id": refusal}
        (gpu,) = found(bare({**DXG, **WSL_LIBRARY}, answers=[nvml_answer(nvml_gpu(**unread))]))
        assert gpu.name.value == name
        assert isinstance(gpu.compute_capability, Unknown)


def test_wsl_with_a_hanging_nvml() -> None:
    hanging = {"script": "nvml_devices", "unknown": ["timeout", "no answer within 3.0 s"]}
    gpus = collect_gpus(bare({**DXG, **WSL_LIBRARY}, answers=[hanging]))
    assert isinstance(gpus, Unknown)
    assert gpus.why == "timeout"


def test_wsl_without_answers_is_unknown_not_absent() -> None:
    gpus = collect_gpus(bare(DXG))
    assert isinstance(gpus, Unknown)
    assert gpus.why == "failed"


def test_windows_and_macos() -> None:
    assert isinstance(collect_gpus(RecordedHost({"system": "darwin"})), Absent)
    assert isinstance(collect_gpus(RecordedHost({"system": "windows"})), Unknown)


PCI_IDS = """\
#
10dd  Other
\t2fff  Wrong
10de  NVIDIA Corporation
\t2fff  GX999 [GeForce RTX 9999]
\t2ffe  GX998
10df  X
"""


def test_ids_newer_than_the_table_are_found_in_pci_ids() -> None:
    ids = {"/usr/share/misc/pci.ids": PCI_IDS}
    (gpu,) = found(bare({**pci(device="0x2fff"), **ids}))
    assert gpu.name.value == "NVIDIA GeForce RTX 9999"
    assert isinstance(gpu.compute_capability, Unknown)
    assert "10de:2fff" in gpu.compute_capability.detail
    (chip,) = found(bare({**pci(device="0x2ffe"), **ids}))
    assert chip.name.value == "NVIDIA GX998"
    (unnamed,) = found(bare({**pci(device="0x2ffd"), **ids}))
    assert isinstance(unnamed.name, Unknown)
    (last,) = found(
        bare({**pci(device="0x2ffe"), "/usr/share/misc/pci.ids": "\n10de  N\n\t2ffe  GX998\n"})
    )
    assert last.name.value == "NVIDIA GX998"


@pytest.mark.parametrize("text", ["00000000:07:00.0", "0000:07:00.0", "07:00.0", " 0000:07:00.0\n"])
def test_addresses_are_normalized(text: str) -> None:
    assert normalize_pci_address(text) == A100


def test_large_pci_domains_are_kept() -> None:
    assert normalize_pci_address("00010000:3B:00.0") == "10000:3b:00.0"
