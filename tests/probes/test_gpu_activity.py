"""What GPUs do now: NVML's answers as facts, and the GPUs on PCI where NVML does not answer."""

from __future__ import annotations

from typing import Any

from envcheck.model import Absent, Known, Source, Unknown
from envcheck.probes.activity import parse_activity, read_activity
from tests.probes.gpu_machines import bare, nvml_answer, nvml_gpu, pci

LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01"
FOUND = Known(LIBRARY, Source("file", LIBRARY))
PROC = "/proc/driver/nvidia/gpus/0000:07:00.0"
NO_MIG = {"error": 3, "text": "Not Supported"}
BUSY = {
    "minor": 0,
    "memory_reserved_bytes": 478150656,
    "utilization": 97,
    "temperature": 61,
    "power": 71250,
    "power_limit": 72000,
    "instances": NO_MIG,
}


def activity(**changes: Any) -> Any:
    gpus = parse_activity(nvml_answer({**nvml_gpu(), **BUSY, **changes})["result"], LIBRARY).gpus
    assert gpus.value is not None
    return gpus.value[0]


def test_a_busy_gpu() -> None:
    found = activity()
    facts = (found.minor, found.utilization_percent, found.temperature_celsius, found.power_watts)
    assert [fact.value for fact in facts] == [0, 97, 61, 71.25]
    assert found.power_limit_watts.value == 72.0
    assert isinstance(found.instances, Absent)
    assert found.power_watts.source.where == f"NVML ({LIBRARY}), GPU 0"
    assert found.gpu.compute_capability.value == "8.0"


def test_instances_have_their_own_memory() -> None:
    found = {
        "uuid": "MIG-1",
        "name": "1g.5gb",
        "memory_bytes": 5 << 30,
        "memory_used_bytes": NO_MIG,
    }
    (instance,) = activity(instances=[found]).instances.value
    assert instance.memory_bytes.value == 5 << 30
    assert isinstance(instance.memory_used_bytes, Absent)


def test_a_lost_gpu_and_nonsense_are_unknown() -> None:
    answer = nvml_answer({"index": 0, "lost": {"error": 15, "text": "GPU is lost"}})["result"]
    gpus = parse_activity(answer, LIBRARY).gpus
    assert gpus.value is not None
    assert isinstance(gpus.value[0].power_watts, Unknown)
    assert "GPU is lost (15)" in gpus.value[0].minor.detail  # type: ignore[union-attr]
    strange = activity(power="hot", utilization=True, instances=7)
    assert [
        fact.why for fact in (strange.power_watts, strange.utilization_percent, strange.instances)
    ] == ["unparsable"] * 3


def test_without_nvml_the_gpus_on_pci_are_listed() -> None:
    host = bare({LIBRARY: "x"}, answers=[{"script": "nvml_devices", "unknown": ["timeout", "3 s"]}])
    reading = read_activity(host, FOUND, 3.0)
    assert isinstance(reading.driver, Unknown)
    assert reading.driver.why == "timeout"
    shown = bare({**pci(), f"{PROC}/information": "Model: \t NVIDIA L4\nDevice Minor: \t 3\n"})
    gpus = read_activity(shown, Absent(("libnvidia-ml.so.1",)), 3.0).gpus
    assert gpus.value is not None
    assert gpus.value[0].minor.value == 3
    assert isinstance(gpus.value[0].power_watts, Unknown)
    unread = read_activity(
        bare({**pci(), f"{PROC}/information": "Model: x\n"}), Absent(()), 3.0
    ).gpus
    assert unread.value is not None
    assert unread.value[0].minor.value is None
    gone = read_activity(bare({}), Absent(("libnvidia-ml.so.1",)), 3.0)
    assert isinstance(gone.driver, Absent)
    assert isinstance(gone.gpus, Absent)


def test_a_driver_that_lists_no_gpu_has_none() -> None:
    host = bare({LIBRARY: "x"}, answers=[nvml_answer()])
    assert not isinstance(read_activity(host, FOUND, 3.0).gpus, Known)
