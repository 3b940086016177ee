"""Fake GPUs and processes."""

from __future__ import annotations

from typing import Any

from envcheck.model import (
    Absent,
    Fact,
    Gpu,
    GpuActivity,
    GpuProcess,
    InstanceMemory,
    Known,
    ProcessInfo,
    ProcessScan,
    Source,
    Unknown,
)

SOURCE = Source("library", "NVML (fake)")
GONE = Unknown("failed", "NVML (fake): GPU is lost (15)")
GIB = 1 << 30


def known(value: Any) -> Known[Any]:
    return Known(value, SOURCE)


def gpu(
    index: int = 0, *, used: int = 10 * GIB, total: int = 24 * GIB, **changes: Any
) -> GpuActivity:
    processes = [
        GpuProcess(pid, name, known(size) if size else Absent(("fake",)))
        for pid, name, size in changes.pop("processes", ())
    ]
    base = {
        "nvml_index": known(index),
        "name": known("Fake L4"),
        "compute_capability": known("8.9"),
        "memory_bytes": known(total),
        "memory_used_bytes": known(used),
        "mig_enabled": known(bool(changes.get("instances"))),
        "processes": changes.pop("processes_fact", known(tuple(processes))),
    }
    instances = tuple(
        InstanceMemory(f"MIG-{number}", "1g.6gb", known(size), known(taken), known(0))
        for number, (size, taken) in enumerate(changes.pop("instances", ()))
    )
    facts: dict[str, Fact[Any]] = {
        "minor": known(changes.pop("minor", index)),
        "memory_reserved_bytes": changes.pop("reserved", known(0)),
        "utilization_percent": known(97),
        "temperature_celsius": known(61),
        "power_watts": known(71.25),
        "power_limit_watts": known(72.0),
        "fan_percent": known(33),
        "performance_state": known(2),
        "instances": known(instances),
    }
    return GpuActivity(Gpu(**{**base, **changes}), **facts)


def lost(index: int = 0) -> GpuActivity:
    facts = dict.fromkeys(
        (
            "minor",
            "memory_reserved_bytes",
            "utilization_percent",
            "temperature_celsius",
            "power_watts",
            "instances",
        ),
        GONE,
    )
    names = ("name", "uuid", "memory_bytes", "memory_used_bytes", "processes", "mig_enabled")
    return GpuActivity(Gpu(nvml_index=known(index), **dict.fromkeys(names, GONE)), **facts)


def process(pid: int, **changes: Any) -> ProcessInfo:
    defaults = {
        "name": "python3",
        "owner": 1000,
        "state": "S",
        "parent": 900,
        "devices": ("/dev/nvidia0",),
    }
    return ProcessInfo(**{"pid": pid, **defaults, **changes})


def scan(*processes: ProcessInfo, **changes: Any) -> ProcessScan:
    return ProcessScan(tuple(processes), **{"own_user": 1000, **changes})
