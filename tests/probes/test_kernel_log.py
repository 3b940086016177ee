"""The kernel log as `dmesg` prints it: what is unknown is no clean log."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Fact, Known, Unknown
from envcheck.probes.kernel_log import parse_logged_faults, read_logged_faults
from tests.hosts.recorded_host import RecordedHost

DMESG = "/usr/bin/dmesg"
START = "[    0.000000] Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org)\n"
LATER = "[91234.5] usb 1-1: new high-speed USB device\n"
XID = "[91240.1] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def read(stdout: str = "", **command: Any) -> Fact[tuple[str, ...]]:
    answer = {"argv": [DMESG], "returncode": 0, "stdout": stdout, **command}
    recording = {
        "environment": {"PATH": "/usr/bin"},
        "files": {DMESG: {"kind": "file", "mode": "-rwxr-xr-x", "size": 7}},
        "commands": [answer],
    }
    return read_logged_faults(RecordedHost(recording))


def test_a_log_from_the_start_without_a_fault_is_clean() -> None:
    found = read(START + LATER)
    assert isinstance(found, Known)
    assert found.value == ()


def test_a_log_whose_start_was_overwritten_is_unknown_unless_it_shows_a_fault() -> None:
    """A ring buffer that wrapped: "no Xid seen" says nothing then."""
    assert isinstance(read(LATER), Unknown)
    assert read(LATER + XID).value == ("0000:3b:00: Xid 79",)


def test_the_drivers_own_start_is_enough() -> None:
    loaded = "[80000.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.163.01\n"
    assert read(loaded + LATER).value == ()


@pytest.mark.parametrize(
    "command",
    [
        {"returncode": 1, "stderr": "dmesg: read kernel buffer failed: Operation not permitted\n"},
        {"unknown": ["timeout", "no answer within 1.0 s"]},
    ],
)
def test_a_log_that_nobody_may_read_is_unknown(command: dict[str, Any]) -> None:
    """kernel.dmesg_restrict=1 gives nothing without privilege."""
    found = read(**command)
    assert isinstance(found, Unknown)
    assert found.why == ("denied" if "returncode" in command else "timeout")


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        # as drivers have written them: the process quoted, as a number, not at all, and a MIG instance
        ("NVRM: Xid (PCI:0000:3b:00): 45, pid=123, Ch 00000010", ("0000:3b:00: Xid 45",)),
        ("NVRM: Xid (PCI:0000:3B:00): 48, DBE", ("0000:3b:00: Xid 48",)),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, Contained", ("0000:3b:00: Xid 94",)),
        # a process number is no code
        ("NVRM: Xid (PCI:0000:3b:00): 31, pid=154, name=python3", ("0000:3b:00: Xid 31",)),
        ("2026-11-28T01:02:03+00:00 node kernel: NVRM: Xid (PCI:0000:3b:00): 62, x", ("0000:3b:00: Xid 62",)),
        ("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 63", ("0000:05:00: SXid 20034 Fatal",)),
        ("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32", ()),
        ("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 62", ()),
        ("my-daemon: Xid (PCI:0000:3b:00): 79 was seen", ()),
    ],
)  # fmt: skip
def test_the_forms_of_a_line(line: str, faults: tuple[str, ...]) -> None:
    assert parse_logged_faults(f"[ 12.5] {line}\n") == faults
