"""nvidia-smi: real outputs of three drivers' binaries (run with a fake NVML), and every way it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.host.protocol import Completed
from envcheck.model import Absent, Known, Source, Unknown
from envcheck.probes.nvml import (
    NOT_RUN,
    SmiReading,
    find_smi,
    parse_banner,
    parse_smi,
    parse_table,
    read_smi,
)
from tests.probes.gpu_machines import bare

SAMPLES = Path(__file__).parent / "data" / "smi"
SMI = "/usr/bin/nvidia-smi"
PATH = Known(SMI, Source("file", SMI))
MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n"
)


def finished(stdout: str = "", code: int = 0, stderr: str = "") -> SmiReading:
    return parse_smi(Completed(code, stdout, stderr), PATH)


def sample(name: str) -> str:
    return (SAMPLES / f"smi_{name}.txt").read_text(encoding="utf-8")


def test_gpus_in_the_table_of_a_real_binary() -> None:
    first, second = parse_table(sample("550.163.01_table"), SMI)
    assert first.name.value == "NVIDIA A100-SXM4-40GB"
    assert first.pci_address.value == "0000:07:00.0"
    assert second.nvml_index.value == 1
    assert (first.memory_bytes.value, first.memory_used_bytes.value) == (40960 << 20, 3 << 20)
    (cut, _) = parse_table(sample("470.256.02_table"), SMI)
    assert isinstance(cut.name, Unknown)
    assert "NVIDIA A100-SXM..." in cut.name.detail


def test_a_gpu_whose_memory_the_table_does_not_show() -> None:
    first, second = parse_table(MIG_TABLE, SMI)
    assert first.memory_bytes.value == 40960 << 20
    assert second.name.value == "NVIDIA H100 PCIe"
    assert isinstance(second.memory_bytes, Unknown)


MIG_TABLE = """\
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                   On |
| N/A   33C    P0             51W /  400W |       3MiB /  40960MiB |     N/A      E. Process |
|                                         |                        |             Enabled* |
|   1  NVIDIA H100 PCIe               On  |   00000000:08:00.0 Off |                  N/A |
|ERR!  ERR! ERR!            ERR! /  ERR!  |   Unable to read       |     ERR!         ERR! |
|  0    1   0   0  |              11MiB / 20096MiB    | 42      0 |  3   0    2    0    0 |
"""


@pytest.mark.parametrize("version", ["470.256.02", "535.261.03", "550.163.01"])
def test_table_of_a_real_binary(version: str) -> None:
    reading = finished(sample(f"{version}_table"))
    assert reading.smi_driver_version.value == version
    assert reading.smi_cuda_driver_version.value == "12.2"
    assert reading.smi_exit_code.value == 0
    assert isinstance(reading.smi_message, Absent)


@pytest.mark.parametrize(
    ("line", "driver", "cuda"),
    [
        (
            "| NVIDIA-SMI 610.43.02    KMD Version: 610.43.02     CUDA UMD Version: 13.3     |",
            "610.43.02",
            "13.3",
        ),
        (
            "| NVIDIA-SMI 610.43.02    KMD Version: 610.47        CUDA UMD Version: 13.3     |",
            "610.47",
            "13.3",
        ),
        (
            "| NVIDIA-SMI 390.48                 Driver Version: 390.48                    |",
            "390.48",
            None,
        ),
        (
            "| NVIDIA-SMI 535.54.03   Driver Version: 535.54.03   CUDA Version: N/A      |",
            "535.54.03",
            None,
        ),
    ],
)
def test_banners(line: str, driver: str, cuda: str | None) -> None:
    found = parse_banner(line, SMI)
    assert (found[0].value, found[1].value) == (driver, cuda)
    assert cuda or isinstance(found[1], Absent)


def test_err_in_the_banner_is_not_a_version() -> None:
    driver, cuda = parse_banner(
        "| NVIDIA-SMI 535.54.03   Driver Version: ERR!   CUDA Version: ERR!  |", SMI
    )
    assert isinstance(driver, Unknown)
    assert isinstance(cuda, Unknown)


@pytest.mark.parametrize("version", ["470.256.02", "535.261.03", "550.163.01"])
@pytest.mark.parametrize(("case", "code"), [("nodriver_rc9", 9), ("nolib_rc12", 12)])
def test_real_failures_without_driver(version: str, case: str, code: int) -> None:
    reading = finished(sample(f"{version}_{case}"), code)
    assert reading.smi_exit_code.value == code
    assert reading.smi_message.value is not None
    assert reading.smi_message.value.startswith("NVIDIA-SMI ")
    assert isinstance(reading.smi_driver_version, Absent)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (MISMATCH, 18),
        ("Failed to initialize NVML: Unknown Error\n", 255),
        ("Failed to initialize NVML: Insufficient Permissions\n", 4),
        (
            "Unable to determine the device handle for GPU 0000:0A:00.0: GPU is lost.  Reboot the system\n",
            15,
        ),
        ("", 255),
    ],
)
def test_other_failures_leave_the_driver_unknown(text: str, code: int) -> None:
    reading = finished(text, code)
    assert reading.smi_exit_code.value == code
    assert reading.smi_message.value == (" ".join(text.split("\n")).strip() or None)
    assert isinstance(reading.smi_driver_version, Unknown)
    assert str(code) in reading.smi_driver_version.detail


def test_no_devices_do_not_mean_an_absent_driver() -> None:
    reading = finished("No devices were found\n", 6)
    assert isinstance(reading.smi_driver_version, Unknown)


def test_a_warning_beside_the_table_is_kept_as_message() -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:07:00.0"
    reading = finished(sample("550.163.01_table") + warning + "\n", 14)
    assert reading.smi_message.value == warning
    assert reading.smi_driver_version.value == "550.163.01"


def test_error_text_with_exit_code_0() -> None:
    reading = finished("Failed to initialize NVML: Unknown Error\n", 0)
    assert reading.smi_message.value == "Failed to initialize NVML: Unknown Error"
    assert isinstance(reading.smi_driver_version, Unknown)
    assert reading.smi_driver_version.why == "unparsable"


def test_garbage_and_crash() -> None:
    garbage = finished("\ufffd\ufffd|\ufffd" * 500)
    assert isinstance(garbage.smi_driver_version, Unknown)
    assert garbage.smi_driver_version.why == "unparsable"
    assert finished("\x1b[31mred\x00\n").smi_message.value == "[31mred"
    crash = finished("", -11)
    assert isinstance(crash.smi_exit_code, Unknown)
    assert crash.smi_exit_code.why == "crashed"


def smi_host(**entry: Any) -> Any:
    return bare({SMI: "binary"}, commands=[{"argv": [SMI], **entry}])


def test_nvidia_smi_runs_only_when_needed() -> None:
    host = bare({SMI: "binary"})  # running it would raise: the command is not recorded
    reading = read_smi(host, needed=False)
    assert reading.smi_path.value == SMI
    assert reading.smi_exit_code is NOT_RUN


def test_a_hanging_nvidia_smi_is_unknown() -> None:
    reading = read_smi(smi_host(unknown=["timeout", "no answer within 2.0 s"]), needed=True)
    assert reading.smi_path.value == SMI
    assert isinstance(reading.smi_driver_version, Unknown)
    assert reading.smi_driver_version.why == "timeout"


def test_nvidia_smi_is_run_and_parsed() -> None:
    assert read_smi(smi_host(stdout=MISMATCH, returncode=18), needed=True).smi_exit_code.value == 18


def test_found_off_path_in_wsl() -> None:
    place = "/usr/lib/wsl/lib/nvidia-smi"
    assert find_smi(bare({place: "binary"})).value == place


def test_missing_or_a_folder() -> None:
    assert isinstance(find_smi(bare()), Absent)
    assert isinstance(find_smi(bare(folders={SMI: []})), Absent)
    assert isinstance(read_smi(bare(), needed=True).smi_exit_code, Absent)


def test_not_executable_is_unknown() -> None:
    host = bare(
        {"/opt/bin/nvidia-smi": {"kind": "file", "mode": "-rw-r--r--"}},
        environment={"PATH": "/opt/bin:/usr/bin"},
    )
    found = find_smi(host)
    assert isinstance(found, Unknown)
    assert found.why == "denied"


def test_on_windows() -> None:
    place = "C:\\Windows\\System32\\nvidia-smi.exe"
    status = {
        "known": {
            "kind": "file",
            "size": 1,
            "mode": "",
            "owner": "",
            "readable": True,
            "writable": False,
        }
    }
    source = {"source": {"kind": "file", "where": place}}
    host = bare(system="windows", calls={"status": {place: {**status, **source}}})
    assert find_smi(host).value == place
