"""The NVML child with different releases and rights; the module pynvml is a fake."""

from __future__ import annotations

from types import SimpleNamespace as Answer
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
    """Build an NVML from functions that return a value, or an error code (int) to refuse."""

    def answering(name: str) -> Any:
        def answer(*arguments: Any) -> Any:
            value = functions[name](*arguments)
            if isinstance(value, int):
                raise RefusedError(value)
            return value

        return answer

    module = Answer(NVMLError=RefusedError, NVMLLibraryMismatchError=LookupError)
    for name in functions:
        setattr(module, name, answering(name))
    return Nvml(module)


def memory(handle: str, version: int = 0) -> Any:
    if version:
        assert version == 0x02000028
        return Answer(total=100, reserved=7, used=30, free=63)
    return Answer(total=100, used=37, free=63)


def process(pid: int, used: int | None, instance: int = NONE) -> Any:
    return Answer(pid=pid, usedGpuMemory=used, gpuInstanceId=instance, computeInstanceId=instance)


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
    return nvml(**{**refused, **rest, **functions}).list_processes(WHOLE)


def test_reserved_memory_is_separate_from_used_memory() -> None:
    assert nvml(nvmlDeviceGetMemoryInfo=memory).read_memory(WHOLE) == {
        "memory_bytes": 100, "memory_used_bytes": 30, "memory_reserved_bytes": 7,
    }  # fmt: skip


def test_an_older_driver_counts_reserved_memory_as_used() -> None:
    found = nvml(
        nvmlDeviceGetMemoryInfo=lambda *given: MISSING if given[1:] else memory(WHOLE)
    ).read_memory(WHOLE)
    assert (found["memory_used_bytes"], found["memory_reserved_bytes"]["error"]) == (37, MISSING)


def test_an_older_pynvml_lacks_the_new_memory_call() -> None:
    found = nvml(nvmlDeviceGetMemoryInfo=lambda handle: memory(handle)).read_memory(WHOLE)  # noqa: PLW0108 - one argument
    assert (found["memory_used_bytes"], found["memory_reserved_bytes"]["error"]) == (37, MISSING)


def test_a_gpu_without_separate_memory() -> None:
    found = nvml(nvmlDeviceGetMemoryInfo=lambda *_: NOT_SUPPORTED).read_memory(WHOLE)
    assert [value["error"] for value in found.values()] == [NOT_SUPPORTED] * 3


def test_every_kind_of_process_is_listed_once() -> None:
    found = processes(
        nvmlDeviceGetComputeRunningProcesses_v3=lambda _: [process(9, 50), process(4, None)],
        nvmlDeviceGetMPSComputeRunningProcesses_v3=lambda _: [process(5, 20)],
        nvmlDeviceGetGraphicsRunningProcesses_v3=lambda _: [process(9, 50)],  # the same memory
    )
    assert [(one["pid"], one["name"], one["memory_bytes"]) for one in found] == [
        (4, "py", None), (5, "py", 20), (9, "py", 50),
    ]  # fmt: skip


def test_a_gpu_without_graphics_lists_its_compute_processes() -> None:
    found = processes(nvmlDeviceGetComputeRunningProcesses_v2=lambda _: [process(9, 50)])
    assert [one["pid"] for one in found] == [9]


def test_refused_compute_processes_are_an_error() -> None:
    assert processes(nvmlDeviceGetGraphicsRunningProcesses_v3=lambda _: [])["error"] == MISSING


@pytest.mark.parametrize("whole", [NO_PERMISSION, [process(9, 50, 1), process(9, 60, 2)]])
def test_with_mig_the_instances_list_processes_for_other_users(whole: Any) -> None:
    answers = {
        WHOLE: whole,
        FIRST: [process(9, 50, 1)],
        SECOND: [process(9, 60, 2), process(3, 5, 2)],
    }
    found = _list_with_mig(answers)
    assert [(one["pid"], one["memory_bytes"]) for one in found] == [(3, 5), (9, 110)]


def _list_with_mig(answers: dict[str, Any]) -> Any:
    library = nvml(
        nvmlDeviceGetMigDeviceHandleByIndex=lambda _, index: (FIRST, NOT_FOUND, SECOND)[index],
        nvmlDeviceGetComputeRunningProcesses_v3=answers.__getitem__,
        nvmlSystemGetProcessName=lambda _: "/bin/py",
    )
    library.module.nvmlDeviceGetMaxMigDeviceCount = lambda _: 3  # a count, not a refusal
    return library.list_processes(WHOLE)


def test_a_driver_without_the_old_function_gets_the_new_one() -> None:
    library = nvml(nvmlDeviceGetTemperature=lambda *_: MISSING)
    library.module.nvmlDeviceGetTemperatureV = lambda handle, sensor: 61
    assert (
        library.call_newest("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", WHOLE, 0) == 61
    )
    # an older module pynvml
    assert nvml().call("nvmlDeviceGetTemperatureV", WHOLE, 0)["error"] == MISSING
