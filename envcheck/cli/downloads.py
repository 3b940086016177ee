"""Read from what pip and uv print how far their downloads are, and what they installed."""

from __future__ import annotations

import re
import time

from envcheck.model import canonical_name

# pip says "Downloading torch-2.8.0.whl (888.1 MB)", uv "Downloading torch (846.0MiB)"
_BEGINS = re.compile(r"\s*Downloading (?:\S*/)?([^\s/]+?)(?:\.metadata)? \(([\d.]+) ?([kMKG]?i?)B")
_RAW = re.compile(r"Progress (\d+) of (\d+)")  # pip --progress-bar=raw
_ENDS = re.compile(r"\s*Downloaded (\S+)")  # uv
_ADDS = re.compile(r" \+ ([\w.-]+)==(\S+)")  # uv
_PIP_ADDS = "Successfully installed "
_UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Downloads:
    """The downloads of one installation."""

    def __init__(self) -> None:
        self.installed: dict[str, str] = {}  # canonical name -> version
        self._sizes: dict[str, float] = {}  # of each file that was begun, in bytes
        self._ended: set[str] = set()
        self._name, self._part, self._since = "", 0.0, 0.0

    def hears(self, line: str) -> bool:
        """Take in a line; return whether it tells of nothing but the bytes so far."""
        raw = _RAW.match(line)
        if raw:
            self._part = float(raw[1])
            self._sizes[self._name] = float(raw[2])
            return True
        begins, ends, adds = _BEGINS.match(line), _ENDS.match(line), _ADDS.match(line)
        if line.startswith(("Installing collected", "Prepared ")):
            self._ended.update(self._sizes)
        if begins:
            if self._name.endswith((".whl", ".gz")):  # pip loads one after another
                self._ended.add(self._name)
            self._name, self._part = begins[1], 0.0
            self._sizes[self._name] = float(begins[2]) * _UNITS[begins[3]]
            self._since = self._since or time.monotonic()
        elif ends:
            self._ended.add(ends[1])
        elif adds:
            self.installed[canonical_name(adds[1])] = adds[2]
        elif line.startswith(_PIP_ADDS):
            for word in line[len(_PIP_ADDS) :].split():
                name, _, version = word.rpartition("-")
                self.installed[canonical_name(name)] = version
        return False

    @property
    def received(self) -> float:
        """Return the bytes so far."""
        ended = sum(self._sizes.get(name, 0.0) for name in self._ended)
        return ended if self._name in self._ended else ended + self._part

    def status(self) -> str:
        """Say what is loaded, how much of how much, how fast, and how long it takes yet.

        "" while nothing is loaded.
        """
        received, total = self.received, sum(self._sizes.values())
        if not self._name or received >= total:
            return ""
        text = f"{format_bytes(received)} of {format_bytes(total)}"
        speed = received / max(time.monotonic() - self._since, 0.1)
        if speed:
            text += f", {format_bytes(speed)}/s, {(total - received) / speed:.0f} s left"
        return f"{text}: {self._name.partition('-')[0]}"


def format_bytes(count: float) -> str:
    """Write a size as installers do: 2.9 GB."""
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.{int(count < 10)}f} {unit}"
    return f"{count / 1000:.1f} GB"
