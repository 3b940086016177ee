"""The kernel driver: version lines of both kinds of module, loaded modules, faults in /proc and /sys."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, Known, Unknown, choose_reading
from envcheck.probes.driver import (
    parse_module_kind,
    parse_modules,
    parse_proc_version,
    parse_sys_version,
    read_device_nodes,
    read_kernel,
)
from tests.hosts.recorded_host import RecordedHost
from tests.probes.gpu_machines import PROC_VERSION, bare, loaded

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  "
    "(dvs-builder@U22-I3-B17-02-5)  Tue Sep 23 09:55:41 UTC 2025\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1)\n"
)
OLD = "NVRM version: NVIDIA UNIX aarch64 Kernel Module  390.48  Thu Mar 22 00:42:57 PDT 2018\n"


@pytest.mark.parametrize(
    ("text", "version", "kind"),
    [
        (OPEN, "580.95.05", "open"),
        (PROC_VERSION, "550.163.01", "proprietary"),
        (OLD, "390.48", "proprietary"),
        ("GCC version:  Selected multilib: .;@m64\n", None, None),
        ("", None, None),
    ],
)
def test_proc_version(text: str, version: str | None, kind: str | None) -> None:
    assert parse_proc_version(text) == version
    assert parse_module_kind(text) == kind


@pytest.mark.parametrize(
    ("text", "version"),
    [("580.95.05\n", "580.95.05"), ("390.48", "390.48"), ("\ufffd\ufffd", None)],
)
def test_sys_version(text: str, version: str | None) -> None:
    assert parse_sys_version(text) == version


def test_modules() -> None:
    text = "nvidia_uvm 1540096 0 - Live 0x0000000000000000 (POE)\nnvidia 54000000 1 nvidia_uvm, Live 0x0 (POE)\n\n"
    assert parse_modules(text) == ("nvidia_uvm", "nvidia")


def test_procfs_replaces_a_missing_sysfs() -> None:
    kernel = read_kernel(bare({"/proc/driver/nvidia/version": OPEN}))
    assert kernel.kernel_module_version.value == "580.95.05"
    assert isinstance(kernel.kernel_module_version, Known)
    assert kernel.kernel_module_version.source.where == "/proc/driver/nvidia/version"
    assert kernel.kernel_module_kind.value == "open"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"error": "denied"}, "denied"),
        ({"kind": "fifo"}, "failed"),
        ({"base64": "//79AA=="}, "unparsable"),
        ("no version here", "unparsable"),
    ],
)
def test_faults_in_the_version_file_are_reasons(entry: Any, reason: str) -> None:
    version = read_kernel(bare({"/sys/module/nvidia/version": entry})).kernel_module_version
    assert isinstance(version, Unknown)
    assert version.why == reason
    assert (
        read_kernel(
            bare({**loaded(), "/sys/module/nvidia/version": entry})
        ).kernel_module_version.value
        == "550.163.01"
    )


def test_nouveau_built_in_or_as_a_module() -> None:
    built_in = {"/sys/module/nouveau/parameters/modeset": "1"}
    assert read_kernel(bare(built_in)).nouveau_loaded.value is True
    module = {"/proc/modules": "nouveau 2347008 1 - Live 0x0\n"}
    assert read_kernel(bare(module)).nouveau_loaded.value is True


def test_modules_without_proc_modules() -> None:
    masked = RecordedHost({"folders": {"/sys/module": ["ext4"]}})
    assert read_kernel(masked).uvm_loaded.value is False
    assert isinstance(read_kernel(masked).kernel_module_version, Absent)
    denied = RecordedHost({"files": {"/sys/module": {"error": "denied"}}})
    assert isinstance(read_kernel(denied).uvm_loaded, Unknown)


def test_device_nodes_are_unknown_where_nothing_is_mounted() -> None:
    chroot = {"/etc/os-release": "ID=debian\n", "/dev/console": ""}
    nodes = read_device_nodes(RecordedHost({"files": chroot}))
    assert isinstance(nodes, Unknown)
    assert "a chroot?" in nodes.detail
    assert isinstance(
        read_device_nodes(RecordedHost({"files": {**chroot, "/proc/version": "Linux"}})), Absent
    )


def test_device_nodes() -> None:
    files = {
        "/dev/nvidia0": {
            "kind": "char",
            "mode": "crw-rw----",
            "owner": "0:44",
            "readable": False,
            "writable": False,
        },
        "/dev/nvidiactl": {"kind": "char", "mode": "crw-rw-rw-", "owner": "0:0"},
        "/dev/nvidia1": "a regular file left behind",
        "/dev/nvidia2": {"link": "/dev/nowhere"},
        "/dev/nvidia3": {"error": "denied"},
        "/dev/nvidia-caps/nvidia-cap1": {"kind": "char", "mode": "cr--------"},
        "/dev/nvidiafb": {"kind": "char"},
    }
    nodes = {node.path: node for node in read_device_nodes(bare(files)).value or ()}
    assert set(nodes) == {
        f"/dev/nvidia{name}" for name in ("0", "1", "2", "3", "ctl", "-caps/nvidia-cap1")
    }
    assert nodes["/dev/nvidia0"].accessible.value is False
    assert nodes["/dev/nvidia0"].mode == "crw-rw---- 0:44"
    assert nodes["/dev/nvidiactl"].accessible.value is True
    assert nodes["/dev/nvidia1"].accessible.value is False
    assert isinstance(nodes["/dev/nvidia2"].accessible, Unknown)
    assert isinstance(nodes["/dev/nvidia3"].accessible, Unknown)


def test_device_nodes_that_cannot_be_listed() -> None:
    assert isinstance(
        read_device_nodes(bare({"/dev": {"error": "denied"}}, folders={"/dev": []})), Unknown
    )
    caps = {"/dev/nvidia-caps": {"error": "denied"}}
    assert isinstance(read_device_nodes(bare(caps)), Absent)


def test_choose_reading_prefers_known_then_unknown() -> None:
    absent, unknown = Absent(("a",)), Unknown("failed", "b", ("b",))
    assert choose_reading(absent, unknown) is unknown
    assert choose_reading(absent, Absent(("a", "c"))) == Absent(("a", "c"))
