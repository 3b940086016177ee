"""Where TensorFlow put operations, by the lines of a log that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from envcheck.explain.signatures import Event
from envcheck.model import dataclass

PLACED = "tf-placed"


@dataclass
class Placed:
    """The operations that one device got."""

    device: str  # GPU:0, CPU:0, XLA_GPU:0
    count: int
    kinds: tuple[str, ...]  # the most frequent first

    @property
    def is_cpu(self) -> bool:
        """Return whether it is the processor."""
        return self.device.removeprefix("XLA_").startswith("CPU")


def list_placements(events: Iterable[Event]) -> tuple[Placed, ...]:
    """Count operations by device, GPUs first.

    TensorFlow 1 writes the placer's lines to its log and again, bare, to standard output: those
    count only where there are no others.
    """
    placed = [event for event in events if event.signature == PLACED]
    logged = [event for event in placed if event.values.get("logged")] or placed
    by_device: dict[str, Counter[str]] = {}
    for event in logged:
        row = event.values
        device = row["placed_on"].upper()
        by_device.setdefault(device, Counter())[row["op"]] += event.count
    rows = [
        Placed(device, kinds.total(), tuple(name for name, _ in kinds.most_common()))
        for device, kinds in by_device.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.is_cpu, row.device)))


def list_reasons(events: Iterable[Event]) -> tuple[str, ...]:
    """Say why operations stayed on the processor, as far as the log does.

    Sample: "VariableV2: CPU" below "Colocation Debug Info:" (no GPU among its kernels).
    """
    reasons = []
    for event in events:
        row = event.values
        if event.signature == "tf-op-kernels":
            reasons.append(f"{row['cpu_op']} has no kernel for a GPU here.")
        elif event.signature == "tf-device-ignored":
            reasons.append(f"{row['placed_node']} stays with its input {row['placed_after']}.")
    return tuple(dict.fromkeys(reasons))
