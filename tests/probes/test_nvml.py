"""NVML: the child's answers as facts, refused fields, and when no child starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.model import Absent, Known, Source, Unknown
from envcheck.probes.nvml import (
    NvmlReading,
    find_pynvml,
    format_cuda_version,
    parse_nvml,
    read_nvml,
)
from tests.probes.gpu_machines import bare, nvml_answer, nvml_gpu

LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01"
FOUND = Known(LIBRARY, Source("file", LIBRARY))


def answered(*gpus: dict[str, Any]) -> NvmlReading:
    return parse_nvml(nvml_answer(*gpus)["result"], LIBRARY)


def one_gpu(**changes: Any) -> Any:
    gpus = answered(nvml_gpu(**changes)).gpus
    assert gpus.value is not None
    return gpus.value[0]


def test_a_healthy_answer() -> None:
    reading = answered(nvml_gpu(), nvml_gpu(1))
    assert reading.result.value == 0
    assert reading.driver_version.value == "550.163.01"
    assert reading.cuda_driver_version.value == "12.4"
    assert reading.is_complete
    gpu = one_gpu()
    assert gpu.pci_address.value == "0000:07:00.0"
    assert gpu.compute_capability.value == "8.0"
    assert gpu.memory_bytes.value == 40 << 30
    assert gpu.mig_enabled.value is False
    assert gpu.mig_devices == Known((), gpu.mig_devices.source)
    assert gpu.name.source.kind == "library"


def test_mig_devices_and_processes() -> None:
    gpu = one_gpu(
        mig_enabled=True,
        mig_devices=[{"uuid": "MIG-1", "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb"}],
        processes=[
            {"pid": 7, "name": "python3", "memory_bytes": 1 << 30},
            {"pid": 8, "name": "", "memory_bytes": None},
        ],
    )
    assert [device.uuid for device in gpu.mig_devices.value or ()] == ["MIG-1"]
    assert gpu.processes.value is not None
    first, second = gpu.processes.value
    assert (first.pid, first.name, first.memory_bytes.value) == (7, "python3", 1 << 30)
    assert isinstance(second.memory_bytes, Absent)


@pytest.mark.parametrize(
    ("code", "kind", "why"),
    [
        (3, Absent, ""),
        (6, Absent, ""),
        (4, Unknown, "denied"),
        (10, Unknown, "timeout"),
        (999, Unknown, "failed"),
    ],
)
def test_a_refused_field_does_not_affect_others(code: int, kind: type, why: str) -> None:
    gpu = one_gpu(mig_enabled={"error": code, "text": "refused"})
    assert isinstance(gpu.mig_enabled, kind)
    assert getattr(gpu.mig_enabled, "why", "") == why
    assert gpu.name.value is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""}, {"name": 3}, {"uuid": None}, {"pci_address": 7}, {"memory_bytes": True}, {"mig_enabled": "yes"},
        {"processes": [{"pid": "x"}]}, {"mig_devices": 5}, {"compute_capability": "N/A"},
    ],
)  # fmt: skip
def test_a_field_of_another_shape_is_unparsable(changes: dict[str, Any]) -> None:
    fact = getattr(one_gpu(**changes), next(iter(changes)))
    assert isinstance(fact, Unknown)
    assert fact.why == "unparsable"


def test_a_lost_gpu_keeps_its_index() -> None:
    reading = answered({"index": 3, "lost": {"error": 15, "text": "GPU is lost"}}, nvml_gpu())
    assert reading.gpus.value is not None
    lost, other = reading.gpus.value
    assert lost.nvml_index.value == 3
    assert isinstance(lost.name, Unknown)
    assert "GPU is lost" in lost.name.detail
    assert other.name.value is not None


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (9, "Driver Not Loaded", Absent),
        (18, "Driver/library version mismatch", Unknown),
        (4, "Insufficient Permissions", Unknown),
        (999, "Unknown Error", Unknown),
    ],
)
def test_nvml_that_does_not_start(code: int, text: str, kind: type) -> None:
    reading = parse_nvml({"init": code, "text": text}, LIBRARY)
    assert reading.result.value == code
    assert isinstance(reading.driver_version, kind)
    assert isinstance(reading.gpus, kind)
    assert not reading.is_complete


@pytest.mark.parametrize("answer", [{"load_error": "invalid ELF header"}, {}, {"init": "0"}])
def test_a_file_that_is_not_a_library(answer: dict[str, Any]) -> None:
    reading = parse_nvml(answer, LIBRARY)
    assert isinstance(reading.result, Unknown)
    assert LIBRARY in reading.result.detail


def test_refused_count_and_version() -> None:
    refused = {"error": 999, "text": "Unknown Error"}
    reading = parse_nvml({"init": 0, "driver": "1.2", "cuda": refused, "gpus": refused}, LIBRARY)
    assert isinstance(reading.gpus, Unknown)
    assert isinstance(reading.cuda_driver_version, Unknown)
    assert reading.driver_version.value is not None
    assert not reading.is_complete


def test_gpus_that_are_not_a_list() -> None:
    reading = parse_nvml(
        {"init": 0, "driver": "1.2", "cuda": 12040, "gpus": [{"name": "no index"}]}, LIBRARY
    )
    assert isinstance(reading.gpus, Unknown)
    assert reading.gpus.why == "unparsable"
    nothing = parse_nvml({"init": 0, "driver": "1.2", "cuda": 12040}, LIBRARY)
    assert isinstance(nothing.gpus, Unknown)


@pytest.mark.parametrize(
    ("number", "version"), [(12040, "12.4"), (13000, "13.0"), (9010, "9.1"), (6050, "6.5")]
)
def test_cuda_numbers(number: int, version: str) -> None:
    assert format_cuda_version(number) == version


@pytest.mark.parametrize("number", [0, None, "12040", 12])
def test_invalid_cuda_numbers(number: object) -> None:
    assert format_cuda_version(number) is None


def test_without_a_library_no_child_is_started() -> None:
    assert read_nvml(bare(), Absent(("here",))) == NvmlReading(*[Absent(("here",))] * 4)


def test_the_child_is_queried() -> None:
    host = bare({LIBRARY: "x"}, answers=[nvml_answer(nvml_gpu())])
    assert read_nvml(host, FOUND).driver_version.value == "550.163.01"


def test_a_child_that_crashes() -> None:
    host = bare(
        {LIBRARY: "x"}, answers=[{"script": "nvml_devices", "unknown": ["crashed", "signal 11"]}]
    )
    result = read_nvml(host, FOUND).result
    assert isinstance(result, Unknown)
    assert result.why == "crashed"


def test_root_does_not_load_a_library_that_others_can_change() -> None:
    host = bare({LIBRARY: {"kind": "file", "mode": "-rw-rw-rw-"}}, system_facts={"is_root": True})
    result = read_nvml(host, FOUND).result
    assert isinstance(result, Unknown)
    assert result.why == "denied"
    assert LIBRARY in result.detail


def test_pynvml_is_found_without_importing_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = find_pynvml()
    assert folder is not None
    assert Path(folder, "pynvml.py").exists() or Path(folder, "pynvml").exists()
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert find_pynvml() == str(tmp_path)


def test_without_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    reading = read_nvml(bare({LIBRARY: "x"}), FOUND)
    assert isinstance(reading.result, Unknown)
    assert "nvidia-ml-py" in reading.result.detail
