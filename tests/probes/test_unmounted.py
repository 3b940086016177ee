"""Absent is never "no": a Linux without /proc or /sys, as in a chroot, says nothing about what they would show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from envcheck.model import Absent, Facts, Known, Unknown
from envcheck.model.records import list_fields
from envcheck.probes.collection import collect
from tests.hosts.recorded_host import RecordedHost

# Facts of Linux that only /proc or /sys show. What else may be there shows in the other.
OF_PROC = {"host.cpu_model", "host.cpu_flags", "host.shm_bytes", "host.container"}
OF_SYS = {"gpus", "other_gpus", "host.secure_boot", "driver.nvswitch_present"}
OF_BOTH = {"driver.release", "driver.kernel_module_version", "driver.uvm_loaded", "driver.nouveau_loaded",
           "driver.device_nodes"}  # fmt: skip
DENIED = {"error": "denied"}


def machine(files: dict[str, Any], architecture: str = "x86_64") -> Facts:
    """Collect the facts of a Linux with some files below /proc and /sys."""
    usual = {
        "/etc/os-release": "ID=debian\n",
        "/usr/bin/python3": "",
        "/dev/null": {"kind": "char"},
    }
    answers = [
        {"script": "interpreter_info", "result": {"executable": "/usr/bin/python3"}},
        {"script": "nvml_devices", "absent": ["libnvidia-ml.so.1"]},
        {"script": "driver_api", "absent": ["libcuda.so.1"]},
    ]
    system = {"machine": architecture, "kernel_release": "6.1.0", "libc": "glibc 2.36"}
    environment = {"PATH": "/usr/bin", "HOME": "/root"}
    recording = {"environment": environment, "system_facts": system, "answers": answers}
    return collect(RecordedHost({**recording, "files": {**usual, **files}})).facts


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Known, Absent, Unknown)):
        yield path, value
    elif hasattr(type(value), "__dataclass_fields__") or not isinstance(value, (str, bool, tuple)):
        for name in list_fields(value):
            yield from leaves(getattr(value, name), f"{path}.{name}".strip("."))


def unknown(facts: Facts) -> set[str]:
    return {name for name, fact in leaves(facts) if isinstance(fact, Unknown)}


PROC = {"/proc/cpuinfo": "flags : fpu avx\nmodel name : X\n", "/proc/modules": "ext4 1 1 - Live 0x0\n",
        "/proc/mounts": "shm /dev/shm tmpfs rw,size=65536k 0 0\n", "/proc/1/cgroup": "0::/\n",
        "/proc/self/mountinfo": ""}  # fmt: skip
SYS = {"/sys/bus/pci/devices/none": "", "/sys/module/ext4/x": "", "/sys/firmware/x": ""}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, OF_PROC | OF_SYS | OF_BOTH),
        (SYS, OF_PROC),
        (PROC, OF_SYS),
        ({**PROC, **SYS}, set()),
        ({"/proc": DENIED, **SYS}, OF_PROC),
        ({"/proc/cpuinfo": "", **SYS}, {"host.cpu_model", "host.cpu_flags", "host.shm_bytes"}),
        ({**PROC, "/proc/mounts": "", **SYS}, {"host.shm_bytes"}),
        ({**PROC, "/sys": DENIED}, OF_SYS),
    ],
    ids=["neither", "no /proc", "no /sys", "both", "/proc denied", "cpuinfo empty", "mounts empty", "/sys denied"],
)  # fmt: skip
def test_what_only_a_missing_file_would_show_is_unknown(
    files: dict[str, Any], expected: set[str]
) -> None:
    found = unknown(machine(files)) & (OF_PROC | OF_SYS | OF_BOTH)
    assert expected <= found
    if {"/proc/cpuinfo", "/sys/module/ext4/x"} <= set(files):
        assert found == expected


def test_a_jetson_is_not_ruled_out_without_its_device_tree() -> None:
    assert "host.jetson_release" in unknown(machine({}, "aarch64"))
    assert "host.jetson_release" not in unknown(machine(PROC, "aarch64"))


def test_traces_of_a_driver_are_looked_for_where_the_kernel_does_not_say() -> None:
    """Without /proc and /sys a module may be loaded: "not looked for" would be a claim."""
    facts = machine({})
    assert "not looked for" not in str((facts.driver.packages, facts.driver.module_file))
