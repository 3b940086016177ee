"""Query NVML in a child process for what every GPU does now."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model import (
    ActivityReading,
    Fact,
    Gpu,
    GpuActivity,
    InstanceMemory,
    Known,
    Unknown,
    collect_tried,
    from_file,
)
from envcheck.model.text import parse_fields
from envcheck.probes.gpus import collect_gpus
from envcheck.probes.nvml import (
    find_driver_libraries,
    make_error_fact,
    make_field_fact,
    parse_gpu,
    parse_nvml,
    query_nvml,
    to_count,
)


def find_nvml(host: Host) -> Fact[str]:
    """Find the NVML library, once for all readings."""
    return find_driver_libraries(host).nvml_to_query


def read_activity(host: Host, library: Fact[str], seconds: float) -> ActivityReading:
    """Read every GPU; without an answer of NVML in `seconds`, list those on PCI.

    Without persistence mode the driver initializes each GPU for the query, which takes a second or
    more per GPU.
    """
    if not isinstance(library, Known):
        return ActivityReading(library, _list_gpus_on_pci(host, library))
    answer = query_nvml(host, library.value, "activity", timeout=seconds)
    if not isinstance(answer, Known):
        return ActivityReading(answer, _list_gpus_on_pci(host, answer))
    reading = parse_activity(answer.value, library.value)
    if reading.gpus.value:
        return reading
    return ActivityReading(reading.driver, _list_gpus_on_pci(host, reading.gpus))


def _list_gpus_on_pci(host: Host, reason: Fact[Any]) -> Fact[Tuple[GpuActivity, ...]]:
    gpus = collect_gpus(host)
    if not isinstance(gpus, Known):
        return gpus
    missing = Unknown("failed", "NVML is not available", collect_tried(reason))
    facts: Dict[str, Any] = dict.fromkeys(
        _ACTIVITY_FIELDS, reason if isinstance(reason, Unknown) else missing
    )
    activities = tuple(
        GpuActivity(gpu, **{**facts, "minor": _read_minor(host, gpu)}) for gpu in gpus.value
    )
    return Known(activities, gpus.source)


def _read_minor(host: Host, gpu: Gpu) -> Fact[int]:
    # The driver's own file needs no NVML; with the number, processes that use the device are still
    # assigned to it.
    if gpu.pci_address.value is None:
        return Unknown("failed", "the device number is unknown without a PCI address", ())
    path = f"/proc/driver/nvidia/gpus/{gpu.pci_address.value}/information"
    text = host.read_text(path)
    if not isinstance(text, Known):
        return text
    minor = parse_fields(text.value).get("Device Minor", "")
    if not minor.isdigit():
        return Unknown("unparsable", f"{path} contains no Device Minor", (path,))
    return from_file(int(minor), path, f"Device Minor: {minor}")


def parse_activity(answer: Mapping[str, Any], library: str) -> ActivityReading:
    """Parse the child's answer.

    {"init": 0, "driver": "550.163.01", "gpus": [{"index": 0, "name": "NVIDIA L4", "minor": 0,
    "utilization": 97, "memory_reserved_bytes": 478150656, "temperature": 61, "power": 71250,
    "power_limit": 72000, "fan": 33, "performance_state": 0,
    "instances": {"error": 3, "text": "Not Supported"}}]}
    """
    reading = parse_nvml(answer, library)
    where = f"NVML ({library})"
    if not isinstance(reading.gpus, Known):
        return ActivityReading(reading.driver_version, reading.gpus)
    gpus = tuple(_parse_gpu_activity(gpu, where) for gpu in answer["gpus"] if isinstance(gpu, dict))
    return ActivityReading(reading.driver_version, Known(gpus, reading.gpus.source))


def _parse_gpu_activity(answer: Mapping[str, Any], where: str) -> GpuActivity:
    place = f"{where}, GPU {answer['index']}"
    if isinstance(answer.get("lost"), dict):
        lost: Dict[str, Any] = dict.fromkeys(
            _ACTIVITY_FIELDS, make_error_fact(answer["lost"], place)
        )
        return GpuActivity(parse_gpu(answer, where), **lost)
    return GpuActivity(
        gpu=parse_gpu(answer, where),
        minor=make_field_fact(answer, "minor", place, to_count),
        memory_reserved_bytes=make_field_fact(answer, "memory_reserved_bytes", place, to_count),
        utilization_percent=make_field_fact(answer, "utilization", place, to_count),
        temperature_celsius=make_field_fact(answer, "temperature", place, to_count),
        power_watts=make_field_fact(answer, "power", place, _to_watts),
        power_limit_watts=make_field_fact(answer, "power_limit", place, _to_watts),
        fan_percent=make_field_fact(answer, "fan", place, to_count),
        performance_state=make_field_fact(answer, "performance_state", place, to_count),
        instances=make_field_fact(
            answer,
            "instances",
            place,
            lambda entries: tuple(_parse_instance(entry, place) for entry in entries),
        ),
    )


_ACTIVITY_FIELDS = (
    "minor", "memory_reserved_bytes", "utilization_percent", "temperature_celsius", "power_watts",
    "power_limit_watts", "fan_percent", "performance_state", "instances",
)  # fmt: skip


def _to_watts(value: Any) -> Optional[float]:
    milliwatts = to_count(value)
    return None if milliwatts is None else milliwatts / 1000


def _parse_instance(entry: Mapping[str, Any], where: str) -> InstanceMemory:
    names = ("memory_bytes", "memory_used_bytes", "memory_reserved_bytes")
    facts = (make_field_fact(entry, name, where, to_count) for name in names)
    return InstanceMemory(str(entry["uuid"]), str(entry["name"]), *facts)
