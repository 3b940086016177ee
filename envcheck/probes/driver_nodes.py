"""Read the driver's character devices and whether this user may open them."""

from __future__ import annotations

import re
from typing import List, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.machine import DeviceNode

_NODE = r"nvidia(\d+|ctl|-modeset|-uvm|-uvm-tools|-nvswitch\d+|-nvswitchctl)$"


def read_device_nodes(host: Host) -> Fact[Tuple[DeviceNode, ...]]:
    """List /dev/nvidia* and /dev/nvidia-caps/*.

    nvidiactl alone proves nothing: nvidia-smi, run as root, makes it on a machine without a driver.
    """
    if host.system != "linux":
        return Absent((f"/dev/nvidia* (this is {host.system})",))
    names = host.list_folder("/dev")
    if not isinstance(names, Known):
        return names
    paths = [f"/dev/{name}" for name in names.value if re.match(_NODE, name)]
    if "nvidia-caps" in names.value:
        paths.extend(_caps(host))
    if not paths:
        return Absent(("/dev/nvidia*",))
    return Known(tuple(_node(host, path) for path in paths), Source("file", "/dev", " ".join(paths)[:200]))


def _caps(host: Host) -> List[str]:
    names = host.list_folder("/dev/nvidia-caps")
    return [f"/dev/nvidia-caps/{name}" for name in names.value] if isinstance(names, Known) else []


def _node(host: Host, path: str) -> DeviceNode:
    status = host.status(path)
    if not isinstance(status, Known):
        untold = status if isinstance(status, Unknown) else Unknown("failed", f"{path} is a broken link", (path,))
        return DeviceNode(path, untold)
    seen = status.value
    accessible = seen.kind == "char" and seen.readable and seen.writable
    excerpt = f"{seen.mode} {seen.owner}" if seen.kind == "char" else f"a {seen.kind}, not a device"
    return DeviceNode(path, Known(accessible, Source("file", path, excerpt)), f"{seen.mode} {seen.owner}")
