"""Read what the NVIDIA driver logged about its GPUs since the machine started."""

from __future__ import annotations

import re
from typing import Dict, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Fact, Known, Source, Unknown, collect_tried
from envcheck.model.text import find_group

# The number after the parenthesis is the code: another stands in "caused by previous Xid 149".
_XID = re.compile(r"Xid \((?:PCI:)?([0-9a-fA-F:]{7,16})[^)]*\): (\d{1,3})\b(.*)")
_FAULT = re.compile(
    r"GPU ([0-9a-fA-F:]{7,16})\.\d.*?(fallen off the bus|RmInitAdapter failed|GPU is lost)"
)
_NONFATAL = r"\b(Nonfatal)\b"
# A switch reports an error that is not fatal whenever a program dies.
_SXID = re.compile(
    r"nvidia-nvswitch\d*: SXid \((?:PCI:)?([0-9a-fA-F:]{7,16})[^)]*\): (\d{4,6}), (Fatal)\b"
)
_MAX_FAULTS = 64


def read_logged_faults(host: Host) -> Fact[Tuple[str, ...]]:
    """Read the kernel log; where its start was overwritten, that nothing is in it is unknown."""
    program = host.find_program("dmesg")
    if not isinstance(program, Known):
        return Unknown("failed", "dmesg is not on PATH", collect_tried(program))
    done = host.run([program.value], timeout=1.0)
    if not isinstance(done, Known):
        return done
    if done.value.returncode != 0:
        return Unknown("denied", f"dmesg: {done.value.first_line}", (program.value,))
    text = done.value.stdout
    faults = parse_logged_faults(text)
    # With the kernel's first line, or that of the driver when it was loaded, nothing is missed.
    if not faults and not re.search(r"^\[ *0\.0|Linux version |NVRM: loading", text, re.MULTILINE):
        return Unknown("failed", "the kernel log no longer holds the start", (program.value,))
    return Known(faults, Source("command", program.value, f"{len(faults)} faults of NVIDIA GPUs"))


def parse_logged_faults(text: str) -> Tuple[str, ...]:
    """List faults by GPU, each once, in the order in which they came last.

    "[ 17.6] NVRM: Xid (PCI:0000:0A:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the
    bus." -> "0000:0a:00: Xid 79"; of Xid 154 also what the driver now asks for, and of the links'
    144 to 150 whether they are fatal. "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal,
    Link 48 LTSSM Fault Up" -> "0000:06:00: SXid 20034 Fatal"
    """
    faults: Dict[Tuple[str, str], str] = {}
    # "NVRM: fallen off the bus" stands on a line of its own, after that with the address
    for line in re.sub(r"\n\s*(?:\[[^\]]*\] *)?NVRM: (?=\(PCI ID|fallen)", " ", text).splitlines():
        switch, is_driver = _SXID.search(line), "NVRM: " in line
        xid = _XID.search(line) if is_driver else None
        fault = _FAULT.search(line) if is_driver else None
        if switch:
            pci, name = switch[1], f"SXid {switch[2]} {switch[3]}"
        elif xid:
            pci, code, rest = xid.groups()
            wanted = find_group(r"action changed .*? to \S+ \(([^)]{1,40})\)", rest)
            name = f"Xid {code} {wanted or find_group(_NONFATAL, rest)}".rstrip()
        elif fault:
            pci, name = fault.groups()
        else:
            continue
        # of what the driver asks for only the last counts
        key = (pci.lower(), name[:7] if name.startswith("Xid 154") else name)
        faults.pop(key, None)
        faults[key] = f"{pci.lower()}: {name}"
    return tuple(faults.values())[-_MAX_FAULTS:]
