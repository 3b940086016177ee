"""What the child asks of NVML where releases and rights differ; the module pynvml is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace as Told
from typing import Any

import pytest

from envcheck.probes.children.nvml_devices import Nvml

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, MISSING = 3, 4, 6, 13
WHOLE, FIRST, SECOND = "whole", "first instance", "second instance"
NONE = 0xFFFFFFFF


class RefusedError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__("refused")
        self.value = value


def nvml(**functions: Any) -> Nvml:
    """Make an NVML of these answers, each a function's arguments -> value, a code (int) is a refusal."""

    def answering(name: str) -> Any:
        def answer(*arguments: Any) -> Any:
            value = functions[name](*arguments)
            if isinstance(value, int):
                raise RefusedError(value)
            return value

        return answer

    module = Told(NVMLError=RefusedError, NVMLLibraryMismatchError=LookupError)
    for name in functions:
        setattr(module, name, answering(name))
    return Nvml(module)


def memory(handle: str, version: int = 0) -> Any:
    if version:
        assert version == 0x02000028
        return Told(total=100, reserved=7, used=30, free=63)
    return Told(total=100, used=37, free=63)


def process(pid: int, used: int | None, instance: int = NONE) -> Any:
    return Told(pid=pid, usedGpuMemory=used, gpuInstanceId=instance, computeInstanceId=instance)


def processes(**functions: Any) -> Any:
    refused = {
        f"nvmlDeviceGet{kind}RunningProcesses_v{number}": lambda _: MISSING
        for kind in ("Compute", "MPSCompute", "Graphics")
        for number in (2, 3)
    }
    rest = {
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: NOT_SUPPORTED,
        "nvmlSystemGetProcessName": lambda _: "/bin/py x",
    }
    return nvml(**{**refused, **rest, **functions}).processes(WHOLE)


def test_memory_is_told_apart_from_what_the_driver_reserves() -> None:
    assert nvml(nvmlDeviceGetMemoryInfo=memory).memory(WHOLE) == {
        "memory_bytes": 100, "memory_used_bytes": 30, "memory_reserved_bytes": 7,
    }  # fmt: skip


def test_an_older_driver_counts_what_it_reserves_as_used() -> None:
    found = nvml(nvmlDeviceGetMemoryInfo=lambda *told: MISSING if told[1:] else memory(WHOLE)).memory(WHOLE)
    assert (found["memory_used_bytes"], found["memory_reserved_bytes"]["error"]) == (37, MISSING)


def test_an_older_module_knows_no_newer_memory() -> None:
    found = nvml(nvmlDeviceGetMemoryInfo=lambda handle: memory(handle)).memory(WHOLE)  # noqa: PLW0108 - one argument
    assert (found["memory_used_bytes"], found["memory_reserved_bytes"]["error"]) == (37, MISSING)


def test_a_gpu_without_memory_of_its_own() -> None:
    found = nvml(nvmlDeviceGetMemoryInfo=lambda *_: NOT_SUPPORTED).memory(WHOLE)
    assert [value["error"] for value in found.values()] == [NOT_SUPPORTED] * 3


def test_every_kind_of_process_is_listed_once() -> None:
    found = processes(
        nvmlDeviceGetComputeRunningProcesses_v3=lambda _: [process(9, 50), process(4, None)],
        nvmlDeviceGetMPSComputeRunningProcesses_v3=lambda _: [process(5, 20)],
        nvmlDeviceGetGraphicsRunningProcesses_v3=lambda _: [process(9, 50)],  # draws and computes: the same memory
    )
    assert [(one["pid"], one["name"], one["memory_bytes"]) for one in found] == [
        (4, "py", None), (5, "py", 20), (9, "py", 50),
    ]  # fmt: skip


def test_a_gpu_without_graphics_still_tells_its_compute_processes() -> None:
    found = processes(nvmlDeviceGetComputeRunningProcesses_v2=lambda _: [process(9, 50)])
    assert [one["pid"] for one in found] == [9]


def test_refused_compute_processes_are_not_none() -> None:
    assert processes(nvmlDeviceGetGraphicsRunningProcesses_v3=lambda _: [])["error"] == MISSING


@pytest.mark.parametrize("whole", [NO_PERMISSION, [process(9, 50, 1), process(9, 60, 2)]])
def test_of_a_divided_gpu_the_instances_tell_what_the_whole_tells_root_only(whole: Any) -> None:
    told = {WHOLE: whole, FIRST: [process(9, 50, 1)], SECOND: [process(9, 60, 2), process(3, 5, 2)]}
    found = _divided(told)
    assert [(one["pid"], one["memory_bytes"]) for one in found] == [(3, 5), (9, 110)]


def _divided(told: dict[str, Any]) -> Any:
    made = nvml(
        nvmlDeviceGetMigDeviceHandleByIndex=lambda _, index: (FIRST, NOT_FOUND, SECOND)[index],
        nvmlDeviceGetComputeRunningProcesses_v3=told.__getitem__,
        nvmlSystemGetProcessName=lambda _: "/bin/py",
    )
    made.module.nvmlDeviceGetMaxMigDeviceCount = lambda _: 3  # a count, not a refusal
    return made.processes(WHOLE)


def test_a_driver_that_dropped_the_old_question_is_asked_the_new_one() -> None:
    made = nvml(nvmlDeviceGetTemperature=lambda *_: MISSING)
    made.module.nvmlDeviceGetTemperatureV = lambda handle, sensor: 61
    assert made.newest("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", WHOLE, 0) == 61
    assert nvml().call("nvmlDeviceGetTemperatureV", WHOLE, 0)["error"] == MISSING  # an older module pynvml
