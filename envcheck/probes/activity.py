"""Ask NVML, in a child process, what every GPU is doing now."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Fact, Gpu, Known, Source, Unknown, collect_tried
from envcheck.model.activity import ActivityReading, GpuActivity, InstanceMemory
from envcheck.probes.driver_libraries import find_driver_libraries, why_not_loaded
from envcheck.probes.gpus import collect_gpus, parse_information
from envcheck.probes.nvml import find_pynvml, make_error_fact, make_field_fact, parse_gpu, parse_nvml


def find_nvml(host: Host) -> Fact[str]:
    """Find the NVML to ask, once for all readings."""
    return find_driver_libraries(host).nvml_to_ask


def read_activity(host: Host, library: Fact[str], seconds: float) -> ActivityReading:
    """Read every GPU; where NVML does not answer in time, name those that PCI shows, without their activity.

    Without persistence mode the driver starts each GPU anew for it, which takes a second or more for each.
    """
    if not isinstance(library, Known):
        return ActivityReading(library, _others(host, library))
    answer = _ask(host, library, seconds)
    if not isinstance(answer, Known):
        return ActivityReading(answer, _others(host, answer))
    reading = parse_activity(answer.value, library.value)
    if isinstance(reading.gpus, Known) and reading.gpus.value:
        return reading
    return ActivityReading(reading.driver, _others(host, reading.gpus))


def _ask(host: Host, library: Known[str], seconds: float) -> Fact[Mapping[str, Any]]:
    reason = why_not_loaded(host, library.value)
    if reason:
        return Unknown("denied", reason, (library.value,))
    folder = find_pynvml()
    if folder is None:
        return Unknown("failed", "the module pynvml (package nvidia-ml-py) is not installed", ("pynvml",))
    return host.ask("nvml_devices", library.value, folder, "activity", timeout=seconds)


def _others(host: Host, reason: Fact[Any]) -> Fact[Tuple[GpuActivity, ...]]:
    gpus = collect_gpus(host)
    if not isinstance(gpus, Known):
        return gpus
    why = (
        reason
        if isinstance(reason, Unknown)
        else Unknown("failed", "there is no NVML to tell it", collect_tried(reason))
    )
    facts: Dict[str, Any] = dict.fromkeys(_MORE, why)
    return Known(tuple(GpuActivity(gpu, **{**facts, "minor": _minor(host, gpu)}) for gpu in gpus.value), gpus.source)


def _minor(host: Host, gpu: Gpu) -> Fact[int]:
    # The driver's own file needs no NVML; with it the processes that have the device open are still told apart.
    if not isinstance(gpu.pci_address, Known):
        return Unknown("failed", "without a PCI address its device is not known", ())
    path = f"/proc/driver/nvidia/gpus/{gpu.pci_address.value}/information"
    text = host.read_text(path)
    if not isinstance(text, Known):
        return text
    minor = parse_information(text.value).get("Device Minor", "")
    if not minor.isdigit():
        return Unknown("unparsable", f"{path} names no Device Minor", (path,))
    return Known(int(minor), Source("file", path, f"Device Minor: {minor}"))


def parse_activity(answer: Mapping[str, Any], library: str) -> ActivityReading:
    """Turn the child's answer into facts.

    {"init": 0, "driver": "550.163.01", "gpus": [{"index": 0, "name": "NVIDIA L4", "minor": 0, "utilization": 97,
    "memory_reserved_bytes": 478150656, "temperature": 61, "power": 71250, "power_limit": 72000,
    "instances": {"error": 3, "text": "Not Supported"}}]}
    """
    base = parse_nvml(answer, library)
    where = f"NVML ({library})"
    if not isinstance(base.gpus, Known):
        return ActivityReading(base.driver_version, base.gpus)
    told = [gpu for gpu in answer["gpus"] if isinstance(gpu, dict)]
    gpus = tuple(_activity(gpu, where) for gpu in told)
    return ActivityReading(base.driver_version, Known(gpus, base.gpus.source))


def _activity(told: Mapping[str, Any], where: str) -> GpuActivity:
    here = f"{where}, GPU {told['index']}"
    if isinstance(told.get("lost"), dict):
        lost: Dict[str, Any] = dict.fromkeys(_MORE, make_error_fact(told["lost"], here))
        return GpuActivity(parse_gpu(told, where), **lost)
    return GpuActivity(
        gpu=parse_gpu(told, where),
        minor=make_field_fact(told, "minor", here, _count),
        memory_reserved_bytes=make_field_fact(told, "memory_reserved_bytes", here, _count),
        utilization_percent=make_field_fact(told, "utilization", here, _count),
        temperature_celsius=make_field_fact(told, "temperature", here, _count),
        power_watts=make_field_fact(told, "power", here, _watts),
        power_limit_watts=make_field_fact(told, "power_limit", here, _watts),
        instances=make_field_fact(told, "instances", here, lambda found: tuple(_instance(one, here) for one in found)),
    )


_MORE = (
    "minor", "memory_reserved_bytes", "utilization_percent", "temperature_celsius", "power_watts", "power_limit_watts",
    "instances",
)  # fmt: skip


def _count(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _watts(value: Any) -> Optional[float]:
    return value / 1000 if isinstance(value, int) and not isinstance(value, bool) else None


def _instance(told: Mapping[str, Any], where: str) -> InstanceMemory:
    names = ("memory_bytes", "memory_used_bytes", "memory_reserved_bytes")
    return InstanceMemory(
        str(told["uuid"]), str(told["name"]), *(make_field_fact(told, name, where, _count) for name in names)
    )
