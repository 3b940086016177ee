"""Read what the kernel driver tells of one GPU in /proc/driver/nvidia/gpus."""

from __future__ import annotations

from typing import Dict, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source

_FOLDER = "/proc/driver/nvidia/gpus"


def read_information(host: Host, address: str) -> Tuple[Fact[str], Fact[str]]:
    """Return product name and UUID of the GPU at a PCI address."""
    path = f"{_FOLDER}/{address}/information"
    text = host.read_text(path, 8192)
    if not isinstance(text, Known):
        return text, text
    lines = parse_information(text.value)
    return _told(lines, "Model", path), _told(lines, "GPU UUID", path)


def _told(lines: Dict[str, str], name: str, path: str) -> Fact[str]:
    value = lines.get(name, "")
    if not value or "?" in value or value == "Unknown":  # the driver has not initialised this GPU yet
        return Absent((f"{path}: {name}",))
    return Known(value, Source("file", path, f"{name}: {value}"))


def parse_information(text: str) -> Dict[str, str]:
    r"""Read the lines of an information file.

    "Model: \t\t NVIDIA GeForce RTX 3090\nIRQ:   \t\t 151\nGPU UUID: \t GPU-5a1b…\nBus Location: \t 0000:01:00.0\n"
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}
