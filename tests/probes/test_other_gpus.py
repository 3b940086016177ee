"""GPUs of other vendors: named from PCI and the processor, never taken for NVIDIA's."""

from __future__ import annotations

from typing import Any

from envcheck.model import Absent, Known, OtherGpu, Unknown
from envcheck.probes.gpus import collect_other_gpus
from tests.hosts.recorded_host import RecordedHost
from tests.probes.gpu_machines import bare, pci

PCI_IDS = (
    "1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]\n"
)
FOLDER = "/sys/bus/pci/devices/0000:03:00.0"


def device(
    vendor: str, device_id: str, kind: str, driver: str = "", address: str = "0000:03:00.0"
) -> dict[str, Any]:
    files = pci(address, f"0x{device_id}", kind, driver)
    return {**files, f"/sys/bus/pci/devices/{address}/vendor": f"0x{vendor}\n"}


def only(host: RecordedHost) -> OtherGpu:
    gpus = collect_other_gpus(host)
    assert isinstance(gpus, Known), gpus
    (gpu,) = gpus.value
    return gpu


def test_a_radeon_has_its_name_from_the_systems_table_and_its_driver() -> None:
    files = device("1002", "744c", "0x030000", "amdgpu")
    gpu = only(bare({**files, "/usr/share/misc/pci.ids": f"#\n{PCI_IDS}"}))
    assert (gpu.vendor, gpu.name.value) == ("amd", "Radeon RX 7900 XT/7900 XTX")
    assert gpu.kernel_driver.value == "amdgpu"


def test_an_instinct_is_a_processing_accelerator_and_names_itself() -> None:
    files = device("1002", "74a1", "0x120000", "amdgpu")
    assert (
        only(bare({**files, f"{FOLDER}/product_name": "AMD Instinct MI300X\n"})).name.value
        == "AMD Instinct MI300X"
    )


def test_a_device_that_no_table_names_is_unknown_by_name() -> None:
    gpu = only(bare(device("8086", "e20b", "0x030000", "xe")))
    assert (gpu.vendor, gpu.pci_id.value, gpu.integrated.value) == ("intel", "e20b", False)
    assert isinstance(gpu.name, Unknown)


def test_the_graphics_inside_a_processor_are_marked() -> None:
    assert (
        only(bare(device("8086", "4680", "0x030000", "i915", "0000:00:02.0"))).integrated.value
        is True
    )


def test_other_devices_of_these_vendors_and_nvidias_gpus_are_none() -> None:
    assert isinstance(
        collect_other_gpus(bare({**pci(), **device("8086", "1237", "0x060000")})), Absent
    )


def test_apples_gpu_is_named_by_its_processor() -> None:
    words = ["machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features"]
    command = {"argv": ["/usr/sbin/sysctl", "-n", *words], "stdout": "Apple M2\n"}
    gpu = only(RecordedHost({"system": "darwin", "commands": [command]}))
    assert (gpu.vendor, gpu.name.value) == ("apple", "Apple M2 GPU")


CLASS = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
NUMBERED = CLASS.replace("HKLM", "HKEY_LOCAL_MACHINE")


def windows(*names: str) -> RecordedHost:
    lines = [
        f"{NUMBERED}\\000{number}\r\n    DriverDesc    REG_SZ    {name}\r\n"
        for number, name in enumerate(names)
    ]
    argv = [r"C:\Windows\System32\reg.exe", "query", CLASS, "/s", "/v", "DriverDesc"]
    return RecordedHost(
        {"system": "windows", "commands": [{"argv": argv, "stdout": "\r\n".join(lines), "rc": 1}]}
    )


def test_windows_registry_names_the_display_adapters() -> None:
    gpus = collect_other_gpus(
        windows(
            "Microsoft Basic Display Adapter", "AMD Radeon RX 7900 XTX", "Intel(R) UHD Graphics 770"
        )
    )
    assert gpus.value is not None
    assert [(gpu.vendor, gpu.name.value, gpu.integrated.value) for gpu in gpus.value] == [
        ("amd", "AMD Radeon RX 7900 XTX", False),
        ("intel", "Intel(R) UHD Graphics 770", True),
    ]


def test_nvidias_adapter_is_none_of_another_vendor() -> None:
    assert isinstance(collect_other_gpus(windows("NVIDIA GeForce RTX 4090")), Absent)


def test_without_an_answer_of_the_registry_they_are_unknown() -> None:
    assert isinstance(collect_other_gpus(windows()), Unknown)
    assert isinstance(collect_other_gpus(RecordedHost({"system": "windows"})), Unknown)


def test_wsl_shows_no_vendor_and_no_name() -> None:
    host = bare(
        {
            "/dev/dxg": "",
            "/usr/lib/wsl/drivers/iigd_dch.inf_amd64_55f589032bab5285/igdrcl64.dll": "",
        }
    )
    gpus = collect_other_gpus(host)
    assert isinstance(gpus, Unknown)
    assert (
        gpus.detail
        == "WSL shows the GPUs of Windows as /dev/dxg alone; Windows has a display driver by Intel"
    )
